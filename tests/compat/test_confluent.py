"""confluent-kafka (librdkafka): producer, consumer by assignment, admin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from .names import unique
from .raw import FOREVER

SECONDS_MAX = 30
Settings = dict[str, Any]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    return create(admin)


def create(admin: AdminClient, partitions: int = 1, **configs: str) -> str:
    name = unique()
    entries = {key.replace("_", "."): value for key, value in configs.items()}
    [future] = admin.create_topics([NewTopic(name, partitions, 1, config={**FOREVER, **entries})]).values()
    future.result(SECONDS_MAX)
    return name


@pytest.fixture
def producing(bootstrap: str) -> Callable[..., Producer]:
    def make(**settings: Any) -> Producer:
        entries = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **entries})

    return make


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "error"})
    yield consumer
    consumer.close()


def send(producer: Producer, topic: str, value: bytes | None, **changes: Any) -> Message:
    """Produce one record and wait for its delivery report."""
    reports: list[tuple[KafkaError | None, Message]] = []
    producer.produce(topic, value, on_delivery=lambda error, message: reports.append((error, message)), **changes)
    producer.flush(SECONDS_MAX)
    [(error, message)] = reports
    if error is not None:
        raise KafkaException(error)
    return message


def read(consumer: Consumer, topic: str, offset: int = OFFSET_BEGINNING, partition: int = 0) -> list[Message]:
    """Everything from `offset` to the end of the partition."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    got: list[Message] = []
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no end of the partition after {len(got)} records"
        error = message.error()
        if error is None:
            got.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return got
        else:
            raise KafkaException(error)


@pytest.mark.parametrize("acks", [1, "all"])
def test_record_comes_back_as_it_was_sent(
    producing: Callable[..., Producer], consumer: Consumer, topic: str, acks: Any
) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None), ("ü", b"\xff")]
    sent = send(producing(acks=acks), topic, b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123)
    assert (sent.partition(), sent.offset()) == (0, 0)
    [got] = read(consumer, topic)
    assert (got.key(), got.value(), got.headers()) == (b"key", b"value", headers)
    assert got.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert got.leader_epoch() == 0


