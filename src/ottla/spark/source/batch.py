"""The batch reader: `spark.read.format("ottla")`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.base.types import TopicPartition
from ottla.spark import connections
from ottla.spark.lake.archives import Archive
from ottla.spark.source.archived import Cut, FilesToRead, file_tasks, opened, seam_of
from ottla.spark.source.filters import Wanted, wanted_by
from ottla.spark.source.options import Assigned, SourceOptions
from ottla.spark.source.planning import Ends, Range, tasks_of
from ottla.spark.source.reading import ReadPlan
from ottla.spark.source.topics import DataLoss, Topics

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangesToRead(InputPartition):
    """What one task reads."""

    ranges: list[Range]

    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = ranges


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._wanted = Wanted()
        self._plan = plan_of(options)

    def partitions(self) -> Sequence[InputPartition]:
        topics, splitting = topics_of(self._options), self._options.splitting
        archive = opened(self._options)
        start = connections.run(self._start(topics, archive))
        ranges = connections.run(self._ranges(topics, start))
        tasks: list[InputPartition] = [RangesToRead(task) for task in tasks_of(ranges, splitting)]
        if archive is not None:
            cut = cut_at(start, self._options, self._wanted)
            tasks = [*file_tasks(archive, cut.files(archive), cut, splitting), *tasks]
        # Spark makes a task of its own kind when there is none.
        return tasks or [RangesToRead([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return rows_of(partition, self._plan)

    async def _start(self, topics: Topics, archive: Archive | None) -> Ends:
        options, places = self._options, await topics.partitions()
        if archive is not None:
            return await seam_of(archive, topics, places, options.fail_on_data_loss)
        return await topics.start(options.start, places, options.is_late_start_refused)

    async def _ranges(self, topics: Topics, start: Ends) -> list[Range]:
        places = sorted(start)
        end = await topics.end(self._options.end, places)
        ranges = [self._range(place, start[place], end[place]) for place in places]
        return await self._since(topics, self._wanted.within(ranges))

    def _range(self, place: TopicPartition, start: int, end: int) -> Range:
        if start > end and self._options.fail_on_data_loss:
            raise DataLoss(f"{place} ends at offset {end}, before the start {start} of the query")
        return Range(place, start, max(start, end))

    async def _since(self, topics: Topics, ranges: list[Range]) -> list[Range]:
        if self._wanted.since_ms is None or not ranges:
            return ranges
        first = await topics.since({one.place: self._wanted.since_ms for one in ranges})
        late = ((one, first[one.place]) for one in ranges)
        cut = (Range(one.place, max(one.start, offset), one.end) for one, offset in late if offset is not None)
        return [one for one in cut if one.length > 0]


class FilteringBatchReader(BatchReader):
    """Only where Spark is set to ask: with the setting off it refuses every reader that has this method."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted, handed_back = wanted_by(filters)
        return handed_back


def rows_of(partition: InputPartition, plan: ReadPlan) -> Iterator["pa.RecordBatch"]:
    """What a task does, whichever kind of it this is."""
    if isinstance(partition, FilesToRead):
        return partition.rows(plan.columns)
    assert isinstance(partition, RangesToRead)
    return plan.rows(partition.ranges)


def cut_at(seam: Ends, options: SourceOptions, wanted: Wanted | None = None) -> Cut:
    """What a table gives of the topics that are read; of a topic as a whole also what the log has forgotten."""
    return Cut(seam, not isinstance(options.subscription, Assigned), wanted or Wanted())


def plan_of(options: SourceOptions) -> ReadPlan:
    return ReadPlan(
        kafka=options.kafka,
        columns=options.columns,
        isolation=options.isolation,
        fail_on_data_loss=options.fail_on_data_loss,
    )


def topics_of(options: SourceOptions) -> Topics:
    return Topics(connections.cluster_at(options.kafka), options.subscription, options.isolation)
