"""aiokafka: producer, consumer by assignment, admin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, OffsetOutOfRangeError

from .names import unique
from .raw import FOREVER

SECONDS_MAX = 30
UNKNOWN_TOPIC, BAD_TOPIC, EXISTS, BAD_PARTITIONS, BAD_FACTOR, BAD_CONFIG = 3, 17, 36, 37, 38, 40


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))  # type: ignore[arg-type]


async def create(bootstrap: str, partitions: int = 1, **configs: str) -> str:
    name = unique()
    entries = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs={**FOREVER, **entries})])
    assert [entry[1] for entry in answer.topic_errors] == [0]
    await admin.close()
    return name


def producing(bootstrap: str, **settings: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)


def consuming(bootstrap: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **settings)


async def read(consumer: AIOKafkaConsumer, topic: str, offset: int = 0, partition: int = 0) -> list[Any]:
    """Everything from `offset` to the end of the partition."""
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    end = (await consumer.end_offsets([place]))[place]
    consumer.seek(place, offset)
    got: list[Any] = []
    while not got or got[-1].offset + 1 < end:
        if offset >= end:
            break
        got.append(await asyncio.wait_for(consumer.getone(), SECONDS_MAX))
    return got


@pytest.mark.parametrize("acks", [1, "all"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_record_comes_back_as_it_was_sent(bootstrap: str, acks: Any, idempotent: bool) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap)
        headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
        async with producing(bootstrap, acks="all" if idempotent else acks, enable_idempotence=idempotent) as producer:
            sent = await producer.send_and_wait(
                topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123
            )
            await producer.send_and_wait(topic, None, key=b"tombstone")
            await producer.send_and_wait(topic, b"")
        assert (sent.partition, sent.offset) == (0, 0)
        async with consuming(bootstrap) as consumer:
            first, second, third = await read(consumer, topic)
        assert (first.key, first.value, list(first.headers)) == (b"key", b"value", headers)
        assert (first.timestamp, first.timestamp_type) == (1_700_000_000_123, 0)
        assert (second.key, second.value, third.key, third.value) == (b"tombstone", None, None, b"")

    run(scenario)


def test_acks_0_is_written(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap)
        async with producing(bootstrap, acks=0) as producer:
            for at in range(10):
                await producer.send(topic, str(at).encode())
            await producer.flush()
            async with consuming(bootstrap) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                await consumer.seek_to_beginning()
                got = [await asyncio.wait_for(consumer.getone(), SECONDS_MAX) for _ in range(10)]
        assert [message.value for message in got] == [str(at).encode() for at in range(10)]

    run(scenario)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_codec_brings_every_record_through(bootstrap: str, codec: str | None) -> None:
    pytest.importorskip("cramjam")

    async def scenario() -> None:
        topic = await create(bootstrap)
        values = [f"{at} ".encode() * 50 for at in range(300)]
        async with producing(bootstrap, compression_type=codec, linger_ms=20) as producer:
            for sent in [await producer.send(topic, value) for value in values]:
                await sent
        async with consuming(bootstrap) as consumer:
            assert [message.value for message in await read(consumer, topic)] == values

    run(scenario)


def test_message_too_large_is_refused_by_the_node(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap, max_message_bytes="1000")
        async with producing(bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 2000)
            assert (await producer.send_and_wait(topic, b"x" * 500)).offset == 0

    run(scenario)


def test_offsets_are_found_by_place_and_time(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap, partitions=2)
        place = TopicPartition(topic, 1)
        async with producing(bootstrap) as producer:
            for at in range(5):
                await producer.send_and_wait(topic, b"v", partition=1, timestamp_ms=1_700_000_000_000 + at * 1000)
        async with consuming(bootstrap) as consumer:
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 5}
            found = await consumer.offsets_for_times({place: 1_700_000_001_500})
            assert (found[place].offset, found[place].timestamp) == (2, 1_700_000_002_000)
            assert await consumer.offsets_for_times({place: 1_800_000_000_000}) == {place: None}
            assert [message.offset for message in await read(consumer, topic, 3, partition=1)] == [3, 4]

    run(scenario)


def test_offset_out_of_range_is_an_error(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap)
        async with consuming(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 1000)
            with pytest.raises(OffsetOutOfRangeError):
                await asyncio.wait_for(consumer.getone(), SECONDS_MAX)

    run(scenario)


def test_waiting_consumer_gets_a_new_record(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap)
        async with consuming(bootstrap, fetch_max_wait_ms=20_000) as consumer, producing(bootstrap) as producer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_end()
            waiting = asyncio.ensure_future(consumer.getone())
            await producer.send_and_wait(topic, b"news")
            assert (await asyncio.wait_for(waiting, SECONDS_MAX)).value == b"news"

    run(scenario)


def test_topic_is_created_by_the_first_producer(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = unique()
        async with producing(bootstrap) as producer:
            assert (await producer.send_and_wait(topic, b"v")).offset == 0
        async with consuming(bootstrap) as consumer:
            assert [message.value for message in await read(consumer, topic)] == [b"v"]

    run(scenario)


def test_log_append_time_is_the_nodes_own(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap, message_timestamp_type="LogAppendTime")
        async with producing(bootstrap) as producer:
            sent = await producer.send_and_wait(topic, b"v", timestamp_ms=1000)
        async with consuming(bootstrap) as consumer:
            [got] = await read(consumer, topic)
        assert (sent.timestamp_type, got.timestamp_type) == (1, 1)
        assert sent.timestamp == got.timestamp > 1_700_000_000_000

    run(scenario)


def test_admin_creates_grows_describes_and_deletes_topics(bootstrap: str) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        name = await create(bootstrap, partitions=2, retention_ms="12345")
        [described] = await admin.describe_topics([name])
        assert (described["error_code"], len(described["partitions"])) == (0, 2)
        grown = await admin.create_partitions({name: NewPartitions(3)})
        assert [entry[1] for entry in grown.topic_errors] == [0]
        [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        entries = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        assert (entries["retention.ms"], len(entries) >= 30) == ("12345", True)
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"segment.ms": "77777"})
        [altered] = await admin.alter_configs([resource])
        assert altered.resources[0][0] == 0
        cluster = await admin.describe_cluster()
        assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [bootstrap]
        assert name in await admin.list_topics()
        deleted = await admin.delete_topics([name])
        assert [entry[1] for entry in deleted.topic_error_codes] == [0]
        await admin.close()

    run(scenario)


def test_mistakes_in_creating_topics_are_named(bootstrap: str) -> None:
    async def scenario() -> None:
        existing = await create(bootstrap)
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        for wanted, code in (
            (NewTopic(existing, 1, 1), EXISTS),
            (NewTopic("a b", 1, 1), BAD_TOPIC),
            (NewTopic(unique(), 0, 1), BAD_PARTITIONS),
            (NewTopic(unique(), 1, 3), BAD_FACTOR),
            (NewTopic(unique(), 1, 1, topic_configs={"retention.ms": "x"}), BAD_CONFIG),
        ):
            answer = await admin.create_topics([wanted])
            assert [entry[1] for entry in answer.topic_errors] == [code]
        deleted = await admin.delete_topics([unique()])
        assert [entry[1] for entry in deleted.topic_error_codes] == [UNKNOWN_TOPIC]
        await admin.close()

    run(scenario)


def test_deleted_records_are_gone(bootstrap: str) -> None:
    async def scenario() -> None:
        topic = await create(bootstrap)
        place = TopicPartition(topic, 0)
        async with producing(bootstrap) as producer:
            for at in range(6):
                await producer.send_and_wait(topic, str(at).encode())
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        assert await admin.delete_records({place: RecordsToDelete(before_offset=4)}) == {place: 4}
        with pytest.raises(KafkaError):
            await admin.delete_records({place: RecordsToDelete(before_offset=7)})
        await admin.close()
        async with consuming(bootstrap) as consumer:
            assert await consumer.beginning_offsets([place]) == {place: 4}
            assert [message.offset for message in await read(consumer, topic, 4)] == [4, 5]

    run(scenario)
