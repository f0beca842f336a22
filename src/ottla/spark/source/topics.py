"""What the brokers say about the topics of a read: which partitions there are, and which offsets a position means."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.deadline import Deadline
from ottla.client.failures import ClientFailure
from ottla.client.fetch import Appetite, Fetched, fetch
from ottla.client.metadata import NO_LEADER
from ottla.client.offsets import Isolation, earliest_offsets, latest_offsets, list_offsets
from ottla.spark.option_words import BadOption
from ottla.spark.source.options import Assigned, Matching, Named, Subscription
from ottla.spark.source.positions import EARLIEST, LATEST, Edge, Offsets, Position, Since
from ottla.wire.batch_header import iter_headers

_SAMPLE_BYTES = 128 * 1024


class DataLoss(Exception):
    """Records that the query has not seen are gone. The text says which."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some records may have been lost: they were removed by retention, or the topic was deleted. "
            "To go on with what is left, set the option 'failOnDataLoss' to 'false'"
        )


@dataclass(frozen=True)
class Topics:
    cluster: Cluster
    subscription: Subscription
    isolation: Isolation

    def without(self, names: frozenset[str]) -> "Topics":
        """All but these topics, which are known to be gone."""
        match self.subscription:
            case Named(topics):
                return replace(self, subscription=Named(tuple(name for name in topics if name not in names)))
            case Assigned(partitions):
                return replace(
                    self, subscription=Assigned(tuple(place for place in partitions if place.topic not in names))
                )
            case _:
                return self

    async def partitions(self) -> list[TopicPartition]:
        """All there are now. Topics that are subscribed by name have to be there."""
        match self.subscription:
            case Assigned(partitions):
                topics = await self.cluster.topics({place.topic for place in partitions})
                for place in partitions:
                    if place.partition not in topics[place.topic].leaders:
                        raise BadOption(f"option 'assign' names {place}, which does not exist")
                return list(partitions)
            case Matching(pattern):
                topics = await self.cluster.topics_like(pattern)
            case named:
                topics = await self.cluster.topics(named.topics)
        return sorted(TopicPartition(TopicName(name), index) for name, view in topics.items() for index in view.leaders)

    async def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where readers get to: the last stable offset for those who read what is committed."""
        found = await latest_offsets(self.cluster, list(places), self.isolation)
        return {place: int(offset) for place, offset in found.items()}

    async def starts(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await earliest_offsets(self.cluster, list(places))
        return {place: int(offset) for place, offset in found.items()}

    async def start(
        self, position: Position, places: Sequence[TopicPartition], is_late_refused: bool
    ) -> dict[TopicPartition, int]:
        """`is_late_refused`: whether a time after the last record is an error, or means the end."""
        return await self._resolve(position, places, "startingOffsets", is_late_refused)

    async def end(self, position: Position, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._resolve(position, places, "endingOffsets", False)

    async def since(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is not older; None where all are."""
        found = await list_offsets(self.cluster, timestamps, self.isolation)
        return {place: None if one.offset < 0 else int(one.offset) for place, one in found.items()}

    async def wait_beyond(self, ends: Mapping[TopicPartition, int], wait_ms: int) -> None:
        """Until some leader has something behind these ends, or time is up."""
        deadline = self.cluster.deadline(wait_ms / 1000)
        long, about = self.cluster.deadline(), list(ends)
        groups = await self.cluster.patiently(lambda: self.cluster.by_leader(about, long), long)
        rounds = {
            asyncio.create_task(self._poll({place: ends[place] for place in places}, wait_ms, deadline))
            for leader, places in groups.items()
            if leader != NO_LEADER
        }
        if not rounds:
            await asyncio.sleep(wait_ms / 1000)
            return
        done, waiting = await asyncio.wait(rounds, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:  # the broker answers them soon, too; nobody needs to be there for it
            _left_behind.add(one)
            one.add_done_callback(_let_go)
        for one in done:
            one.result()

    async def _poll(self, ends: Mapping[TopicPartition, int], wait_ms: int, deadline: Deadline) -> None:
        appetite = Appetite(wait_ms_max=wait_ms, bytes_max=1, isolation=self.isolation)
        try:
            await fetch(self.cluster, ends, appetite, deadline)
        except ClientFailure as failure:
            if not failure.is_retriable:
                raise

    async def offset_bytes(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """How many bytes of the log an offset takes, by the batches that come next."""
        appetite = Appetite(wait_ms_max=0, partition_bytes_max=_SAMPLE_BYTES, isolation=self.isolation)
        found = await fetch(self.cluster, starts, appetite)
        return {
            place: size
            for place, one in found.items()
            if isinstance(one, Fetched) and (size := _bytes_per_offset(one.records)) is not None
        }

    async def _resolve(
        self, position: Position, places: Sequence[TopicPartition], name: str, is_late_refused: bool
    ) -> dict[TopicPartition, int]:
        match position:
            case Edge(offset):
                return await (self.ends(places) if offset == LATEST else self.starts(places))
            case Offsets(given):
                _check_same(name, given, places)
                return await self._with_edges(given)
            case Since(timestamp_ms):
                return await self._by_time(dict.fromkeys(places, timestamp_ms), is_late_refused)
            case by_time:
                _check_same(f"{name}ByTimestamp", by_time.by_partition, places)
                return await self._by_time(by_time.by_partition, is_late_refused)

    async def _with_edges(self, given: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        ends = await self.ends(place for place, offset in given.items() if offset == LATEST)
        starts = await self.starts(place for place, offset in given.items() if offset == EARLIEST)
        return {**given, **ends, **starts}

    async def _by_time(self, timestamps: Mapping[TopicPartition, int], is_refused: bool) -> dict[TopicPartition, int]:
        found = await self.since(timestamps)
        late = [place for place, offset in found.items() if offset is None]
        if late and is_refused:
            raise BadOption(
                f"no record of {late[0]} is as late as the starting time {timestamps[late[0]]}; to start at the end "
                "of such partitions, set the option 'startingOffsetsByTimestampStrategy' to 'latest'"
            )
        return {**{place: offset for place, offset in found.items() if offset is not None}, **await self.ends(late)}


_left_behind: set[asyncio.Task[None]] = set()


def _let_go(one: asyncio.Task[None]) -> None:
    _left_behind.discard(one)
    if not one.cancelled():
        one.exception()  # what it failed with, the next question fails with


def _check_same(name: str, given: Mapping[TopicPartition, int], places: Sequence[TopicPartition]) -> None:
    """As in the connector: a partition that is forgotten is a mistake that nobody would notice."""
    missing, unknown = sorted(set(places) - set(given)), sorted(set(given) - set(places))
    if missing or unknown:
        told = ((missing, "missing"), (unknown, "unknown"))
        said = [f"{', '.join(map(str, some))} {what}" for some, what in told if some]
        raise BadOption(
            f"option '{name}' must name every partition that is read, -2 for the earliest offset and -1 for the "
            f"latest: {'; '.join(said)}"
        )


def _bytes_per_offset(records: memoryview) -> float | None:
    headers = [header for _, header in iter_headers(records)]
    if not headers:
        return None
    offsets = headers[-1].last_offset + 1 - headers[0].base_offset
    return sum(header.size for header in headers) / max(offsets, 1)
