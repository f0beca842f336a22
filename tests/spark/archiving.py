"""An archiver in miniature: batch by batch from a topic into a table, as a pipeline does it; and who reads both."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.base.types import TopicName, TopicPartition
from ottla.spark import connections
from ottla.spark.arrow.schema import COLUMNS_BY_DEFAULT, row_schema
from ottla.spark.lake.tables import BatchMark, LakeTable, open_table
from ottla.spark.option_words import OptionWords
from ottla.spark.source.batch import BatchReader, FilteringBatchReader, plan_of, topics_of
from ottla.spark.source.options import SourceOptions, parse_source_options
from ottla.spark.source.planning import ranges_between
from tests.spark.topics import Row, Topic

KINDS = ("delta", "iceberg")


@dataclass
class Archiver:
    """`is_noting`: whether it tells the table how far it is, as our pipelines do and others do not."""

    topic: Topic
    kind: str
    directory: Path
    is_noting: bool = True
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    batch: int = -1

    @property
    def options(self) -> dict[str, str]:
        """Of a read of the topic with this archive."""
        if self.kind == "delta":
            return {**self.topic.options, "archive": str(self.directory / "t")}
        own = {"archive": "shop.t", "archive.format": "iceberg", "archive.path": str(self.directory)}
        return {**self.topic.options, **own}

    @property
    def table(self) -> LakeTable:
        given = {"path": str(self.directory / "t")} if self.kind == "delta" else {"table": "shop.t", "path": "."}
        return open_table(self.kind, given, self.directory)

    def run(self, up_to: dict[int, int] | None = None) -> None:
        """One batch: up to these offsets, or to where the log ends."""
        options = source_options(self.topic.options)
        topics = topics_of(options)
        ends = connections.run(topics.ends(connections.run(topics.partitions())))
        for partition, end in (up_to or {}).items():
            ends[TopicPartition(TopicName(self.topic.name), partition)] = end
        rows = list(plan_of(options).rows(ranges_between(self.ends, ends)))
        moved = {place: end for place, end in ends.items() if self.ends.get(place) != end}
        self.batch += 1
        table = pa.Table.from_batches(rows, row_schema(COLUMNS_BY_DEFAULT))
        name = f"archiver of {self.topic.name}"
        self.table.append_once(table, BatchMark(name, self.batch, 0, moved if self.is_noting else {}))
        self.ends = ends

    def forget(self) -> None:
        """The log lets go of all that is archived."""
        self.topic.delete_records({place.partition: end for place, end in self.ends.items()})


def source_options(given: dict[str, str], is_stream: bool = False) -> SourceOptions:
    return parse_source_options(OptionWords({"kafka.default.api.timeout.ms": "5000", **given}), is_stream)


def rows_read(given: dict[str, str], filters: Iterable[Any] = ()) -> list[Row]:
    """As Spark drives the batch reader."""
    reader = FilteringBatchReader(source_options(given))
    list(reader.pushFilters(list(filters)))
    return places_in(reader, reader.partitions())


def places_in(reader: Any, tasks: Iterable[InputPartition]) -> list[Row]:
    batches = [batch for task in tasks for batch in reader.read(task)]
    return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())


def table_of(given: dict[str, str]) -> pa.Table:
    reader = BatchReader(source_options(given))
    return pa.Table.from_batches(batch for task in reader.partitions() for batch in reader.read(task))


def all_of(**counts: int) -> list[Row]:
    """`all_of(p0=3, p1=2)`: so many records of each partition."""
    return [(int(name[1:]), offset) for name, count in counts.items() for offset in range(count)]
