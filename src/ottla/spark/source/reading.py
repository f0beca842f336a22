"""What a task does: fetch its ranges of offsets and hand out rows, many at a time.

Planning imports this as well, in a fresh process for every query, and never decodes: what brings numba along is
imported by the tasks.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client import fetch as client
from ottla.client.failures import BrokerRefused, ClientFailure
from ottla.client.fetch import Appetite, FetchOutcome, OutOfRange
from ottla.client.offsets import Isolation, earliest_offsets
from ottla.spark import connections
from ottla.spark.arrow.visible import Fetched, Window
from ottla.spark.source.planning import OFFSET_MAX, Ends, Range
from ottla.spark.source.topics import DataLoss

if TYPE_CHECKING:
    from ottla.spark.arrow.decode import RecordDecoder

log = logging.getLogger("ottla.spark")

_FETCH_BYTES = 32 * 1024 * 1024
_PARTITION_BYTES = 8 * 1024 * 1024
_WAIT_MS = 200
_FOLLOW_WAIT_MS = 20
_IDLE_SECONDS = 1.0
_FEW_ROWS = 20_000
"""Below, what came from several partitions travels to Spark as one batch."""


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """How all tasks of a read do it; travels to the workers."""

    kafka: Mapping[str, str]
    columns: tuple[str, ...]
    isolation: Isolation
    fail_on_data_loss: bool

    def rows(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """In the order of the log within each partition."""
        decoder = self.decoder()
        left = list(ranges)
        with ThreadPoolExecutor(1) as ahead:
            while left:
                together = {one.place: one for one in reversed(left)}
                left = [one for one in left if together[one.place] is not one]
                yield from _Round(self, decoder, list(together.values())).rows(ahead)

    def decoder(self) -> "RecordDecoder":
        from ottla.spark.arrow.decode import RecordDecoder

        return RecordDecoder(self.columns)

    def follow(self, starts: Ends) -> "Follower":
        """What comes behind these offsets, for as long as somebody asks."""
        return Follower(self, starts)


class _Round:
    """One range of each of several partitions, read side by side."""

    def __init__(
        self, plan: ReadPlan, decoder: "RecordDecoder", ranges: Sequence[Range], wait_ms: int = _WAIT_MS
    ) -> None:
        self._plan = plan
        self._wait_ms = wait_ms
        self._decoder = decoder
        self._cluster = connections.cluster_at(plan.kafka)
        self._windows = {one.place: Window(one.start, one.end) for one in sorted(ranges) if one.length > 0}
        self._patience = self._cluster.deadline()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {place: window.start for place, window in self._windows.items()}

    def rows(self, ahead: ThreadPoolExecutor) -> Iterator[pa.RecordBatch]:
        """While Spark takes what there is, the next answer is on its way."""
        if not self._windows:
            return
        answer = ahead.submit(self._fetch)
        while self._windows:
            batches = self._decoded(answer.result())
            if self._windows:
                answer = ahead.submit(self._fetch)
            if sum(batch.num_rows for batch in batches) <= _FEW_ROWS and len(batches) > 1:
                batches = [pa.concat_batches(batches)]
            yield from batches

    def next_batches(self) -> list[pa.RecordBatch]:
        """What comes next, if anything does within the time that is waited."""
        return self._decoded(self._fetch())

    def _fetch(self) -> dict[TopicPartition, FetchOutcome]:
        appetite = Appetite(
            wait_ms_max=self._wait_ms,
            bytes_max=_FETCH_BYTES,
            partition_bytes_max=_PARTITION_BYTES,
            isolation=self._plan.isolation,
        )
        return connections.run(client.fetch(self._cluster, self.positions, appetite))

    def _decoded(self, outcomes: Mapping[TopicPartition, FetchOutcome]) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        before = dict(self._windows)
        for place, outcome in outcomes.items():
            if isinstance(outcome, ClientFailure):
                self._move(place, self._after_failure(place, outcome))
                continue
            is_committed = self._plan.isolation == Isolation.READ_COMMITTED
            aborted = outcome.aborted if is_committed else None
            fetched = Fetched(place.topic, place.partition, outcome.records, aborted)
            decoded = self._decoder.decode(fetched, self._windows[place])
            batches += decoded.batches
            self._move(place, decoded.next_offset)
        if before != self._windows:
            self._patience = self._cluster.deadline()
        elif self._patience.is_over:
            self._complain()
        return batches

    def _complain(self) -> None:
        for place, window in self._windows.items():
            if window.end < OFFSET_MAX:  # else nobody has said that there is anything
                raise DataLoss(f"{place} should reach to offset {window.end} and gives nothing from {window.start} on")

    def _move(self, place: TopicPartition, offset: int) -> None:
        end = self._windows[place].end
        if offset >= end:
            del self._windows[place]
        else:
            self._windows[place] = Window(offset, end)

    def _after_failure(self, place: TopicPartition, failure: ClientFailure) -> int:
        """Where to go on: where we are, if it passes; behind what is lost, if that is allowed."""
        window = self._windows[place]
        if isinstance(failure, OutOfRange):
            log_start = self._log_start(failure)
            if log_start <= window.start:
                what = f"{place} has no offset {window.start} any more, as if it had been made anew"
                return self._lost(what, window.end)
            return self._lost(
                f"{place} begins at offset {log_start} now; wanted is {window.start}", min(log_start, window.end)
            )
        if not failure.is_retriable:
            raise failure
        if self._patience.is_over:
            if _is_unknown(failure):
                return self._lost(f"{place} does not exist any more", window.end)
            raise failure
        return window.start

    def _lost(self, what: str, offset: int) -> int:
        if self._plan.fail_on_data_loss:
            raise DataLoss(what)
        log.warning("%s; going on at %d, since failOnDataLoss is false", what, offset)
        return offset

    def _log_start(self, failure: OutOfRange) -> int:
        if failure.log_start >= 0:
            return int(failure.log_start)
        return int(connections.run(earliest_offsets(self._cluster, [failure.place]))[failure.place])


class Follower:
    """Partitions that are read as they grow."""

    def __init__(self, plan: ReadPlan, starts: Ends) -> None:
        ranges = [Range(place, start, OFFSET_MAX) for place, start in starts.items()]
        self._round = _Round(plan, plan.decoder(), ranges, _FOLLOW_WAIT_MS)
        self._last_rows = time.monotonic()

    @property
    def ends(self) -> Ends:
        return self._round.positions

    @property
    def is_idle(self) -> bool:
        """Nothing has come for a while, and what came should not wait for more."""
        return not self.ends or time.monotonic() - self._last_rows > _IDLE_SECONDS

    def next_batches(self) -> list[pa.RecordBatch]:
        batches = self._round.next_batches()
        if batches:
            self._last_rows = time.monotonic()
        return batches


def _is_unknown(failure: ClientFailure) -> bool:
    return isinstance(failure, BrokerRefused) and failure.code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
