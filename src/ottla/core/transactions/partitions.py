"""Partitions of a transaction: may they be added, are they in it."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import AddPartitions, VerifyPartitions
from ottla.core.transactions.records import Status, Transaction
from ottla.core.transactions.transitions import begun


def add(transaction: Transaction, ask: AddPartitions, now_ms: int) -> Transaction | None:
    """The transaction with the partitions, or None if they are in it already."""
    check_producer(transaction, ask)
    if transaction.is_kept:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "the transaction is prepared and can only be ended")
    if transaction.status is Status.ONGOING and ask.partitions <= transaction.partitions:
        return None
    return begun(transaction, ask.partitions, ask.transaction_version, now_ms)


def verify(transaction: Transaction, ask: VerifyPartitions) -> tuple[ErrorCode, ...]:
    check_producer(transaction, ask)
    return tuple(
        ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in ask.partitions
    )


def check_producer(transaction: Transaction, ask: AddPartitions | VerifyPartitions) -> None:
    """Raise Refused unless the asker is the producer and no transaction is just ending."""
    producer_id, epoch = transaction.identity
    if ask.producer_id != producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{ask.transactional_id} has another producer id")
    if ask.producer_epoch != epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED, f"{ask.transactional_id} is at epoch {epoch}")
    if transaction.status.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is not over")