def test_acks_0_is_not_answered_but_written(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    producer = producing(acks=0)
    for at in range(10):
        producer.produce(topic, str(at))
    producer.flush(SECONDS_MAX)
    send(producing(acks="all"), topic, b"last")
    deadline = time.monotonic() + SECONDS_MAX
    while len(got := read(consumer, topic)) < 11:
        assert time.monotonic() < deadline
    assert {message.value() for message in got} == {*(str(at).encode() for at in range(10)), b"last"}


def test_null_key_and_null_value_stay_null(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    send(producing(), topic, None, key=b"tombstone")
    send(producing(), topic, b"")
    first, second = read(consumer, topic)
    assert (first.key(), first.value()) == (b"tombstone", None)
    assert (second.key(), second.value()) == (None, b"")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("topic_codec", ["producer", "gzip", "uncompressed"])
def test_codec_brings_every_record_through(
    admin: AdminClient, producing: Callable[..., Producer], consumer: Consumer, codec: str, topic_codec: str
) -> None:
    topic = create(admin, compression_type=topic_codec)
    producer = producing(compression_type=codec, linger_ms=50)
    values = [f"{at} ".encode() * 50 for at in range(500)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0
    assert [message.value() for message in read(consumer, topic)] == values


def test_idempotent_producer_keeps_order_and_numbers(
    producing: Callable[..., Producer], consumer: Consumer, topic: str
) -> None:
    producer = producing(enable_idempotence=True)
    offsets: list[int | None] = []
    for at in range(2000):
        producer.produce(topic, str(at), on_delivery=lambda error, message: offsets.append(message.offset()))
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert offsets == list(range(2000))
    assert [int(message.value() or b"") for message in read(consumer, topic)] == list(range(2000))


def test_partition_is_the_one_asked_for(
    admin: AdminClient, producing: Callable[..., Producer], consumer: Consumer
) -> None:
    topic = create(admin, partitions=3)
    for partition in (2, 0, 2):
        assert send(producing(), topic, b"v", partition=partition).partition() == partition
    assert [len(read(consumer, topic, partition=partition)) for partition in range(3)] == [1, 0, 2]


def test_batches_near_the_limit_pass(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    producer = producing(linger_ms=100, batch_size=1_000_000)
    values = [bytes([at % 251]) * 100_000 for at in range(60)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0
    assert [message.value() for message in read(consumer, topic)] == values


def test_message_too_large_is_refused_by_the_node(producing: Callable[..., Producer], admin: AdminClient) -> None:
    topic = create(admin, max_message_bytes="1000")
    with pytest.raises(KafkaException) as refused:
        send(producing(), topic, b"x" * 2000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(producing(), topic, b"x" * 500).offset() == 0


def test_message_of_many_megabytes_passes_where_the_topic_allows_it(
    producing: Callable[..., Producer], admin: AdminClient, consumer: Consumer
) -> None:
    topic = create(admin, max_message_bytes="20000000")
    value = bytes(range(256)) * 40_000
    send(producing(message_max_bytes=20_000_000), topic, value)
    [got] = read(consumer, topic)
    assert got.value() == value


def test_reading_starts_where_it_is_told(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    for at in range(10):
        send(producing(), topic, str(at).encode())
    assert [message.offset() for message in read(consumer, topic, 7)] == [7, 8, 9]
    assert read(consumer, topic, OFFSET_END) == []
    assert len(read(consumer, topic, OFFSET_BEGINNING)) == 10


def test_offset_out_of_range_is_an_error(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    send(producing(), topic, b"v")
    with pytest.raises(KafkaException) as refused:
        read(consumer, topic, 1000)
    assert refused.value.args[0].code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def test_waiting_consumer_gets_a_new_record(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    assert read(consumer, topic) == []
    send(producing(), topic, b"news")
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert message.value() == b"news"


def test_offsets_are_found_by_time(producing: Callable[..., Producer], consumer: Consumer, topic: str) -> None:
    for at in range(5):
        send(producing(), topic, b"v", timestamp=1_700_000_000_000 + at * 1000)

    def offset_at(timestamp: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], SECONDS_MAX)
        assert found.error is None
        return int(found.offset)

    assert [offset_at(1_700_000_000_000 + ms) for ms in (-1, 0, 1, 1000, 4000)] == [0, 0, 1, 1, 4]
    assert offset_at(1_700_000_005_000) == OFFSET_END
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX) == (0, 5)


def test_admin_lists_offsets_of_every_kind(producing: Callable[..., Producer], admin: AdminClient, topic: str) -> None:
    for at in (0, 2, 1):
        send(producing(), topic, b"v", timestamp=1_700_000_000_000 + at * 1000)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        [future] = admin.list_offsets({TopicPartition(topic, 0): spec}).values()
        found = future.result(SECONDS_MAX)
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest())[0] == 0
    assert offset(OffsetSpec.latest())[0] == 3
    assert offset(OffsetSpec.max_timestamp()) == (1, 1_700_000_002_000)
    assert offset(OffsetSpec.for_timestamp(1_700_000_001_000)) == (1, 1_700_000_002_000)


def test_log_append_time_is_the_nodes_own(
    producing: Callable[..., Producer], admin: AdminClient, consumer: Consumer
) -> None:
    topic = create(admin, message_timestamp_type="LogAppendTime")
    before = time.time() * 1000
    send(producing(), topic, b"v", timestamp=1_000_000)
    [got] = read(consumer, topic)
    kind, timestamp = got.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= timestamp <= time.time() * 1000 + 1000


def test_topic_is_created_by_the_first_producer(
    producing: Callable[..., Producer], consumer: Consumer, admin: AdminClient
) -> None:
    topic = unique()
    send(producing(), topic, b"v")
    assert [message.value() for message in read(consumer, topic)] == [b"v"]
    assert len(admin.list_topics(topic, SECONDS_MAX).topics[topic].partitions) == 1


def test_consumer_does_not_create_topics(consumer: Consumer, admin: AdminClient) -> None:
    topic = unique()
    with pytest.raises(KafkaException) as refused:
        consumer.get_watermark_offsets(TopicPartition(topic, 0), 3)
    assert refused.value.args[0].code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._TIMED_OUT,
    )
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics


def code_of(futures: dict[Any, Any]) -> int:
    """The error code of the one future."""
    [future] = futures.values()
    with pytest.raises(KafkaException) as refused:
        future.result(SECONDS_MAX)
    return int(refused.value.args[0].code())


def test_mistakes_in_creating_topics_are_named(admin: AdminClient, topic: str) -> None:
    for wanted, code in (
        (NewTopic(topic, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("a b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(unique(), 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic(unique(), 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic(unique(), 1, 1, config={"retention.ms": "x"}), KafkaError.INVALID_CONFIG),
        (NewTopic(unique(), 1, 1, config={"nonsense": "x"}), KafkaError.INVALID_CONFIG),
    ):
        assert code_of(admin.create_topics([wanted])) == code, wanted


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    name = unique()
    [future] = admin.create_topics([NewTopic(name, 1, 1)], validate_only=True).values()
    future.result(SECONDS_MAX)
    assert name not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_deleted_topic_is_gone_and_its_name_free(admin: AdminClient, producing: Callable[..., Producer]) -> None:
    topic = create(admin)
    send(producing(), topic, b"old")
    [future] = admin.delete_topics([topic]).values()
    future.result(SECONDS_MAX)
    assert code_of(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    [future] = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    future.result(SECONDS_MAX)
    assert send(producing(), topic, b"new").offset() == 0


def test_topic_grows_but_never_shrinks(admin: AdminClient, producing: Callable[..., Producer], topic: str) -> None:
    [future] = admin.create_partitions([NewPartitions(topic, 3)]).values()
    future.result(SECONDS_MAX)
    assert code_of(admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS
    assert code_of(admin.create_partitions([NewPartitions(unique(), 2)])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert send(producing(), topic, b"v", partition=2).offset() == 0


def configs_of(admin: AdminClient, kind: Any, name: str) -> dict[str, ConfigEntry]:
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    entries: dict[str, ConfigEntry] = future.result(SECONDS_MAX)
    return entries


def wait_for_config(admin: AdminClient, topic: str, name: str, value: str) -> ConfigEntry:
    deadline = time.monotonic() + SECONDS_MAX
    while (entry := configs_of(admin, ConfigResource.Type.TOPIC, topic)[name]).value != value:
        assert time.monotonic() < deadline, entry
    return entry


def test_configs_are_described_with_all_defaults(admin: AdminClient) -> None:
    topic = create(admin, retention_ms="12345")
    entries = configs_of(admin, ConfigResource.Type.TOPIC, topic)
    assert len(entries) >= 30
    assert (entries["retention.ms"].value, entries["retention.ms"].is_default) == ("12345", False)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].is_default) == ("1073741824", True)
    broker_id = next(iter(admin.list_topics(timeout=SECONDS_MAX).brokers))
    broker = configs_of(admin, ConfigResource.Type.BROKER, str(broker_id))
    assert broker["message.max.bytes"].value == "1048588"


def test_incremental_changes_set_append_subtract_and_delete(admin: AdminClient, topic: str) -> None:
    def change(name: str, operation: AlterConfigOpType, value: str | None) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return admin.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]
        )

    def changed(name: str, operation: AlterConfigOpType, value: str | None) -> None:
        [future] = change(name, operation, value).values()
        future.result(SECONDS_MAX)

    changed("retention.ms", AlterConfigOpType.SET, "5000")
    entry = wait_for_config(admin, topic, "retention.ms", "5000")
    assert ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    changed("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    wait_for_config(admin, topic, "cleanup.policy", "delete,compact")
    changed("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    wait_for_config(admin, topic, "cleanup.policy", "compact")
    changed("retention.ms", AlterConfigOpType.DELETE, None)
    wait_for_config(admin, topic, "retention.ms", "604800000")
    assert code_of(change("retention.ms", AlterConfigOpType.SET, "x")) == KafkaError.INVALID_CONFIG
    assert code_of(change("nonsense", AlterConfigOpType.SET, "1")) == KafkaError.INVALID_CONFIG


def test_legacy_alter_replaces_every_config(admin: AdminClient) -> None:
    topic = create(admin, retention_ms="12345")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"segment.ms": "77777"})
    [future] = admin.alter_configs([resource]).values()
    future.result(SECONDS_MAX)
    wait_for_config(admin, topic, "segment.ms", "77777")
    wait_for_config(admin, topic, "retention.ms", "604800000")


def test_configs_of_a_missing_topic_are_an_error(admin: AdminClient) -> None:
    futures = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, unique())])
    assert code_of(futures) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_deleted_records_are_gone(
    admin: AdminClient, producing: Callable[..., Producer], consumer: Consumer, topic: str
) -> None:
    for at in range(10):
        send(producing(), topic, str(at).encode())
    [future] = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    assert future.result(SECONDS_MAX).low_watermark == 4
    assert [message.offset() for message in read(consumer, topic)] == [4, 5, 6, 7, 8, 9]
    assert code_of(admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE
    [future] = admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values()
    assert future.result(SECONDS_MAX).low_watermark == 10
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX) == (10, 10)
    assert send(producing(), topic, b"next").offset() == 10


def test_cluster_and_topics_are_described(admin: AdminClient, bootstrap: str) -> None:
    from confluent_kafka import TopicCollection

    topic = create(admin, partitions=2)
    cluster = admin.describe_cluster().result(SECONDS_MAX)
    assert cluster.cluster_id
    [node] = cluster.nodes
    assert f"{node.host}:{node.port}" == bootstrap
    assert cluster.controller.id == node.id
    [future] = admin.describe_topics(TopicCollection([topic])).values()
    described = future.result(SECONDS_MAX)
    assert [(p.id, p.leader.id, [r.id for r in p.isr]) for p in described.partitions] == [
        (at, node.id, [node.id]) for at in range(2)
    ]
    assert code_of(admin.describe_topics(TopicCollection([unique()]))) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_client_survives_a_restart(new_broker: Callable[[], Any]) -> None:
    broker = new_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = create(admin)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "enable.idempotence": True})
    assert send(producer, topic, b"before").offset() == 0
    broker.restart()
    assert send(producer, topic, b"after").offset() == 1
    broker.kill()
    broker.start()
    assert send(producer, topic, b"after the crash").offset() == 2
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.partition.eof": True})
    values = [message.value() for message in read(consumer, topic)]
    assert values == [b"before", b"after", b"after the crash"]
    consumer.close()
