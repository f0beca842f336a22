"""The batches of one partition on their way: kept in order, sent again only when that is safe. Pure.

A broker remembers the last five batches of a producer in a partition, so no more are under way at once: whatever
became of them, sending them again in the same order stores each exactly once. When one comes back unstored, those
behind it are let come back too, and then all go again. The first goes alone: to a broker that does not know the
producer yet, a second that overtook the first would look like one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.limits import PRODUCER_BATCHES_REMEMBERED
from ottla.base.types import Offset, TopicPartition
from ottla.client.deadline import Backoff
from ottla.client.failures import FENCING, BrokerRefused, ClientFailure, ConnectionLost, Fenced, OutcomeUnknown
from ottla.wire.batch_header import Bytes

_STORED_PERHAPS = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Codes after which the batch may lie in the log all the same."""
STORED_BEFORE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class NotDelivered(ClientFailure):
    """The batch is not in the log, and will not be."""


@dataclass(slots=True, eq=False)
class Batch:
    records: Bytes
    give_up_at: float
    number: int = -1
    is_uncertain: bool = False
    """An earlier attempt may have stored it."""


class Settled(NamedTuple):
    """What became of a batch; the offset is None if it was stored longer ago than the broker remembers."""

    batch: Batch
    offset: Offset | None = None
    failure: ClientFailure | None = None


class Outbound:
    def __init__(self, place: TopicPartition, backoff: Backoff) -> None:
        self.place = place
        self.failure: ClientFailure | None = None
        """After this there is no way on: the sequence has a gap."""
        self._backoff = backoff
        self._waiting: deque[Batch] = deque()
        self._flying: list[Batch] = []
        self._returned: list[Batch] = []
        """They come back, and go again when nothing is flying any more."""
        self._count = 0
        self._is_known = False
        self._attempt = 0
        self.rests_until = 0.0

    @property
    def is_empty(self) -> bool:
        return not (self._waiting or self._flying or self._returned)

    def check(self) -> None:
        """Whether there is any use in adding another."""
        if self.failure is not None:
            raise _verdict(self.place, Batch(b"", 0.0, self._count), self.failure) from self.failure

    def add(self, batch: Batch) -> None:
        batch.number = self._count
        self._count += 1
        self._waiting.append(batch)

    def is_ready(self, now: float) -> bool:
        if not self._waiting or self._returned or self.failure is not None or now < self.rests_until:
            return False
        # Not how many fly: an old one whose answer is lost must not be pushed out of the broker's memory by newer ones.
        window = PRODUCER_BATCHES_REMEMBERED if self._is_known else 1
        return not self._flying or self._waiting[0].number - self._flying[0].number < window

    def is_resting(self, now: float) -> bool:
        """Ready but for a pause after a failure."""
        return now < self.rests_until and self.is_ready(self.rests_until)

    @property
    def next_bytes(self) -> int:
        return len(self._waiting[0].records)

    def take(self) -> Batch:
        """Only when ready."""
        batch = self._waiting.popleft()
        self._flying.append(batch)
        return batch

    def on_stored(self, batch: Batch, offset: Offset | None) -> list[Settled]:
        self._flying.remove(batch)
        self._is_known, self._attempt = True, 0
        return [Settled(batch, offset), *self._turn_round(0.0)]

    def on_failed(self, batch: Batch, failure: ClientFailure, now: float) -> list[Settled]:
        """Whether an answer with an error code or none at all."""
        self._flying.remove(batch)
        batch.is_uncertain |= _may_be_stored(failure)
        may_pass = failure.is_retriable or self._is_consequence(batch, failure)
        if self.failure is None and may_pass and now < batch.give_up_at:
            self._returned.append(batch)
            return self._turn_round(now)
        return self._end(batch, failure)

    def postpone(self, failure: ClientFailure, now: float) -> list[Settled]:
        """It cannot even be sent for now: nobody knows where to."""
        head = self._waiting[0]
        if failure.is_retriable and now < head.give_up_at:
            self._rest(now)
            return []
        self._waiting.popleft()
        return self._end(head, failure)

    def give_up(self) -> list[Settled]:
        """Nothing is sent (again) from here on; what is under way is still told of."""
        if self.is_empty or self.failure is not None:
            return []
        self.failure = NotDelivered(f"{self.place} was given up")
        lost = [*self._returned, *self._waiting]
        self._returned.clear()
        self._waiting.clear()
        return [Settled(one, failure=_verdict(self.place, one, self.failure)) for one in lost]

    def _is_consequence(self, batch: Batch, failure: ClientFailure) -> bool:
        """Out of order because one before it has not arrived: it may arrive yet."""
        if not isinstance(failure, BrokerRefused) or failure.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return False
        return any(other.number < batch.number for other in (*self._flying, *self._returned))

    def _turn_round(self, now: float) -> list[Settled]:
        if self._returned and not self._flying and self.failure is None:
            self._waiting.extendleft(sorted(self._returned, key=lambda batch: batch.number, reverse=True))
            self._returned.clear()
            # What the broker has not seen, or has forgotten, must not be overtaken.
            self._is_known = False
            self._rest(now)
        return []

    def _rest(self, now: float) -> None:
        self.rests_until = now + self._backoff.pause_s(self._attempt)
        self._attempt += 1

    def _end(self, batch: Batch, failure: ClientFailure) -> list[Settled]:
        """One is lost, and so are all behind it; those under way will say so themselves."""
        first, self.failure = self.failure, self.failure or failure
        lost = [batch, *self._returned, *self._waiting]
        self._returned.clear()
        self._waiting.clear()
        why = failure if first is None else first
        return [Settled(one, failure=_verdict(self.place, one, why)) for one in lost]


def _may_be_stored(failure: ClientFailure) -> bool:
    if isinstance(failure, ConnectionLost):
        return failure.was_sent
    return isinstance(failure, BrokerRefused) and failure.code in _STORED_PERHAPS


def _verdict(place: TopicPartition, batch: Batch, failure: ClientFailure) -> ClientFailure:
    if isinstance(failure, BrokerRefused) and failure.code in FENCING:
        return Fenced(f"{place}: {failure}")
    if batch.is_uncertain:
        return OutcomeUnknown(f"batch {batch.number} to {place} may have been stored: {failure}")
    return NotDelivered(f"batch {batch.number} to {place} is not stored: {failure}")
