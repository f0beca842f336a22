"""EndTxn: may this producer end its transaction so, and is it asking again?

In the classic protocol the epoch stays, so a question asked again looks like the first one. From version 2 on (KIP-890)
each end moves the epoch: who asks with the current epoch means the transaction at hand, who asks with the one before
asks again, and an EndTxn that comes too late finds an epoch that is gone.
"""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import EndTransaction, EndTransactionReply, ProducerIdNeeded
from ottla.core.transactions.records import (
    EPOCH_BUMP_VERSION,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_ID,
    Identity,
    Status,
    Transaction,
)
from ottla.core.transactions.transitions import needs_new_id, prepared

Ended = tuple[Transaction | None, EndTransactionReply | ProducerIdNeeded]
"""The prepared transaction, or None where there is nothing to do, and the answer."""


def end(transaction: Transaction, ask: EndTransaction, now_ms: int) -> Ended:
    if ask.transaction_version < EPOCH_BUMP_VERSION:
        return _end_classic(transaction, ask, now_ms)
    asker = Identity(ask.producer_id, ask.producer_epoch)
    if _is_retry(transaction, asker):
        _check_retry(transaction, ask.committed)
        return None, EndTransactionReply(*transaction.identity)
    if asker.producer_id != transaction.identity.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{ask.transactional_id} has another producer id")
    if asker.epoch != transaction.identity.epoch or transaction.status.is_prepared:
        raise Refused(ErrorCode.PRODUCER_FENCED, f"{ask.transactional_id} is at another epoch")
    if transaction.status is not Status.ONGOING and ask.committed:
        raise _wrong_state(transaction)
    if needs_new_id(transaction, ask.transaction_version) and ask.new_producer_id == NO_PRODUCER_ID:
        return None, ProducerIdNeeded()
    ended = prepared(transaction, ask.committed, ask.transaction_version, now_ms, ask.new_producer_id)
    return ended, EndTransactionReply(*ended.identity)


def _is_retry(transaction: Transaction, asker: Identity) -> bool:
    if not (transaction.status.is_prepared or transaction.status.is_complete):
        return False
    following = transaction.identity
    if asker.producer_id == following.producer_id:
        return asker.epoch + 1 == following.epoch
    before = transaction.producer_id if transaction.status.is_prepared else transaction.previous_producer_id
    return asker == (before, LAST_USABLE_EPOCH) and following.epoch == 0


def _check_retry(transaction: Transaction, committed: bool) -> None:
    """Raise Refused unless the end that was asked for stands."""
    if committed != (transaction.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)):
        raise _wrong_state(transaction)
    if transaction.status.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is being ended")
    if transaction.epoch > LAST_USABLE_EPOCH:
        # Only a fence goes so far. The epoch is nobody's; InitProducerId finds a new producer id.
        raise Refused(ErrorCode.PRODUCER_FENCED, "the producer id has no epochs left")


def _end_classic(transaction: Transaction, ask: EndTransaction, now_ms: int) -> Ended:
    identity = transaction.identity
    if ask.producer_id != identity.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{ask.transactional_id} has another producer id")
    if ask.producer_epoch != identity.epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED, f"{ask.transactional_id} is at another epoch")
    status = transaction.status
    if status is Status.ONGOING and not transaction.is_kept:
        return prepared(transaction, ask.committed, ask.transaction_version, now_ms), EndTransactionReply()
    if not (status.is_prepared or status.is_complete):
        raise _wrong_state(transaction)
    if ask.committed != (status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)):
        raise _wrong_state(transaction)
    if status.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is being ended")
    return None, EndTransactionReply()


def _wrong_state(transaction: Transaction) -> Refused:
    return Refused(ErrorCode.INVALID_TXN_STATE, f"the transaction is in state {transaction.status.kafka_name}")
