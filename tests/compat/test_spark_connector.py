"""Spark's own Kafka connector: it reads and writes our node, and finds the rows that our data source finds, there and
at Apache Kafka."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

import ottla.spark
from tests.spark.topics import Topic

from .brokers import Broker, discard, make_broker
from .conftest import start
from .java import Missing, connector_jars

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

KINDS = ("ottla", "kafka")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000
FOREVER = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    try:
        jars = os.pathsep.join(map(str, connector_jars()))
    except Missing as missing:
        pytest.skip(str(missing))
    config = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 1,
        "spark.driver.extraClassPath": jars,
    }
    session = ottla.spark.session("connector", config=config)
    yield session
    session.stop()


@pytest.fixture(scope="module", params=KINDS)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Both, whatever `--peer` says: one is what the other is compared with."""
    broker = make_broker(request.param, tmp_path_factory.mktemp(f"connector-{request.param}"))
    start(broker)
    yield broker
    discard(broker)


def a_topic(node: Broker, name: str, configs: Mapping[str, str] = FOREVER) -> Topic:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1, config=dict(configs))])[name].result(20)
    return Topic(node.bootstrap, name)


@pytest.fixture
def topic(node: Broker, request: pytest.FixtureRequest) -> Topic:
    return a_topic(node, "".join(letter if letter.isalnum() else "-" for letter in request.node.name))


def read(spark: SparkSession, kind: str, topic: Topic, **options: str) -> DataFrame:
    """With all columns, and with the isolation said: it is where the defaults differ."""
    said = {"kafka.isolation.level": "read_committed", "includeHeaders": "true", **options}
    which = {} if "assign" in said or "subscribePattern" in said else {"subscribe": topic.name}
    return spark.read.format(kind).options(**{"kafka.bootstrap.servers": topic.bootstrap, **which, **said}).load()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """By partition and offset; times in microseconds, since Python's own depend on the machine's zone."""
    told = frame.selectExpr("* EXCEPT (timestamp)", "unix_micros(timestamp) AS micros")
    return [row.asDict(recursive=True) for row in told.orderBy("topic", "partition", "offset").collect()]


def same_rows(spark: SparkSession, topic: Topic, **options: str) -> list[dict[str, Any]]:
    ours, theirs = (read(spark, kind, topic, **options) for kind in KINDS)
    assert ours.schema == theirs.schema
    found = rows_of(ours)
    assert found == rows_of(theirs)
    return found


def fill(topic: Topic) -> int:
    """Records of every kind there is, in batches of every codec; how many a reader of committed ones sees."""
    headers = ([("a", b"1"), ("a", None), ("empty", b"")], [], None)
    seen = 0
    for index, codec in enumerate(CODECS):
        producer = topic.producer(compression_type=codec, linger_ms=50)
        for number in range(12):
            key = (None, b"", b"key-%d" % number)[number % 3]
            value = (b"x" * 200, None, b"", f"{codec} {number} é".encode())[number % 4]
            producer.produce(
                topic.name,
                value,
                key,
                number % 2,
                timestamp=NOW + 1000 * index + number,
                headers=headers[number % 3],
            )
            seen += 1
        producer.flush()
        for partition in (0, 1):
            topic.transact(range(3), is_committed=partition == 1, partition=partition)
            seen += 3 * partition
    return seen


