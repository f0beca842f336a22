"""Fetch: record batches as they lie in the log, from many partitions at once. Whoever asked decodes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import BrokerRefused, ClientFailure
from ottla.client.metadata import by_topic
from ottla.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from ottla.client.pool import Lane
from ottla.client.spread import ask_leaders
from ottla.client.versions import ANY, Span
from ottla.wire.batch_header import BatchHeader, iter_headers
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

_BY_NAME = Span(at_most=12)
_NO_SESSION_EPOCH = -1
_CONSUMER = -1


class Aborted(NamedTuple):
    """Of this producer, what begins here and goes on until its next abort marker does not count."""

    producer_id: int
    first_offset: Offset


class Fetched(NamedTuple):
    records: memoryview
    """Whole batches but for the last, which may be cut off, and the first, which may begin before what was asked."""
    high_watermark: Offset
    last_stable_offset: Offset
    """-1 from brokers that do not tell."""
    log_start: Offset
    aborted: tuple[Aborted, ...]
    """Only when reading what is committed."""


class OutOfRange(BrokerRefused):
    """There is no such offset any more, or not yet."""

    def __init__(self, place: TopicPartition, log_start: Offset, high_watermark: Offset) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, about=str(place))
        self.place, self.log_start, self.high_watermark = place, log_start, high_watermark


FetchOutcome: TypeAlias = Fetched | ClientFailure


@dataclass(frozen=True, kw_only=True)
class Appetite:
    """How much to ask for, and how long the broker may wait until there is `bytes_min`."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 52_428_800
    partition_bytes_max: int = 1_048_576
    """One batch is given even if it is larger than both."""
    isolation: Isolation = Isolation.READ_COMMITTED


async def fetch(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    appetite: Appetite | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, FetchOutcome]:
    """One round: an outcome for every partition, read from its leader.

    If none but passing failures came back it is tried again until the deadline; otherwise a partition that failed so
    has its failure as the outcome, and is asked for again by the caller's next round. Waits for the slowest leader:
    to tail partitions of several brokers at once, run one round for each group of `cluster.by_leader`.
    """
    appetite, deadline = appetite or Appetite(), deadline or cluster.deadline()
    round_ = _Round(cluster, positions, appetite)
    outcomes: dict[TopicPartition, FetchOutcome] = {}
    if not positions:
        return outcomes
    failure: ClientFailure | None = None
    async for _ in deadline.attempts(cluster.backoff):
        try:
            outcomes = await ask_leaders(cluster, list(positions), round_.ask, deadline, Lane.FETCH)
        except ClientFailure as lost:  # no broker could say who leads them
            if not lost.is_retriable:
                raise
            failure = lost
            continue
        if not all(isinstance(one, ClientFailure) and one.is_retriable for one in outcomes.values()):
            return await _with_bounds(cluster, outcomes, deadline)
    if not outcomes:
        assert failure is not None
        raise failure
    return outcomes


def data_batches(fetched: Fetched) -> Iterator[tuple[int, BatchHeader]]:
    """Where the batches lie that count, and their headers: whole ones, no markers, nothing that was aborted."""
    waiting = deque(sorted(fetched.aborted, key=lambda one: one.first_offset))
    aborted: set[int] = set()
    for at, header in iter_headers(fetched.records):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.popleft().producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield at, header


def next_offset(fetched: Fetched, asked: int) -> Offset:
    """Where to go on: behind the last whole batch, also if nothing in it counts."""
    after = asked
    for _, header in iter_headers(fetched.records):
        after = max(after, header.next_offset)
    return Offset(after)


async def _with_bounds(
    cluster: Cluster, outcomes: dict[TopicPartition, FetchOutcome], deadline: Deadline
) -> dict[TopicPartition, FetchOutcome]:
    """Many brokers do not tell what there is to those who ask for what there is not."""
    blind = [place for place, one in outcomes.items() if isinstance(one, OutOfRange) and one.log_start < 0]
    if blind:
        earliest = await list_offsets(cluster, dict.fromkeys(blind, EARLIEST), deadline=deadline)
        latest = await list_offsets(cluster, dict.fromkeys(blind, LATEST), deadline=deadline)
        for place in blind:
            outcomes[place] = OutOfRange(place, earliest[place].offset, latest[place].offset)
    return outcomes


class _Round:
    def __init__(self, cluster: Cluster, positions: Mapping[TopicPartition, int], appetite: Appetite) -> None:
        self._cluster = cluster
        self._positions = positions
        self._appetite = appetite

    async def ask(self, leader: Connection, places: Sequence[TopicPartition]) -> dict[TopicPartition, FetchOutcome]:
        appetite, view = self._appetite, self._cluster.view
        topics = {name: view.topics[name] for name in by_topic(places)}
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=appetite.wait_ms_max,
            min_bytes=appetite.bytes_min,
            max_bytes=appetite.bytes_max,
            isolation_level=int(appetite.isolation),
            session_epoch=_NO_SESSION_EPOCH,
            topics=[
                FetchTopic(name, topics[name].id, [self._wanted(TopicPartition(TopicName(name), i)) for i in indexes])
                for name, indexes in by_topic(places).items()
            ],
        )
        # What is asked for by ids cannot be mixed with what has none.
        span = ANY if all(topic.has_id for topic in topics.values()) else _BY_NAME
        patience = Deadline(appetite.wait_ms_max / 1000 + self._cluster.settings.request_s)
        response = await leader.ask(request, patience, span, is_slow=True)
        if response.error_code:
            return dict.fromkeys(places, BrokerRefused(response.error_code, about="fetch"))
        names = {topic.id: name for name, topic in topics.items()}
        return {
            place: _outcome(place, one)
            for topic in response.responses
            for one in topic.partitions
            if (name := topic.topic or names.get(bytes(topic.topic_id)))
            and (place := TopicPartition(TopicName(name), one.partition_index)) in self._positions
        }

    def _wanted(self, place: TopicPartition) -> FetchPartition:
        return FetchPartition(
            place.partition,
            fetch_offset=self._positions[place],
            partition_max_bytes=self._appetite.partition_bytes_max,
        )


def _outcome(place: TopicPartition, one: PartitionData) -> FetchOutcome:
    if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange(place, Offset(one.log_start_offset), Offset(one.high_watermark))
    if one.error_code:
        return BrokerRefused(one.error_code, about=str(place))
    records: Any = one.records
    return Fetched(
        memoryview(records or b""),
        Offset(one.high_watermark),
        Offset(one.last_stable_offset),
        Offset(one.log_start_offset),
        tuple(Aborted(each.producer_id, Offset(each.first_offset)) for each in one.aborted_transactions or ()),
    )
