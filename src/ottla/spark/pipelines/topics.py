"""Topics as DataFrames: from a cluster, or empty ones of the same shape for looking at plans."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.spark.pipelines import record_formats
from ottla.spark.pipelines.definitions import Fault, Source
from ottla.spark.pipelines.project import Project, advice
from ottla.spark.pipelines.sql import TOPIC_FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = (
    "key binary, value binary, topic string, partition int, `offset` bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
"""What a topic's rows look like, headers included; the names and types are those of Spark's Kafka connector."""

OWN_OPTIONS = frozenset({"format", "key", "key.format", "timestamp", "watermark", "metadata", "errors", "dlq"})
"""Options of a stream that are about its records; all others are the connector's."""
_CONNECTOR_OPTIONS = (
    "startingOffsets startingTimestamp startingOffsetsByTimestamp startingOffsetsByTimestampStrategy endingOffsets "
    "failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay maxBytesPerTrigger minPartitions "
    "maxRecordsPerPartition includeHeaders group pollWait rowsPerTask archive"
)
CONNECTOR_OPTIONS = frozenset(_CONNECTOR_OPTIONS.lower().split())


class Topics(Protocol):
    def stream(self, source: Source, is_tail: bool) -> "DataFrame":
        """All records as they come; with `is_tail` each at once, else in batches."""

    def table(self, source: Source) -> "DataFrame":
        """The records that are there now."""


class ClusterTopics:
    """The real ones, through the data source."""

    def __init__(self, spark: "SparkSession", project: Project, format_: str = TOPIC_FORMAT) -> None:
        self._spark = spark
        self._directory = project.directory
        self._client = client_options(project)
        self._format = format_

    def stream(self, source: Source, is_tail: bool) -> "DataFrame":
        options = {"startingoffsets": "earliest", **self._options(source)}
        if is_tail:
            options["mode"] = "tail"
        return self._spark.readStream.format(self._format).options(**options).load()

    def table(self, source: Source) -> "DataFrame":
        return self._spark.read.format(self._format).options(**self._options(source)).load()

    def _options(self, source: Source) -> dict[str, str]:
        own = {**self._client, **connector_options(source), "subscribe": source.topic}
        return {**own, **_places_of_archive(own, self._directory)}


class EmptyTopics:
    """Streams of no rows, over an empty directory, for which nothing has to be reachable."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def stream(self, source: Source, is_tail: bool) -> "DataFrame":
        return self._spark.readStream.schema(ROW).format("parquet").load(str(self._directory))

    def table(self, source: Source) -> "DataFrame":
        return self._spark.createDataFrame([], ROW)


def client_options(project: Project) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": project.bootstrap,
        **{f"kafka.{name.removeprefix('kafka.')}": value for name, value in project.kafka.items()},
    }


def _places_of_archive(options: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Paths are below the project, as those of the tables that it writes; Iceberg's tables have names instead."""
    if "archive" not in options:
        return {}
    is_named = options.get("archive.format", "").lower() == "iceberg"
    name, path = ("archive.path", options.get("archive.path", "lake")) if is_named else ("archive", options["archive"])
    return {} if "://" in path else {name: str(directory / path)}


def kind_of(source: Source) -> str:
    """The format of the values: JSON where columns are named, bytes otherwise, unless it is said."""
    return source.options.get("format", "json" if source.columns else "raw")


def connector_options(source: Source) -> dict[str, str]:
    """Headers are always read where bad records keep theirs; without dead letters they cost nothing."""
    given = {name: value for name, value in source.options.items() if name not in OWN_OPTIONS | record_formats.OPTIONS}
    return {"includeheaders": "true", **given} if wants_headers(source) else given


def wants_headers(source: Source) -> bool:
    may_fail = kind_of(source) not in ("raw", "string")
    has_letters = may_fail and not source.is_table and source.options.get("errors", "dlq") == "dlq"
    return has_letters or "headers" in source.options.get("metadata", "")


def faults_of_options(source: Source, project: Project, is_tail: bool) -> Iterator[Fault]:
    """Those that are unknown, or the data source will not follow; no broker is asked."""
    unknown = list(_unknown_options(source))
    yield from unknown
    if unknown:
        return
    from ottla.spark.option_words import BadOption, OptionWords
    from ottla.spark.source.options import parse_source_options

    mode = {"mode": "tail"} if is_tail else {}
    somewhere = {**client_options(project), "kafka.bootstrap.servers": project.bootstrap or "nowhere:9092"}
    given = {**somewhere, **connector_options(source), "subscribe": source.topic, **mode}
    try:
        parse_source_options(OptionWords(given), is_stream=not source.is_table)
    except BadOption as bad:
        yield Fault(source.place, f"{source.name}: {bad}")


def _unknown_options(source: Source) -> Iterator[Fault]:
    known = OWN_OPTIONS | record_formats.OPTIONS | CONNECTOR_OPTIONS
    yield from (
        Fault(source.place, f"{source.name}: there is no option {name}{advice(name, known)}")
        for name in source.options
        if name not in known and not name.startswith(("kafka.", "archive."))
    )
