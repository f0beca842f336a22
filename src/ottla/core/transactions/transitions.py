"""How one transaction becomes the next: pure functions from value to value. Whether it may is decided elsewhere.

Data is written with the epoch a transaction was begun with, its markers with the epoch it was ended with. From
transactions version 2 on (KIP-890), and whenever a producer is fenced, the second is higher by one.
"""

from collections.abc import Mapping

from ottla.core.transactions.records import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Status,
    TopicPartition,
    Transaction,
)

S = Status
_COMPLETE = frozenset({S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
PREDECESSORS: Mapping[Status, frozenset[Status]] = {
    S.EMPTY: _COMPLETE | {S.EMPTY},
    S.ONGOING: _COMPLETE | {S.EMPTY, S.ONGOING},
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    S.PREPARE_ABORT: _COMPLETE | {S.EMPTY, S.ONGOING},
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
}
"""What may stand before a status in the log. The two that are missing are names which no record carries."""


def begun(transaction: Transaction, partitions: frozenset[TopicPartition], version: int, now_ms: int) -> Transaction:
    """With more partitions, opened if it was not open."""
    is_open = transaction.status is S.ONGOING
    return transaction._replace(
        status=S.ONGOING,
        partitions=transaction.partitions | partitions,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        previous_producer_id=transaction.producer_id,
        client_version=version,
    )


def prepared(
    transaction: Transaction, committed: bool, version: int, now_ms: int, new_producer_id: int = NO_PRODUCER_ID
) -> Transaction:
    """Ended as its producer wishes. With a new producer id where the epochs of the old one are used up."""
    transaction = _adopted(transaction)
    if version < EPOCH_BUMP_VERSION:
        return _closing(transaction, committed, now_ms)._replace(client_version=version)
    following, following_epoch = transaction.next_producer_id, transaction.next_epoch
    if following != NO_PRODUCER_ID:
        following_epoch += 1
    elif needs_new_id(transaction, version):
        assert new_producer_id != NO_PRODUCER_ID
        following = new_producer_id
    return _closing(transaction, committed, now_ms)._replace(
        epoch=min(transaction.epoch + 1, EPOCH_MAX),
        last_epoch=transaction.epoch,
        next_producer_id=following,
        next_epoch=following_epoch,
        client_version=version,
    )


def needs_new_id(transaction: Transaction, version: int) -> bool:
    """Whether ending this transaction begins an epoch that its producer id does not have."""
    transaction = _adopted(transaction)
    is_moving_on = transaction.next_producer_id != NO_PRODUCER_ID
    return version >= EPOCH_BUMP_VERSION and transaction.epoch >= LAST_USABLE_EPOCH and not is_moving_on


def fenced(transaction: Transaction, version: int, now_ms: int) -> Transaction:
    """Aborted against its producer's will, which loses its epoch. If it was the last one, InitProducerId goes on."""
    transaction = _adopted(transaction)
    bumps = version >= EPOCH_BUMP_VERSION
    is_moving_on = transaction.next_producer_id != NO_PRODUCER_ID
    return _closing(transaction, False, now_ms)._replace(
        epoch=min(transaction.epoch + 1, EPOCH_MAX),
        last_epoch=transaction.epoch if bumps else NO_EPOCH,
        next_epoch=transaction.next_epoch + 1 if is_moving_on else NO_EPOCH,
        client_version=version,
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """All markers stand."""
    is_commit = transaction.status is S.PREPARE_COMMIT
    producer_id, epoch = transaction.identity
    return transaction._replace(
        producer_id=producer_id,
        epoch=epoch,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_EPOCH,
        status=S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        updated_ms=now_ms,
    )


def emptied(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """A producer begins anew; its identity is the caller's business."""
    return transaction._replace(
        status=S.EMPTY,
        partitions=NO_PARTITIONS,
        started_ms=-1,
        updated_ms=now_ms,
        timeout_ms=timeout_ms,
        previous_producer_id=transaction.producer_id,
    )


def _closing(transaction: Transaction, committed: bool, now_ms: int) -> Transaction:
    # An abort without an open transaction began when it was asked for; that it has begun the format demands.
    is_open = transaction.status is S.ONGOING
    return transaction._replace(
        status=S.PREPARE_COMMIT if committed else S.PREPARE_ABORT,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        previous_producer_id=transaction.producer_id,
    )


def _adopted(transaction: Transaction) -> Transaction:
    """A kept transaction under the newer epoch of its own producer id, so that its markers are above both."""
    if not transaction.is_kept or transaction.next_producer_id != transaction.producer_id:
        return transaction
    return transaction._replace(epoch=transaction.next_epoch, next_producer_id=NO_PRODUCER_ID, next_epoch=NO_EPOCH)
