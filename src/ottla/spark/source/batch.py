"""The batch reader: `spark.read.format("ottla")`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.base.types import TopicPartition
from ottla.spark import connections
from ottla.spark.source.filters import Wanted, wanted_by
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import Range, tasks_of
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
        ranges = connections.run(self._ranges(topics_of(self._options)))
        tasks = tasks_of(ranges, self._options.splitting)
        # Spark makes a task of its own kind when there is none.
        return [RangesToRead(task) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, RangesToRead)
        return self._plan.rows(partition.ranges)

    async def _ranges(self, topics: Topics) -> list[Range]:
        options = self._options
        places = await topics.partitions()
        start = await topics.start(options.start, places, options.is_late_start_refused)
        end = await topics.end(options.end, places)
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


def plan_of(options: SourceOptions) -> ReadPlan:
    return ReadPlan(
        kafka=options.kafka,
        columns=options.columns,
        isolation=options.isolation,
        fail_on_data_loss=options.fail_on_data_loss,
    )


def topics_of(options: SourceOptions) -> Topics:
    return Topics(connections.cluster_at(options.kafka), options.subscription, options.isolation)
