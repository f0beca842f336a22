"""InitProducerId: who the producer of a transactional id is (KIP-98, KIP-360, KIP-939)."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import InitProducerId, InitProducerIdReply, ProducerIdNeeded
from ottla.core.transactions.records import (
    LAST_USABLE_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Identity,
    Status,
    Transaction,
)
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.transitions import emptied, fenced

Initialised = tuple[Transaction | None, InitProducerIdReply | ProducerIdNeeded]
"""What the transaction becomes, if anything, and the answer."""


def check_shape(ask: InitProducerId, settings: TransactionSettings) -> None:
    if (ask.enable_two_phase_commit or ask.keep_prepared) and not settings.has_two_phase_commit:
        raise Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "two-phase commit is disabled by transaction.two.phase.commit.enable",
        )
    if not ask.enable_two_phase_commit and not 0 < ask.timeout_ms <= settings.timeout_ms_max:
        raise Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{ask.timeout_ms} ms, transaction.max.timeout.ms is less")
    if (ask.producer_id == NO_PRODUCER_ID) != (ask.producer_epoch == NO_EPOCH):
        raise Refused(ErrorCode.INVALID_REQUEST, "a producer id without an epoch, or an epoch without an id")


def initialise(transaction: Transaction | None, ask: InitProducerId, version: int, now_ms: int) -> Initialised:
    if transaction is None:
        if ask.new_producer_id == NO_PRODUCER_ID:
            return None, ProducerIdNeeded()
        created = Transaction(ask.new_producer_id, 0, _timeout_ms(ask), updated_ms=now_ms)
        return created, _reply(created)
    if transaction.status.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is not over")
    if transaction.status is Status.ONGOING:
        return _interrupt(transaction, ask, version, now_ms)
    return _begin_anew(transaction, ask, now_ms)


def _interrupt(transaction: Transaction, ask: InitProducerId, version: int, now_ms: int) -> Initialised:
    """There is an open transaction. Whoever expects to be an earlier producer has no say in it."""
    if _expects(ask) and _expected(ask) != transaction.identity:
        raise _fenced(ask)
    if ask.keep_prepared:
        return _keep(transaction, ask, now_ms)
    return fenced(transaction, version, now_ms), InitProducerIdReply(error=ErrorCode.CONCURRENT_TRANSACTIONS)


def _keep(transaction: Transaction, ask: InitProducerId, now_ms: int) -> Initialised:
    """The transaction stays open for its verdict, which only the new identity may bring."""
    producer_id, epoch = transaction.identity
    epoch += 1
    if epoch >= LAST_USABLE_EPOCH:
        if ask.new_producer_id == NO_PRODUCER_ID:
            return None, ProducerIdNeeded()
        producer_id, epoch = ask.new_producer_id, 0
    kept = transaction._replace(
        next_producer_id=producer_id,
        next_epoch=epoch,
        updated_ms=now_ms,
        timeout_ms=NO_TIMEOUT_MS if ask.enable_two_phase_commit else transaction.timeout_ms,
    )
    reply = InitProducerIdReply(
        producer_id=producer_id,
        producer_epoch=epoch,
        ongoing_producer_id=transaction.producer_id,
        ongoing_producer_epoch=transaction.epoch,
    )
    return kept, reply


def _begin_anew(transaction: Transaction, ask: InitProducerId, now_ms: int) -> Initialised:
    empty = emptied(transaction, _timeout_ms(ask), now_ms)
    if _expects(ask):
        if _is_answered_already(transaction, _expected(ask)):
            return empty._replace(previous_producer_id=transaction.previous_producer_id), _reply(empty)
        if _expected(ask) != (transaction.producer_id, transaction.epoch):
            raise _fenced(ask)
    last_epoch = transaction.epoch if _expects(ask) else NO_EPOCH
    if transaction.epoch < LAST_USABLE_EPOCH:
        following = empty._replace(epoch=transaction.epoch + 1, last_epoch=last_epoch)
    elif ask.new_producer_id == NO_PRODUCER_ID:
        return None, ProducerIdNeeded()
    else:
        following = empty._replace(producer_id=ask.new_producer_id, epoch=0, last_epoch=last_epoch)
    return following, _reply(following)


def _is_answered_already(transaction: Transaction, expected: Identity) -> bool:
    """A retry gets the answer that it missed. Another producer's question in between has set `last_epoch` to -1."""
    if transaction.last_epoch == NO_EPOCH or expected.epoch != transaction.last_epoch:
        return False
    if transaction.epoch > LAST_USABLE_EPOCH:
        return False
    has_moved_on = expected.producer_id == transaction.previous_producer_id and expected.epoch >= LAST_USABLE_EPOCH
    return expected.producer_id == transaction.producer_id or has_moved_on


def _expects(ask: InitProducerId) -> bool:
    return ask.producer_id != NO_PRODUCER_ID


def _expected(ask: InitProducerId) -> Identity:
    return Identity(ask.producer_id, ask.producer_epoch)


def _fenced(ask: InitProducerId) -> Refused:
    return Refused(ErrorCode.PRODUCER_FENCED, f"{ask.transactional_id} has another producer by now")


def _timeout_ms(ask: InitProducerId) -> int:
    return NO_TIMEOUT_MS if ask.enable_two_phase_commit else ask.timeout_ms


def _reply(transaction: Transaction) -> InitProducerIdReply:
    return InitProducerIdReply(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)
