"""`write` and `writeStream.format("ottla")`: rows as for Spark's Kafka connector, and each of them once."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import batch_options
from tests.spark.streams import read
from tests.spark.topics import Topic

pytestmark = pytest.mark.timeout(400)
"""Seconds on a quiet machine; on a busy one Spark takes minutes."""


def write(frame: DataFrame, topic: Topic, **options: str) -> None:
    frame.write.format("ottla").mode("append").options(**{**topic.sink, **options}).save()


def test_rows_become_records(spark: SparkSession, topic: Topic) -> None:
    rows = spark.sql(
        """
        SELECT 'k' AS key, 'v' AS value, 1 AS partition, array(named_struct('key', 'h', 'value', X'01')) AS headers
        UNION ALL SELECT NULL, NULL, 1, NULL
        """
    ).coalesce(1)
    write(rows, topic, **{"kafka.compression.type": "zstd"})
    first, second = topic.records()
    assert (first.key(), first.value(), first.partition(), first.headers()) == (b"k", b"v", 1, [("h", b"\x01")])
    assert (second.key(), second.value(), second.headers()) == (None, None, None)


def test_a_column_says_the_topic_of_each_row(spark: SparkSession, topic: Topic, other_topic: Topic) -> None:
    rows = spark.createDataFrame([("a", topic.name), ("b", other_topic.name)], "value string, topic string")
    without = {name: value for name, value in topic.sink.items() if name != "topic"}
    rows.write.format("ottla").mode("append").options(**without).save()
    assert (topic.values(), other_topic.values()) == (["a"], ["b"])


def test_keys_go_where_other_clients_put_them(spark: SparkSession, topic: Topic, other_topic: Topic) -> None:
    producer = other_topic.producer(partitioner="murmur2_random")
    for number in range(40):
        producer.produce(other_topic.name, str(number).encode(), str(number).encode())
    producer.flush()
    write(spark.range(40).selectExpr("string(id) AS key", "string(id) AS value"), topic)
    placed = [{record.key(): record.partition() for record in one.records()} for one in (topic, other_topic)]
    assert placed[0] == placed[1] and len(placed[0]) == 40


def test_a_write_of_many_tasks_is_one_transaction(spark: SparkSession, topic: Topic) -> None:
    rows = spark.range(100).repartition(3)
    with pytest.raises(PySparkException):
        write(rows.selectExpr("if(id = 57, string(raise_error('no')), string(id)) AS value"), topic)
    assert topic.values() == []
    write(rows.selectExpr("string(id) AS value"), topic)
    write(rows.where("id < 2").selectExpr("string(id) AS value"), topic)
    assert Counter(topic.values()) == Counter([*map(str, range(100)), "0", "1"])


def test_a_batch_with_a_name_is_written_once(spark: SparkSession, topic: Topic) -> None:
    for version, values in enumerate((["a", "b"], ["c"])):
        for _ in range(2):
            frame = spark.createDataFrame([(value,) for value in values], "value string").repartition(2)
            write(frame, topic, txnAppId=f"app-of-{topic.name}", txnVersion=str(version))
    assert sorted(topic.values()) == ["a", "b", "c"]
    with pytest.raises(PySparkException, match="restored from a backup"):
        write(spark.range(1).selectExpr("'d' AS value"), topic, txnAppId=f"app-of-{topic.name}", txnVersion="0")


@pytest.mark.parametrize(
    ("columns", "options", "advice"),
    [
        ("'x' AS text", {}, "rows need a column 'value'"),
        ("1 AS value", {}, "column 'value' is string or binary, not int"),
        ("'x' AS value", {"kafka.acks": "1", "kafka.transactional.id": "t"}, "makes its own transactions"),
        ("'x' AS value", {"txnAppId": "a"}, "belong together"),
    ],
)
def test_rows_and_options_that_do_not_fit_are_refused_with_advice(
    spark: SparkSession, topic: Topic, columns: str, options: dict[str, str], advice: str
) -> None:
    with pytest.raises(PySparkException, match=advice):
        write(spark.range(1).selectExpr(columns), topic, **options)


def test_from_topic_to_topic_over_restarts(
    spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    options = {**topic.options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 40, "group": f"g-{topic.name}"}
    for run in range(2):
        for partition in (0, 1):
            topic.produce(range(run * 30, run * 30 + 30), partition)
        rows = read(spark, options).selectExpr("concat(partition, '-', string(value)) AS value")
        query = rows.writeStream.format("ottla").options(**other_topic.sink).trigger(availableNow=True)
        assert query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(90)
        if run == 0:  # as if the driver had died before it noted its last batch
            (tmp_path / "commits" / "1").unlink()
    assert sorted(other_topic.values()) == sorted(f"{part}-{number}" for part in (0, 1) for number in range(60))
    assert topic.progress_of(f"g-{topic.name}") == {0: 60, 1: 60}


def test_update_mode_by_foreach_batch(spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path) -> None:
    topic.produce(["a", "b", "a", "c", "a"])
    deaths = [0, 1]

    def take(frame: DataFrame, batch: int) -> None:
        write(frame.selectExpr("value AS key", "string(count) AS value"), other_topic, **batch_options(frame, batch))
        if batch in deaths:
            deaths.remove(batch)
            raise RuntimeError("after it was written, before Spark noted it")

    options = {**topic.options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 3}
    counted = read(spark, options).selectExpr("string(value) AS value").groupBy("value").count()
    for _ in range(3):
        writer = counted.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            assert query.awaitTermination(90)
        except PySparkException as failure:
            assert "before Spark noted it" in str(failure)
    assert deaths == []
    records = [((record.key() or b"").decode(), (record.value() or b"").decode()) for record in other_topic.records()]
    assert sorted(records) == [("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")]


def test_a_query_may_go_from_foreach_batch_to_its_own_sink(
    spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    """What the one has written, the other knows as written."""

    def take(frame: DataFrame, batch: int) -> None:
        write(frame.select("value"), other_topic, **batch_options(frame, batch))
        raise RuntimeError("after it was written, before Spark noted it")

    rows = read(spark, {**topic.options, "startingOffsets": "earliest"})
    topic.produce(["a", "b"])
    query = rows.writeStream.foreachBatch(take).trigger(availableNow=True).option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="before Spark noted it"):
        query.start().awaitTermination(90)
    topic.produce(["c"])
    own = rows.select("value").writeStream.format("ottla").options(**other_topic.sink).trigger(availableNow=True)
    assert own.option("checkpointLocation", str(tmp_path)).start().awaitTermination(90)
    assert sorted(other_topic.values()) == ["a", "b", "c"]


def test_a_checkpoint_of_another_time_is_refused(
    spark: SparkSession, topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    """The same query and the same number, but another batch: its records would be taken for written."""
    topic.produce(range(4))
    options = {**topic.options, "startingOffsets": "earliest"}

    def run() -> None:
        frame = read(spark, options).select("value")
        query = frame.writeStream.format("ottla").options(**other_topic.sink).trigger(availableNow=True)
        assert query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(90)

    run()
    for name in ("offsets/0", "commits/0"):
        (tmp_path / name).unlink()
    topic.produce(range(4, 8))
    with pytest.raises(PySparkException, match="restored from a backup"):
        run()
    assert sorted(other_topic.values()) == ["0", "1", "2", "3"]


def test_workers_of_spark_are_known_as_such(spark: SparkSession) -> None:
    """By the name of the module they run: what they have imported is not searched for garbage behind every task."""

    def frozen(_: int) -> int:
        import gc

        from ottla.spark import internals

        internals.settle_in_worker()
        return gc.get_freeze_count()

    [count] = spark.sparkContext.parallelize([0], 1).map(frozen).collect()
    assert count > 10_000
