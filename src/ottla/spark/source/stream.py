"""The stream reader: `spark.readStream.format("ottla")`, one micro-batch after the other."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.base.types import TopicPartition
from ottla.client.failures import ClientFailure, NoSuchTopic
from ottla.client.offsets import commit_offsets
from ottla.spark import connections
from ottla.spark.source.batch import RangesToRead, plan_of, rows_of, topics_of
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import limited, limited_in_bytes, ranges_between, tasks_of
from ottla.spark.source.progress import Group, Json, Progress
from ottla.spark.source.topics import DataLoss, Topics

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.spark")

_DISCOVERY_SECONDS = 1.0
"""New partitions, and topics that a pattern matches, are noticed after this time at the latest."""
_LOOKS_MAX = 4
_LOOK_PAUSE_SECONDS = 0.5


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of the driver as long as the query; for tasks a copy without connections is made."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._plan = plan_of(options)
        self._group = Group(options.group, options.kafka["bootstrap.servers"]) if options.group else None
        self._places: list[TopicPartition] = []
        self._gone: frozenset[str] = frozenset()
        self._looked = float("-inf")
        self._available: dict[TopicPartition, int] = {}
        self._target: dict[TopicPartition, int] | None = None
        """With AvailableNow: where everything ended when the query was started."""
        self._triggered = time.monotonic()

    # Offsets

    def initialOffset(self) -> Json:
        options, topics = self._options, topics_of(self._options)
        places = connections.run(topics.partitions())
        start = connections.run(topics.start(options.start, places, options.is_late_start_refused))
        return Progress(start, start, self._group).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.bytes_max is None else ReadMaxBytes(limits.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._looked = float("-inf")
        self._target = connections.run(self._look(topics_of(self._options)))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Waits a little for something new: Spark would ask a hundred times a second."""
        before = Progress.from_json(start)
        ends = connections.run(self._ends(topics_of(self._options), before, limit))
        if ends == before.ends:
            return start
        self._triggered = time.monotonic()
        return before.then(ends, self._group).as_json()

    def reportLatestOffset(self) -> Json | None:
        return Progress(self._available).as_json() if self._available else None

    async def _ends(self, topics: Topics, before: Progress, limit: ReadLimit) -> dict[TopicPartition, int]:
        if self._target is not None:
            self._heed_loss(before, self._target)
            return await self._limited(topics, before, self._target, limit)
        available = await self._look_for_all(topics, before)
        if self._has_too_little(before, available, limit):
            await topics.wait_beyond(available, self._options.poll_wait_ms)
            available = await self._look_for_all(topics, before)
        if self._has_too_little(before, available, limit):
            return dict(before.ends)
        return await self._limited(topics, before, available, limit)

    async def _look_for_all(self, topics: Topics, before: Progress) -> dict[TopicPartition, int]:
        """Where everything ends. Asked again if the query has come further: a new leader may not know yet."""
        for _ in range(_LOOKS_MAX):
            available = await self._look(topics)
            if all(available.get(place, -1) >= offset for place, offset in before.ends.items()):
                break
            await asyncio.sleep(_LOOK_PAUSE_SECONDS)
        self._heed_loss(before, available)
        return available

    async def _look(self, topics: Topics) -> dict[TopicPartition, int]:
        is_time = time.monotonic() - self._looked > _DISCOVERY_SECONDS
        if is_time:
            self._places = await self._discovered(topics)
            self._looked = time.monotonic()
        self._available = await topics.ends(self._places)
        return self._available

    async def _discovered(self, topics: Topics) -> list[TopicPartition]:
        """What there is. A topic that has been deleted is looked for again only when the query is restarted."""
        while True:
            try:
                return await topics.without(self._gone).partitions()
            except NoSuchTopic as missing:
                if self._options.fail_on_data_loss:
                    raise DataLoss(f"the topic {missing} does not exist") from None
                log.warning("the topic %s does not exist; going on without it, since failOnDataLoss is false", missing)
                self._gone |= {str(missing)}

    def _heed_loss(self, before: Progress, available: dict[TopicPartition, int]) -> None:
        for place, offset in before.ends.items():
            end = available.get(place)
            if end is None or end < offset:
                what = f"{place} does not exist any more" if end is None else f"{place} ends at offset {end}"
                if self._options.fail_on_data_loss:
                    raise DataLoss(f"{what}; the query has come to {offset}")
                log.warning("%s; the query had come to %d", what, offset)

    def _has_too_little(self, before: Progress, available: dict[TopicPartition, int], limit: ReadLimit) -> bool:
        count = sum(one.length for one in ranges_between(before.ends, available))
        wanted = self._options.limits.offsets_min
        if count == 0:
            return available == before.ends
        if wanted is None or self._is_once(limit):
            return False
        is_late = (time.monotonic() - self._triggered) * 1000 >= self._options.limits.delay_ms_max
        return count < wanted and not is_late

    async def _limited(
        self, topics: Topics, before: Progress, available: dict[TopicPartition, int], limit: ReadLimit
    ) -> dict[TopicPartition, int]:
        if self._is_once(limit):
            return available
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.limits.offsets_max
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.limits.bytes_max
        ends = available if rows is None else limited(before.ends, available, rows)
        waiting = {one.place: one.start for one in ranges_between(before.ends, ends)}
        if size is not None and waiting:
            ends = limited_in_bytes(before.ends, ends, await topics.offset_bytes(waiting), size)
        return ends

    def _is_once(self, limit: ReadLimit) -> bool:
        """Spark asks for everything though there are limits: the trigger is `once`."""
        return isinstance(limit, ReadAllAvailable) and not isinstance(self.getDefaultReadLimit(), ReadAllAvailable)

    # Rows

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        before, after = Progress.from_json(start), Progress.from_json(end)
        # The first batch knows where it began; `start` is what a new query would begin with by now.
        ranges = ranges_between(before.ends if after.began is None else after.began, after.ends)
        return [RangesToRead(task) for task in tasks_of(ranges, self._options.splitting)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return rows_of(partition, self._plan)

    # Progress

    def commit(self, end: Json) -> None:
        """Comes with the batch after; a sink of ours commits the offsets together with the batch itself."""
        ends = Progress.from_json(end).ends
        if self._group is None or not ends:
            return
        cluster = connections.cluster_at(self._options.kafka)
        try:
            connections.run(commit_offsets(cluster, self._group.name, ends))
        except ClientFailure as failure:
            if not failure.is_retriable:
                raise
            log.warning("the progress of group %s could not be shown: %s", self._group.name, failure)

    def stop(self) -> None:
        """Connections end with the process."""
