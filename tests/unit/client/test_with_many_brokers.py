"""The client and a cluster of three brokers that are not ours: librdkafka's mock, which knows no more than Kafka 2."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.fetch import Fetched, data_batches, fetch
from ottla.client.group_commit import supports_group_commit
from ottla.client.metadata import NO_LEADER
from ottla.client.offsets import latest_offsets
from ottla.client.transactions import TransactionalProducer
from ottla.wire.batch import decode_records, encode_batch, new_records

from .conftest import Run

PLACES = [TopicPartition(TopicName("spread"), index) for index in range(4)]


@pytest.fixture(scope="module")
def mock_brokers() -> Iterator[str]:
    holder = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = holder.list_topics(timeout=10).brokers.values()
    bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    while len(holder.list_topics("spread", timeout=10).topics["spread"].partitions) < len(PLACES):
        pass  # asking for it makes it
    yield bootstrap
    holder.flush(0)


def test_each_partition_is_written_and_read_where_its_leader_is(run: Run[None], mock_brokers: str) -> None:
    async def play() -> None:
        async with Cluster.at(mock_brokers) as cluster:
            assert not await supports_group_commit(cluster)
            assert NO_LEADER not in await cluster.by_leader(PLACES, cluster.deadline())
            producer = TransactionalProducer(cluster, "mine")
            await producer.init()
            assert not producer.joins_by_itself
            before = await latest_offsets(cluster, PLACES)
            for place in PLACES:
                records = new_records([(None, b"%d" % place.partition)], 0)
                await producer.submit(place, encode_batch(records, producer=producer.stamp(place, 1)))
            await producer.commit()
            await producer.close()
            for place, outcome in (await fetch(cluster, before)).items():
                assert isinstance(outcome, Fetched)
                [(at, header)] = data_batches(outcome)
                [record] = decode_records(outcome.records[at : at + header.size])
                assert record.value == b"%d" % place.partition

    run(play())
