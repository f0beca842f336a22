"""One idempotent or transactional producer, as one partition sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.limits import PRODUCER_BATCHES_REMEMBERED

SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1
NO_OFFSET = -1


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequences wrap: 0 follows 2^31-1."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + SEQUENCE_MAX + 1

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerSnapshot(NamedTuple):
    """What survives a restart: of the batches the last one alone. -1 where there is none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[RememberedBatch] = deque(maxlen=PRODUCER_BATCHES_REMEMBERED)
        """The last ones of the current epoch."""
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = NO_OFFSET
        """Where the open transaction begins, or -1."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def expects(self, sequence: int) -> bool:
        """Whether a batch of the current epoch may begin with `sequence`."""
        last = self.last_sequence
        return sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX)

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> RememberedBatch | None:
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def remember_earlier(self, batches: Iterable[RememberedBatch]) -> None:
        """As many of these as there is room for, in front of those that are remembered."""
        room = PRODUCER_BATCHES_REMEMBERED - len(self.batches)
        earlier = [*batches][-room:] if room else []
        self.batches.extendleft(reversed(earlier))

    def snapshot(self) -> ProducerSnapshot:
        last = self.batches[-1] if self.batches else RememberedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
        return ProducerSnapshot(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def restored(cls, snapshot: ProducerSnapshot) -> Producer:
        producer = cls(snapshot.producer_id, snapshot.epoch)
        if snapshot.last_offset >= 0:
            producer.batches.append(RememberedBatch(*snapshot[2:6]))
        producer.last_timestamp = snapshot.timestamp
        producer.coordinator_epoch = snapshot.coordinator_epoch
        producer.txn_first_offset = snapshot.txn_first_offset
        return producer