def test_both_sources_return_the_same_rows(spark: SparkSession, topic: Topic) -> None:
    committed = fill(topic)
    rows = same_rows(spark, topic)
    assert len(rows) == committed
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (found.partition(), found.offset(), found.value()) for found in topic.records()
    ]
    assert {type(row["headers"]) for row in rows} == {list, type(None)}
    everything = same_rows(spark, topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert len(everything) == committed + 3 * len(CODECS)


def test_the_time_of_appending_is_the_same_in_both(spark: SparkSession, node: Broker) -> None:
    topic = a_topic(node, "append-time", {**FOREVER, "message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        topic.produce(range(5), compression_type=codec)
    assert {row["timestampType"] for row in same_rows(spark, topic)} == {1}


def test_options_choose_the_same_rows(spark: SparkSession, topic: Topic) -> None:
    fill(topic)
    name, half = topic.name, NOW + 2000

    def offsets(*numbers: int) -> str:
        return json.dumps({name: {str(index): number for index, number in enumerate(numbers)}})

    everything = len(same_rows(spark, topic))
    for options in (
        {"startingOffsets": offsets(3, -2), "endingOffsets": offsets(20, -1)},
        {"startingTimestamp": str(half), "endingTimestamp": str(half + 1005)},
        {"startingOffsetsByTimestamp": offsets(half, NOW), "endingOffsetsByTimestamp": offsets(half + 1000, half)},
        {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
        {"assign": json.dumps({name: [1]})},
    ):
        assert len(same_rows(spark, topic, **options)) < everything, options
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "5"}, {"subscribePattern": f"{name[:-2]}.*"}):
        assert len(same_rows(spark, topic, **options)) == everything, options


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_connector_writes_is_read_by_all(spark: SparkSession, topic: Topic, codec: str) -> None:
    rows = spark.sql(
        """
        SELECT if(id % 3 = 0, null, concat('key-', id)) AS key, if(id % 4 = 0, null, repeat(string(id), 20)) AS value,
               int(id % 2) AS partition,
               if(id % 5 = 0, null, array(named_struct('key', 'h', 'value', cast(string(id) AS binary)))) AS headers
        FROM range(300)
        """
    )
    options = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name, "includeHeaders": "true"}
    rows.write.format("kafka").options(**options, **{"kafka.compression.type": codec}).save()
    found = same_rows(spark, topic)
    assert len(found) == 300 and {row["partition"] for row in found} == {0, 1}
    expected = rows.selectExpr("cast(key AS binary) key", "cast(value AS binary) value", "partition", "headers")
    assert same_values(expected, found)
    assert [row["value"] for row in found] == [one.value() for one in topic.records()]


def same_values(expected: DataFrame, found: list[dict[str, Any]]) -> bool:
    names = ("key", "value", "partition", "headers")
    sent = [row.asDict(recursive=True) for row in expected.collect()]
    return sorted(str([row[name] for name in names]) for row in sent) == sorted(
        str([row[name] for name in names]) for row in found
    )


def test_what_our_sink_writes_is_read_by_all(spark: SparkSession, topic: Topic) -> None:
    rows = spark.range(1000).selectExpr("string(id) AS key", "concat('v', id) AS value", "int(id % 2) AS partition")
    options = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name}
    rows.write.format("ottla").mode("append").options(**options).save()
    assert sorted(int(row["key"]) for row in same_rows(spark, topic)) == list(range(1000))


def copy(spark: SparkSession, kinds: tuple[str, str], topics: tuple[Topic, Topic], checkpoint: Path) -> None:
    """What is there, from the one topic to the other, by this source and this sink."""
    (source, target), (reader, writer) = topics, kinds
    options = {**source.options, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    rows = spark.readStream.format(reader).options(**options, maxOffsetsPerTrigger="40").load()
    changed = rows.selectExpr("key", "concat(string(value), '!') AS value")
    to = {**target.sink, "checkpointLocation": str(checkpoint)}
    query = changed.writeStream.format(writer).options(**to).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


@pytest.mark.parametrize("writer", KINDS)
def test_a_checkpoint_goes_on_with_the_other_source_and_back(
    spark: SparkSession, node: Broker, topic: Topic, tmp_path: Path, writer: str
) -> None:
    target = a_topic(node, f"target-of-{topic.name}")
    written: list[str] = []
    for number, reader in enumerate(("kafka", "ottla", "kafka", "ottla")):
        for partition in (0, 1):
            values = [f"{number}-{partition}-{index}" for index in range(50)]
            topic.produce(values, partition)
            written += [f"{value}!" for value in values]
        copy(spark, (reader, writer), (topic, target), tmp_path)
        assert sorted(target.values()) == sorted(written)


def test_the_connector_goes_on_after_a_restart(spark: SparkSession, node: Broker, topic: Topic, tmp_path: Path) -> None:
    target = a_topic(node, f"target-of-{topic.name}")
    for number in range(3):
        topic.produce(range(100 * number, 100 * number + 100), number % 2)
        topic.transact(["aborted"], is_committed=False)
        copy(spark, ("kafka", "kafka"), (topic, target), tmp_path)
        assert sorted(target.values()) == sorted(f"{value}!" for value in range(100 * number + 100))
