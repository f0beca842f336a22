"""Streaming queries in tests: run over what is there, and remember which rows came in which batch."""

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.topics import Row

Batches = dict[int, list[Row]]


def read(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    return spark.readStream.format("ottla").options(**options).load()


def rows_of(batches: Batches) -> list[Row]:
    return sorted(chain.from_iterable(batches.values()))


def run_over_what_is_there(
    spark: SparkSession, options: Mapping[str, Any], checkpoint: Path, fail_in: int | None = None
) -> Batches:
    """Rows by batch. `fail_in`: the batch behind which the query dies before Spark has noted its end."""
    seen: Batches = {}

    def take(rows: DataFrame, batch: int) -> None:
        seen[batch] = sorted((row["partition"], row["offset"]) for row in rows.select("partition", "offset").collect())
        if batch == fail_in:
            raise RuntimeError("as was asked for")

    query = start(read(spark, {"startingOffsets": "earliest", **options}), checkpoint, take, availableNow=True)
    try:
        assert query.awaitTermination(60)
    except Exception:
        if fail_in is None:
            raise
    return seen


def start(frame: DataFrame, checkpoint: Path, take: Callable[[DataFrame, int], None], **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()
