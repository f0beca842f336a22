"""`spark.read.format("ottla")`: the rows of Spark's Kafka connector, found without registration."""

from collections.abc import Iterable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.topics import Row, Topic

pytestmark = pytest.mark.timeout(400)
"""Seconds on a quiet machine; on a busy one Spark takes minutes."""


def read(spark: SparkSession, topic: Topic, **options: object) -> DataFrame:
    return spark.read.format("ottla").options(**{**topic.options, **options}).load()  # type: ignore[arg-type]


def places(frame: DataFrame) -> list[Row]:
    return sorted((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())


def all_of(partition: int, offsets: Iterable[int]) -> list[Row]:
    return [(partition, offset) for offset in offsets]


def test_rows_have_what_records_have(spark: SparkSession, topic: Topic) -> None:
    producer = topic.producer()
    producer.produce(topic.name, b"v", b"k", 1, timestamp=1_700_000_000_123, headers=[("h", b"1"), ("h", None)])
    producer.produce(topic.name, None, None, 1, timestamp=1_700_000_000_124)
    producer.flush()
    frame = read(spark, topic, includeHeaders=True).selectExpr("*", "unix_micros(timestamp) as micros")
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first["key"]), bytes(first["value"])) == (b"k", b"v")
    assert (first["topic"], first["partition"], first["offset"]) == (topic.name, 1, 0)
    assert (first["micros"], first["timestampType"]) == (1_700_000_000_123_000, 0)
    assert [(header["key"], header["value"]) for header in first["headers"]] == [("h", b"1"), ("h", None)]
    assert (second["key"], second["value"], second["micros"]) == (None, None, 1_700_000_000_124_000)
    assert second["headers"] is None


def test_batches_are_read_however_they_are_compressed(spark: SparkSession, topic: Topic) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        topic.produce([f"{codec}-{number:03}-{'x' * 50}" for number in range(100)], compression_type=codec)
    found = [row["text"] for row in read(spark, topic).selectExpr("string(value) as text").collect()]
    assert sorted(found) == sorted(f"{codec}-{number:03}-{'x' * 50}" for codec in codecs for number in range(100))


def test_only_what_is_committed_is_read_unless_all_is_asked_for(spark: SparkSession, topic: Topic) -> None:
    topic.transact(range(5), is_committed=True)
    topic.transact(range(5), is_committed=False)
    topic.produce(range(2))
    assert places(read(spark, topic)) == all_of(0, [0, 1, 2, 3, 4, 12, 13])
    everything = read(spark, topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert places(everything) == all_of(0, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13])


def test_filters_and_offsets_say_what_to_read(spark: SparkSession, topic: Topic) -> None:
    for partition in (0, 1):
        topic.produce(range(100), partition)
    frame = read(spark, topic)
    assert places(frame.where("partition = 1 and offset >= 97")) == all_of(1, [97, 98, 99])
    pushed_down = frame.where("partition = 1 and offset between 5 and 7")
    assert "Filter (" not in pushed_down._jdf.queryExecution().executedPlan().toString()
    offsets = {"startingOffsets": f'{{"{topic.name}":{{"0":98,"1":-2}}}}'}
    ends = {"endingOffsets": f'{{"{topic.name}":{{"0":-1,"1":1}}}}'}
    assert places(read(spark, topic, **offsets, **ends)) == [(0, 98), (0, 99), (1, 0)]


def test_a_time_says_where_to_begin(spark: SparkSession, topic: Topic) -> None:
    producer = topic.producer()
    for number in range(10):
        producer.produce(topic.name, b"x", partition=0, timestamp=1_000_000 + number * 1000)
    producer.flush()
    late = {"startingOffsetsByTimestampStrategy": "latest"}
    assert places(read(spark, topic, startingTimestamp=1_007_500, **late)) == all_of(0, [8, 9])
    assert places(read(spark, topic).where("timestamp >= timestamp_millis(1008000)")) == all_of(0, [8, 9])
    with pytest.raises(PySparkException, match="startingOffsetsByTimestampStrategy"):
        read(spark, topic, startingTimestamp=1_007_500).count()


def test_many_small_partitions_are_one_task_and_large_ones_are_cut_when_asked(
    spark: SparkSession, topic: Topic
) -> None:
    for partition in (0, 1):
        topic.produce(range(50), partition)
    assert read(spark, topic).rdd.getNumPartitions() == 1
    assert read(spark, topic, minPartitions=5).rdd.getNumPartitions() == 5
    assert len(places(read(spark, topic, minPartitions=5))) == 100


def test_columns_that_nobody_wants_are_not_made(spark: SparkSession, topic: Topic) -> None:
    topic.produce(["v"])
    [row] = read(spark, topic, columns="value,offset").collect()
    assert (row.asDict().keys(), bytes(row["value"])) == ({"value", "offset"}, b"v")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"startingOffsets": "latest"}, "a batch query cannot start at the latest offset"),
        ({"kafka.auto.offset.reset": "earliest"}, "where a new query starts is said by the option 'startingOffsets'"),
        ({"startingOffsets": '{"elsewhere":{"0":1}}'}, "must name every partition that is read"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_advice(
    spark: SparkSession, topic: Topic, options: dict[str, str], advice: str
) -> None:
    with pytest.raises(PySparkException, match=advice):
        read(spark, topic, **options).collect()
