"""Flows become streaming queries: the trigger of their mode, the place where their rows go, each batch once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import dead_letters
from ottla.spark import internals
from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines import targets
from ottla.spark.pipelines.decoding import header
from ottla.spark.pipelines.plans import DEAD, PlannedFlow
from ottla.spark.pipelines.progress import ROWS
from ottla.spark.pipelines.project import Mode, Output, Project
from ottla.spark.pipelines.sql import TOPIC_FORMAT
from ottla.spark.pipelines.state import StateDirectory
from ottla.spark.pipelines.topics import client_options
from ottla.spark.pipelines.user_code import cause, words
from ottla.spark.session import TAIL_SETTINGS
from ottla.spark.sink.foreach_batch import batch_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteBatch = Callable[["DataFrame", int], None]


@dataclass(frozen=True, slots=True)
class SparkFlow:
    """A planned flow of a project, ready to start."""

    planned: PlannedFlow
    project: Project
    state: StateDirectory

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def mode(self) -> str:
        return str(self.planned.settings.mode)

    @property
    def restarts(self) -> int:
        return self.planned.settings.restarts or 0

    @property
    def scans(self) -> tuple[int, ...]:
        return self.planned.scans

    def start(self) -> "SparkQuery":
        """Raises `NotReady` where Spark refuses to start it."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        planned = self.planned
        # A pool of its own, so that one flow's long batch does not hold up the others.
        spark = planned.frame.sparkSession
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", planned.name)
        try:
            with _set(spark, self._settings()):
                return SparkQuery(self._prepared().start())
        except (PySparkException, Py4JError) as failure:
            raise NotReady(f"{planned.name} does not start: {words(failure)}") from None

    @property
    def _is_by_itself(self) -> bool:
        """The query's own sink does: a function for each batch makes it longer, and its plan is made twice.

        Both name what they write alike, so a flow may go from the one to the other.
        """
        planned, settings = self.planned, self.planned.settings
        is_plain = settings.output is Output.APPEND and not planned.dead_letters
        return settings.mode is Mode.TAIL or (planned.target.format == TOPIC_FORMAT and is_plain)

    def _settings(self) -> dict[str, str]:
        """For the query alone; what the project says about them wins."""
        usual = TAIL_SETTINGS if self.planned.settings.mode is Mode.TAIL else {}
        return {name: self.project.configuration.get(name, value) for name, value in usual.items()}

    def _prepared(self) -> "DataStreamWriter":
        planned = self.planned
        kind, settings = planned.target.format, planned.settings
        frame = _counted(planned.frame)
        if self._is_by_itself:
            frame = frame.drop(DEAD)
        writer = frame.writeStream.queryName(planned.name).outputMode(str(settings.output))
        writer = writer.option("checkpointLocation", str(self.state.checkpoint(planned.name)))
        if settings.mode is Mode.BATCH:
            writer = writer.trigger(availableNow=True)
        elif settings.trigger:
            writer = writer.trigger(processingTime=settings.trigger)
        options = dict(planned.target.options)
        if self._is_by_itself:
            return writer.format(TOPIC_FORMAT).options(**self._client(options))
        if "path" in options and "://" not in options["path"]:
            options["path"] = str(self.project.directory / options["path"])
        write = self._batch_writer(kind, options)
        if write is not None:
            return writer.foreachBatch(write)
        partition_by = options.pop("partition.by", "")
        if partition_by:
            writer = writer.partitionBy(*(name.strip() for name in partition_by.split(",")))
        return writer.format(kind).options(**options)

    def _client(self, options: Mapping[str, str]) -> dict[str, str]:
        own = {name: text for name, text in options.items() if name.startswith("kafka.")}
        return {**client_options(self.project), **own}

    def _batch_writer(self, kind: str, options: dict[str, str]) -> WriteBatch | None:
        """None for formats whose own sinks do better."""
        if kind == TOPIC_FORMAT:
            return topic_writer(self._client(options), bool(self.planned.dead_letters))
        if kind in targets.LAKE:
            return lake_writer(kind, options, self.project.directory)
        if kind == targets.JDBC:
            return jdbc_writer(options)
        return console_writer(self.planned.name) if kind == "console" else None


@dataclass(slots=True)
class SparkQuery:
    query: "StreamingQuery"
    _last_report: str = ""

    def is_active(self) -> bool:
        """Raises `NotReady` if there is no Spark any more."""
        from py4j.protocol import Py4JError

        try:
            return bool(self.query.isActive)
        except (Py4JError, OSError) as failure:
            raise NotReady(f"Spark's JVM has gone ({words(failure)}); start the pipeline again") from None

    def failure(self) -> str | None:
        found = self.query.exception()
        return None if found is None else cause(str(found))

    def reports(self) -> Iterable[Mapping[str, Any]]:
        reports = internals.reports_since(self.query, self._last_report)
        self._last_report = reports[-1] if reports else self._last_report
        return [json.loads(report) for report in reports]

    def stop(self) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        # It may just be failing, or Spark be gone: then it has stopped already.
        with suppress(PySparkException, Py4JError, OSError):
            self.query.stop()


@contextmanager
def _set(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """A query takes over the settings of the session as they are when it starts."""
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def topic_writer(options: Mapping[str, str], has_dead_letters: bool) -> WriteBatch:
    """All rows of a batch, dead letters among them, in one write, hence in one transaction."""

    def write(batch: "DataFrame", number: int) -> None:
        rows = _signed(batch, number) if has_dead_letters else batch
        once = batch_options(batch, number)
        rows.drop(DEAD).write.format(TOPIC_FORMAT).mode("append").options(**options, **once).save()

    return write


def lake_writer(kind: str, options: Mapping[str, str], directory: Path) -> WriteBatch:
    from ottla.spark.lake.batches import mark_for
    from ottla.spark.lake.tables import open_table

    table = open_table(kind, options, directory)

    def write(batch: "DataFrame", number: int) -> None:
        table.append_once(batch.toArrow(), mark_for(batch, number))

    return write


def jdbc_writer(options: Mapping[str, str]) -> WriteBatch:
    """At least once: databases know nothing of batches."""

    def write(batch: "DataFrame", number: int) -> None:
        batch.write.format("jdbc").mode("append").options(**options).save()

    return write


def console_writer(name: str) -> WriteBatch:
    def write(batch: "DataFrame", number: int) -> None:
        rows = str(batch._jdf.showString(_SHOWN_ROWS, 0, False))
        if rows.count("\n") > _EMPTY_TABLE_LINES:
            print(f"{name}, batch {number}\n{rows}", end="")

    return write


_SHOWN_ROWS, _EMPTY_TABLE_LINES = 20, 4


def _counted(frame: "DataFrame") -> "DataFrame":
    """Counts rows, and the dead letters among them, on their way."""
    from pyspark.sql import functions as F

    dead = F.sum(F.col(DEAD).cast("long")) if DEAD in frame.columns else F.sum(F.lit(0))
    return frame.observe(ROWS, F.count(F.lit(1)).alias("rows"), dead.alias("dead"))


def _signed(batch: "DataFrame", number: int) -> "DataFrame":
    """A dead letter also says in which batch it was found."""
    from pyspark.sql import functions as F

    signature = F.array(header(dead_letters.BATCH, F.lit(str(number))))
    signed = F.when(F.col(DEAD), F.concat("headers", signature)).otherwise(F.col("headers"))
    return batch.withColumn("headers", signed)
