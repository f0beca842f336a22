"""`spark.readStream.format("ottla")`: every record in one batch, over restarts, new partitions and retention."""

import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.streams import read, rows_of, run_over_what_is_there, start
from tests.spark.topics import Row, Topic

pytestmark = pytest.mark.timeout(400)
"""Seconds on a quiet machine; on a busy one Spark takes minutes."""


def test_a_query_goes_on_where_it_was_and_finds_new_partitions(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    for partition in (0, 1):
        topic.produce(range(10), partition)
    options = {**topic.options, "maxOffsetsPerTrigger": 8}
    first = run_over_what_is_there(spark, options, tmp_path)
    assert [len(rows) for rows in first.values()] == [8, 8, 4]
    topic.add_partitions(3)
    topic.produce(range(2), 0)
    topic.produce(range(3), 2)
    second = run_over_what_is_there(spark, options, tmp_path)
    assert rows_of(second) == [(0, 10), (0, 11), (2, 0), (2, 1), (2, 2)]
    assert rows_of(first) == [(partition, offset) for partition in (0, 1) for offset in range(10)]


def test_a_running_query_waits_for_records_and_for_partitions(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    seen: list[Row] = []

    def take(rows: DataFrame, batch: int) -> None:
        seen.extend((row["partition"], row["offset"]) for row in rows.collect())

    topic.produce(range(3))
    query = start(read(spark, {**topic.options, "startingOffsets": "earliest"}), tmp_path, take)
    try:
        wait_for(query, lambda: len(seen) == 3)
        topic.produce(range(2), 1)
        wait_for(query, lambda: len(seen) == 5)
        topic.add_partitions(3)
        topic.produce(range(2), 2)
        wait_for(query, lambda: len(seen) == 7)
        assert (2, 0) in seen
        progress = query.lastProgress
        assert progress is not None
        assert f'"{topic.name}": {{"0": 3, "1": 2' in progress["sources"][0]["latestOffset"]
    finally:
        query.stop()


def wait_for(query: object, is_done: object, seconds: float = 40) -> None:
    until = time.monotonic() + seconds
    while not is_done():  # type: ignore[operator]
        failure = query.exception()  # type: ignore[attr-defined]
        assert failure is None, failure
        assert time.monotonic() < until, "it does not come to it"
        time.sleep(0.05)


def test_progress_is_shown_as_a_consumer_group(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.produce(range(10))
    options = {**topic.options, "maxOffsetsPerTrigger": 5, "group": f"of-{topic.name}"}
    run_over_what_is_there(spark, options, tmp_path)
    assert topic.progress_of(f"of-{topic.name}") == {0: 5, 1: 0}  # the last batch is shown with the next one


def test_records_that_retention_took_are_an_error_unless_that_is_allowed(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.produce(range(10))
    options = {**topic.options, "maxOffsetsPerTrigger": 5, "kafka.default.api.timeout.ms": 5000}
    first = run_over_what_is_there(spark, options, tmp_path, fail_in=1)
    assert [len(rows) for rows in first.values()] == [5, 5]
    topic.produce(range(10))
    topic.delete_records({0: 17})
    with pytest.raises(PySparkException, match=r"begins at offset 17 now; wanted is 5.*failOnDataLoss"):
        run_over_what_is_there(spark, options, tmp_path)
    going_on = run_over_what_is_there(spark, {**options, "failOnDataLoss": "false"}, tmp_path)
    assert rows_of(going_on) == [(0, 17), (0, 18), (0, 19)]


def test_a_topic_that_is_gone_is_an_error_unless_that_is_allowed(
    spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    topic.produce(range(3))
    other_topic.produce(range(2))
    options = {**topic.options, "subscribe": f"{topic.name},{other_topic.name}"}
    assert len(rows_of(run_over_what_is_there(spark, options, tmp_path))) == 5
    topic.delete()
    with pytest.raises(PySparkException, match=f"{topic.name} does not exist"):
        run_over_what_is_there(spark, options, tmp_path)
    other_topic.produce(range(1))
    going_on = run_over_what_is_there(spark, {**options, "failOnDataLoss": "false"}, tmp_path)
    assert rows_of(going_on) == [(0, 2)]
