"""Tail mode: rows go to the sink within milliseconds, for queries that only map them. Each of them once all the same.

A micro-batch is an *epoch*: one task follows the log for some seconds and hands on each batch as it comes, while the
sink behind it writes. Where the epoch ended is known only then, so the task writes that down before it ends, in the
register of epochs; Spark's checkpoint holds the number alone. An epoch that is repeated reads exactly what was written
down. Of two tasks that read one epoch only the later can write.
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ottla.base.types import TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.spark import connections
from ottla.spark.option_words import BadOption
from ottla.spark.register import Register
from ottla.spark.source.batch import plan_of, topics_of
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import Ends, ranges_between
from ottla.spark.source.progress import Json, Progress
from ottla.spark.source.reading import ReadPlan
from ottla.spark.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa

REGISTER_TOPIC = "ottla-spark-epochs"
_NAME, _EPOCH, _START = "@tail", "@epoch", "@start"


class WrongEpoch(Exception):
    """The checkpoint and the register of epochs do not belong together."""


@dataclass(frozen=True)
class TailOffset:
    """What Spark keeps: which epoch of which tail, and where the tail began."""

    name: str
    epoch: int
    began: Ends

    @classmethod
    def from_json(cls, offsets: Json) -> "TailOffset":
        if _EPOCH not in offsets:
            raise BadOption("the checkpoint is of a query without mode 'tail'; the mode cannot be changed")
        return cls(offsets[_NAME], offsets[_EPOCH], Progress.from_json(offsets[_START]).ends)

    def as_json(self) -> Json:
        return {_NAME: self.name, _EPOCH: self.epoch, _START: Progress(self.began).as_json()}

    @property
    def next(self) -> "TailOffset":
        return TailOffset(self.name, self.epoch + 1, self.began)


@dataclass(frozen=True)
class Epoch:
    """The last one that was written down."""

    number: int
    starts: Ends
    ends: Ends

    def as_bytes(self) -> bytes:
        sides = [Progress(side).as_json() for side in (self.starts, self.ends)]
        return json.dumps({"epoch": self.number, "starts": sides[0], "ends": sides[1]}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Epoch":
        found = json.loads(content)
        return cls(found["epoch"], *(Progress.from_json(found[side]).ends for side in ("starts", "ends")))


class Begin(NamedTuple):
    """Where an epoch begins."""

    ends: Ends
    """Of the epoch before."""
    known_to: int | None = None
    """Before this offset of the register nothing is said about the epoch itself. None: nobody has looked."""


class EpochToRead(InputPartition):
    """For the one task of an epoch."""

    def __init__(self, offset: TailOffset, begin: Begin) -> None:
        self.offset, self.begin = offset, begin


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._plan = plan_of(options)
        self._available: dict[TopicPartition, int] = {}
        self._begin: tuple[TailOffset, Begin] | None = None
        """What was found last: Spark asks twice about each epoch, and where one has ended never changes."""

    def prepareForTriggerAvailableNow(self) -> None:
        raise BadOption("mode 'tail' follows a topic for ever; with trigger availableNow leave the mode out")

    # Offsets

    def initialOffset(self) -> Json:
        options, topics = self._options, topics_of(self._options)
        places = connections.run(topics.partitions())
        start = connections.run(topics.start(options.start, places, options.is_late_start_refused))
        return TailOffset(uuid.uuid4().hex, 0, start).as_json()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        before = TailOffset.from_json(start)
        has_more = connections.run(self._has_more(topics_of(self._options), before))
        return before.next.as_json() if has_more else start

    def reportLatestOffset(self) -> Json | None:
        return Progress(self._available).as_json() if self._available else None

    async def _has_more(self, topics: Topics, before: TailOffset) -> bool:
        begin = (await self._begin_after(before)).ends
        for is_last in (False, True):
            self._available = await topics.ends(await topics.partitions())
            if ranges_between(begin, self._available):
                return True
            if not is_last:
                await topics.wait_beyond(self._available, self._options.poll_wait_ms)
        return False

    # Rows

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        wanted = TailOffset.from_json(end)
        if wanted.epoch == 0 or TailOffset.from_json(start) == wanted:
            return []  # Spark begins with a batch of nothing
        before = TailOffset(wanted.name, wanted.epoch - 1, wanted.began)
        return [EpochToRead(wanted, connections.run(self._begin_of_all(topics_of(self._options), before)))]

    async def _begin_of_all(self, topics: Topics, before: TailOffset) -> Begin:
        begin = await self._begin_after(before)
        places = self._available or await topics.partitions()
        return begin._replace(ends={**dict.fromkeys(places, 0), **begin.ends})

    async def _begin_after(self, before: TailOffset) -> Begin:
        if self._begin is None or self._begin[0] != before:
            is_next = self._begin is not None and self._begin[0].next == before
            known_to = self._begin[1].known_to if self._begin is not None and is_next else None
            self._begin = before, await begin_after(self._register(), before, known_to)
        return self._begin[1]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, EpochToRead)
        return read_epoch(self._register(), self._plan, self._options.epoch_ms / 1000, partition)

    # Progress

    def commit(self, end: Json) -> None:
        if self._options.group is not None:
            ends = connections.run(begin_after(self._register(), TailOffset.from_json(end))).ends
            cluster = connections.cluster_at(self._options.kafka)
            connections.run(commit_offsets(cluster, self._options.group, ends))

    def stop(self) -> None:
        """Connections end with the process."""

    def _register(self) -> Register:
        return Register(connections.cluster_at(self._options.kafka), REGISTER_TOPIC)


async def begin_after(register: Register, offset: TailOffset, known_to: int | None = None) -> Begin:
    """Where an epoch ended: the last one, or the one before it."""
    if offset.epoch == 0:
        return Begin(offset.began)
    name = offset.name.encode()
    word = await register.look(name, known_to)
    if word.content is None and known_to is not None:
        word = await register.look(name)
    content, known_to = word
    last = None if content is None else Epoch.from_bytes(content)
    if last is not None and last.number == offset.epoch:
        return Begin(last.ends, known_to)
    if last is not None and last.number == offset.epoch + 1:
        return Begin(last.starts)
    raise WrongEpoch(
        f"the checkpoint is at epoch {offset.epoch}, and the last one in {REGISTER_TOPIC} is "
        f"{'none' if last is None else last.number}: one of them has been set back, for example by a backup. "
        "Restore the newest, or begin a new checkpoint"
    )


def read_epoch(register: Register, plan: ReadPlan, seconds: float, wanted: EpochToRead) -> Iterator["pa.RecordBatch"]:
    """What the epoch held, if it was read before; else what comes, and a word about it in the end."""
    number, name = wanted.offset.epoch, wanted.offset.name.encode()
    pen = register.pen(name, f"spark.tail.{wanted.offset.name}")
    holding = connections.run(pen.__aenter__())  # from here on no other task can write this epoch down
    try:
        content = connections.run(register.look(name, wanted.begin.known_to)).content
        last = None if content is None else Epoch.from_bytes(content)
        if last is not None and last.number >= number:
            if last.number > number:
                raise WrongEpoch(f"epoch {number} is to be read, and epoch {last.number} has been")
            yield from plan.rows(ranges_between(last.starts, last.ends))
            return
        follower = plan.follow(wanted.begin.ends)
        until = time.monotonic() + seconds
        while not follower.is_idle and time.monotonic() < until:
            yield from _pushed(follower.next_batches())
        connections.run(holding.write(Epoch(number, wanted.begin.ends, follower.ends).as_bytes()))
    finally:
        connections.run(pen.__aexit__(None, None, None))


def _pushed(batches: list["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    """The worker keeps the last bytes of a batch until there are more: one without rows pushes them out."""
    yield from batches
    if batches:
        yield batches[-1].slice(0, 0)
