"""Tail mode through Spark: rows pass while their epoch goes on, and each is committed once."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.streams import read
from tests.spark.topics import Topic

pytestmark = pytest.mark.timeout(400)
"""Seconds on a quiet machine; on a busy one Spark takes minutes."""


def start(spark: SparkSession, source: Topic, target: Topic, checkpoint: Path) -> StreamingQuery:
    rows = read(spark, {**source.options, "mode": "tail", "startingOffsets": "earliest"})
    writer = rows.selectExpr("string(value) AS value").writeStream.format("ottla").options(**target.sink)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def wait_for(count: int, target: Topic, query: StreamingQuery) -> None:
    until = time.monotonic() + 180
    while len(target.values()) < count:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < until, f"{len(target.values())} of {count} have come"
        time.sleep(0.05)


def test_every_row_comes_once_over_a_restart(
    spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    for run in range(2):
        query = start(spark, topic, other_topic, tmp_path)
        try:
            for number in range(10):
                topic.produce([f"{run}-{number}"])
            wait_for((run + 1) * 10, other_topic, query)
        finally:
            query.stop()
    assert sorted(other_topic.values()) == sorted([f"{run}-{number}" for run in range(2) for number in range(10)])
