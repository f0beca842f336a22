"""What Spark does with a topic, by Ottla's data source or by Spark's own Kafka connector.

`reading` and `copying` are run in a process of their own, each with a session and a JVM that see nothing else; whoever
is measured has first done the same work unmeasured. Sessions differ in nothing but the format's name and,
for the connector, its jars.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.race.librdkafka import Keyed, produce_keyed
from bench.race.watch import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("ottla", "kafka")
PARTITIONS = 4
KEY, HEADER = "key-%08d", ("trace", b"0123456789abcdef")
_KEYS = 10_000
_WARM_UPS = 2
_SECONDS_MAX = 600
_END_SECONDS_MAX = 60
_SUMS = (
    "count(*) AS records",
    "sum(octet_length(key)) AS key_bytes",
    "sum(octet_length(value)) AS value_bytes",
    "sum(octet_length(topic)) AS topic_bytes",
    "sum(partition) AS partitions",
    "sum(offset) AS offsets",
    "max(timestamp) AS latest",
    "sum(timestampType) AS types",
)
_SUM_OF_HEADERS = "sum(octet_length(headers[0].value)) AS header_bytes"


class WrongRows(RuntimeError):
    """Spark has seen something else than what was sent: nothing was measured."""


@dataclass(frozen=True)
class Reading:
    """A way to read: records of this size, with or without the column of headers, and what takes the rows."""

    size: int
    has_headers: bool
    taker: str = "sums"
    """`sums` adds up something of every column, so that every value is looked at; `noop` lets Spark throw rows away."""

    @property
    def name(self) -> str:
        size = "1 kB" if self.size == 1000 else f"{self.size} B"
        return f"{size}, {8 if self.has_headers else 7} columns{'' if self.taker == 'sums' else ', thrown away'}"

    @property
    def topic(self) -> str:
        return topic_of(self.size)


READINGS = tuple(Reading(size, has_headers) for size in (100, 1000) for has_headers in (True, False))
THROWN_AWAY = Reading(100, True, "noop")
COPYING = "100 B, topic to topic"


def medians(passes: Sequence["Pass"]) -> dict[str, float]:
    """What one turn says."""
    return {
        "rows/s": median(one.rows_per_second for one in passes),
        "cpu us/row": median(one.cpu_us for one in passes),
    }


def topic_of(size: int) -> str:
    return f"spark-{size}"


def fill(bootstrap: str, topic: str, count: int, size: int) -> None:
    """Records with a key and a header each."""
    keys = tuple((KEY % number).encode() for number in range(_KEYS))
    produce_keyed(bootstrap, topic, count, size, Keyed(keys, HEADER, PARTITIONS))


@dataclass(frozen=True)
class Pass:
    """One pass over a topic."""

    rows_per_second: float
    cpu_us: float
    """Processor time per row of all of Spark's processes, the JVM and Python's."""


def reading(kind: str, bootstrap: str, ways: Sequence[tuple[Reading, int]], repeats: int) -> dict[str, list[Pass]]:
    """Each way through a topic of so many records, from the request to the last row."""
    with _session(kind) as spark:
        return {
            way.name: [_read(spark, kind, bootstrap, way, count) for _ in range(_WARM_UPS + repeats)][_WARM_UPS:]
            for way, count in ways
        }


def _read(spark: "SparkSession", kind: str, bootstrap: str, way: Reading, count: int) -> Pass:
    options = {**_source(bootstrap, way.topic), "includeHeaders": str(way.has_headers).lower()}
    cpu, begun = cpu_seconds(os.getpid()), time.monotonic()
    rows = spark.read.format(kind).options(**options).load()
    if way.taker == "noop":
        rows.write.format("noop").mode("overwrite").save()
    else:
        _must_be_all(rows, way, count)
    return Pass(count / (time.monotonic() - begun), (cpu_seconds(os.getpid()) - cpu) / count * 1e6)


def _must_be_all(rows: "DataFrame", way: Reading, count: int) -> None:
    found = rows.selectExpr(*_SUMS, *([_SUM_OF_HEADERS] if way.has_headers else [])).collect()[0].asDict()
    expected = {
        "records": count,
        "key_bytes": count * len(KEY % 0),
        "value_bytes": count * way.size,
        "topic_bytes": count * len(way.topic),
        "types": 0,
    }
    if way.has_headers:
        expected["header_bytes"] = count * len(HEADER[1])
    wrong = [f"{name} are {found[name]}, not {one}" for name, one in expected.items() if found[name] != one]
    if wrong:
        raise WrongRows(f"{way.name}: {'; '.join(wrong)}")


def copying(kind: str, bootstrap: str, target: str, count: int, repeats: int) -> list[Pass]:
    """Streaming queries from topic to topic, each with a checkpoint of its own.

    By Spark's own account of its batches: what a query needs to start is not part of it.
    """
    with _session(kind) as spark:
        passes = [_copy(spark, kind, bootstrap, target, count) for _ in range(1 + repeats)]
        written = spark.read.format("ottla").options(**_source(bootstrap, target)).load().count()
        if written != count * len(passes):
            raise WrongRows(f"{written} rows were written instead of {count * len(passes)}")
    return passes[1:]


def _copy(spark: "SparkSession", kind: str, bootstrap: str, target: str, count: int) -> Pass:
    options = {**_source(bootstrap, topic_of(100)), "includeHeaders": "true", "startingOffsets": "earliest"}
    rows = spark.readStream.format(kind).options(**options).load()
    cpu = cpu_seconds(os.getpid())
    changed = rows.selectExpr("key", "concat(value, X'0A') AS value", "headers")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as checkpoint:
        to = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": checkpoint}
        query = changed.writeStream.format(kind).options(**to).trigger(availableNow=True).start()
        if not query.awaitTermination(_SECONDS_MAX):
            query.stop()
            raise WrongRows(f"the query did not end within {_SECONDS_MAX} s")
        batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    copied = sum(int(batch["numInputRows"]) for batch in batches)
    if copied != count:
        raise WrongRows(f"{copied} rows were copied instead of {count}")
    seconds = sum(int(batch["durationMs"]["triggerExecution"]) for batch in batches) / 1000
    return Pass(count / seconds, (cpu_seconds(os.getpid()) - cpu) / count * 1e6)


def _source(bootstrap: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}


@contextmanager
def _session(kind: str) -> Iterator["SparkSession"]:
    import ottla.spark

    spark = ottla.spark.session("bench", config=_connector() if kind == "kafka" else None)
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    try:
        yield spark
    finally:
        spark.stop()
        jvm.stdin.close()  # by which the JVM knows that nobody needs it any more
        jvm.wait(_END_SECONDS_MAX)


def _connector() -> dict[str, str]:
    from tests.compat.java import connector_jars

    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, connector_jars()))}
