"""kafka-python: producer, consumer by assignment, admin."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import kafka.codec
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from .names import unique
from .raw import FOREVER

SECONDS_MAX = 30
POLL_MS = 1000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    return create(admin)


def create(admin: KafkaAdminClient, partitions: int = 1, **configs: str) -> str:
    name = unique()
    entries = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, partitions, 1, topic_configs={**FOREVER, **entries})])
    return name


def send(
    bootstrap: str, topic: str, *values: bytes | None, settings: dict[str, Any] | None = None, **sent: Any
) -> list[Any]:
    """Produce and wait for every acknowledgement."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **(settings or {}))
    try:
        futures = [producer.send(topic, value, **sent) for value in values]
        return [future.get(SECONDS_MAX) for future in futures]
    finally:
        producer.close(SECONDS_MAX)


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    settings = {"auto_offset_reset": "none", "enable_auto_commit": False, "group_id": None}
    client = KafkaConsumer(bootstrap_servers=bootstrap, **settings)
    yield client
    client.close()


def read(consumer: KafkaConsumer, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """`count` records from `offset` on."""
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    got: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} records"
        got += [record for records in consumer.poll(POLL_MS).values() for record in records]
    return got


@pytest.mark.parametrize(
    "settings",
    [{"acks": 1, "enable_idempotence": False}, {"acks": "all", "enable_idempotence": False}, {}],
    ids=["acks 1", "acks all", "idempotent"],
)
def test_record_comes_back_as_it_was_sent(
    bootstrap: str, consumer: KafkaConsumer, topic: str, settings: dict[str, Any]
) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    [sent] = send(
        bootstrap, topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123, settings=settings
    )
    assert (sent.partition, sent.offset) == (0, 0)
    send(bootstrap, topic, None, key=b"tombstone", settings=settings)
    first, second = read(consumer, topic, 2)
    assert (first.key, first.value, list(first.headers)) == (b"key", b"value", headers)
    assert (first.timestamp, first.timestamp_type) == (1_700_000_000_123, 0)
    assert (second.key, second.value) == (b"tombstone", None)


def test_acks_0_is_written(bootstrap: str, consumer: KafkaConsumer, topic: str) -> None:
    values = [str(at).encode() for at in range(10)]
    send(bootstrap, topic, *values, settings={"acks": 0, "enable_idempotence": False})
    assert [record.value for record in read(consumer, topic, 10)] == values


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_codec_brings_every_record_through(
    bootstrap: str, consumer: KafkaConsumer, topic: str, codec: str | None
) -> None:
    values = [f"{at} ".encode() * 50 for at in range(300)]
    if codec is not None and not getattr(kafka.codec, f"has_{codec}")():
        pytest.skip(f"kafka-python finds no {codec} library here")
    send(bootstrap, topic, *values, settings={"compression_type": codec, "linger_ms": 20})
    assert [record.value for record in read(consumer, topic, 300)] == values


def test_partition_is_the_one_asked_for(bootstrap: str, admin: KafkaAdminClient, consumer: KafkaConsumer) -> None:
    topic = create(admin, partitions=3)
    assert [sent.partition for sent in send(bootstrap, topic, b"v", partition=2)] == [2]
    assert len(read(consumer, topic, 1, partition=2)) == 1


def test_message_too_large_is_refused_by_the_node(bootstrap: str, admin: KafkaAdminClient) -> None:
    topic = create(admin, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        send(bootstrap, topic, b"x" * 2000)
    assert send(bootstrap, topic, b"x" * 500)[0].offset == 0


def test_offsets_are_found_by_place_and_time(bootstrap: str, consumer: KafkaConsumer, topic: str) -> None:
    place = TopicPartition(topic, 0)
    for at in range(5):
        send(bootstrap, topic, b"v", timestamp_ms=1_700_000_000_000 + at * 1000)
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 5}
    found = consumer.offsets_for_times({place: 1_700_000_001_500})[place]
    assert (found.offset, found.timestamp) == (2, 1_700_000_002_000)
    assert consumer.offsets_for_times({place: 1_800_000_000_000}) == {place: None}
    assert [record.offset for record in read(consumer, topic, 2, offset=3)] == [3, 4]


def test_offset_out_of_range_is_an_error(consumer: KafkaConsumer, topic: str) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        read(consumer, topic, 1, offset=1000)


def test_topic_is_created_by_the_first_producer(bootstrap: str, consumer: KafkaConsumer) -> None:
    topic = unique()
    assert send(bootstrap, topic, b"v")[0].offset == 0
    assert [record.value for record in read(consumer, topic, 1)] == [b"v"]


def test_log_append_time_is_the_nodes_own(bootstrap: str, admin: KafkaAdminClient, consumer: KafkaConsumer) -> None:
    topic = create(admin, message_timestamp_type="LogAppendTime")
    [sent] = send(bootstrap, topic, b"v", timestamp_ms=1000)
    [got] = read(consumer, topic, 1)
    assert got.timestamp_type == 1
    assert got.timestamp == sent.timestamp > 1_700_000_000_000


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic("a b", 1, 1), InvalidTopicError),
        (NewTopic(unique(), 0, 1), InvalidPartitionsError),
        (NewTopic(unique(), 1, 3), InvalidReplicationFactorError),
        (NewTopic(unique(), 1, 1, topic_configs={"retention.ms": "x"}), InvalidConfigurationError),
    ],
    ids=["name", "partitions", "factor", "config"],
)
def test_mistake_in_creating_a_topic_is_named(admin: KafkaAdminClient, wanted: NewTopic, error: type) -> None:
    with pytest.raises(error):
        admin.create_topics([wanted])


def test_topics_are_created_once_and_deleted_once(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    admin.delete_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_topic_grows_but_never_shrinks(bootstrap: str, admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: NewPartitions(3)})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: NewPartitions(2)})
    assert send(bootstrap, topic, b"v", partition=2)[0].offset == 0


def test_topics_and_cluster_are_described(admin: KafkaAdminClient, bootstrap: str) -> None:
    topic = create(admin, partitions=2)
    [described] = admin.describe_topics([topic])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1]
    cluster = admin.describe_cluster()
    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [bootstrap]


def test_configs_are_altered_and_described(admin: KafkaAdminClient, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5000"})
    admin.alter_configs([resource])
    deadline = time.monotonic() + SECONDS_MAX
    while "5000" not in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])):
        assert time.monotonic() < deadline


def test_admin_lists_offsets(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    for at in (0, 2, 1):
        send(bootstrap, topic, b"v", timestamp_ms=1_700_000_000_000 + at * 1000)
    place = TopicPartition(topic, 0)
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 3), (OffsetSpec.MAX_TIMESTAMP, 1)):
        assert admin.list_partition_offsets({place: spec})[place].offset == offset


def test_deleted_records_are_gone(admin: KafkaAdminClient, bootstrap: str, consumer: KafkaConsumer, topic: str) -> None:
    send(bootstrap, topic, *[b"v"] * 6)
    place = TopicPartition(topic, 0)
    admin.delete_records({place: 4})
    assert consumer.beginning_offsets([place]) == {place: 4}
    with pytest.raises(KafkaError):
        admin.delete_records({place: 7})


def test_log_directories_producers_and_quorum_are_described(
    admin: KafkaAdminClient, bootstrap: str, topic: str
) -> None:
    send(bootstrap, topic, b"v")
    assert topic in str(admin.describe_log_dirs())
    place = TopicPartition(topic, 0)
    assert admin.describe_producers([place])
    assert admin.describe_metadata_quorum()
