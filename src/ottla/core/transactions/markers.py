"""Markers that have been asked for and do not all stand yet. The log does not know them: a new coordinator asks again
for all, and a partition takes a marker twice."""

from itertools import count

from ottla.core.groups.deadlines import Deadlines
from ottla.core.transactions.asks import MarkersWritten, WriteMarkers
from ottla.core.transactions.outcome import MARKERS, Due
from ottla.core.transactions.records import Status, TopicPartition, Transaction


class Markers:
    __slots__ = ("_coordinator_epoch", "_deadlines", "_ids", "_next_id", "_resend_ms", "_waiting")

    def __init__(self, deadlines: Deadlines[Due], resend_ms: int, coordinator_epoch: int) -> None:
        self._deadlines = deadlines
        self._resend_ms = resend_ms
        self._coordinator_epoch = coordinator_epoch
        self._next_id = count(1)
        self._ids: dict[str, int] = {}
        self._waiting: dict[str, set[TopicPartition]] = {}

    def begin(self, transactional_id: str, transaction: Transaction, now_ms: int) -> WriteMarkers:
        """The markers of a transaction that is about to be prepared in the log."""
        self._ids[transactional_id] = next(self._next_id)
        return self._effect(transactional_id, transaction, transaction.partitions)

    def take_up(self, transactional_id: str, transaction: Transaction, now_ms: int) -> None:
        """The transaction is prepared in the log."""
        self._waiting[transactional_id] = set(transaction.partitions)
        self.arm(transactional_id, now_ms)

    def arm(self, transactional_id: str, now_ms: int) -> None:
        self._deadlines.set(Due(MARKERS, transactional_id), now_ms + self._resend_ms)

    def on_written(self, written: MarkersWritten) -> bool:
        """Whether now all of them stand."""
        waiting = self._waiting.get(written.transactional_id)
        if waiting is None or self._ids.get(written.transactional_id) != written.marker_id:
            return False
        waiting -= written.partitions
        return not waiting

    def are_written(self, transactional_id: str) -> bool:
        return not self._waiting.get(transactional_id)

    def again(self, transactional_id: str, transaction: Transaction) -> WriteMarkers:
        return self._effect(transactional_id, transaction, self._waiting[transactional_id])

    def forget(self, transactional_id: str) -> None:
        self._waiting.pop(transactional_id, None)
        self._ids.pop(transactional_id, None)
        self._deadlines.cancel(Due(MARKERS, transactional_id))

    def _effect(
        self,
        transactional_id: str,
        transaction: Transaction,
        partitions: frozenset[TopicPartition] | set[TopicPartition],
    ) -> WriteMarkers:
        return WriteMarkers(
            marker_id=self._ids[transactional_id],
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            coordinator_epoch=self._coordinator_epoch,
            committed=transaction.status is Status.PREPARE_COMMIT,
            partitions=tuple(sorted(partitions)),
            transaction_version=transaction.client_version,
        )
