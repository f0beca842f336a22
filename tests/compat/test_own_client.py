"""Our own client (`ottla.client`) and the node under test; `--peer kafka` shows that it speaks with Apache Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.failures import AuthenticationFailed, Fenced, NoSuchTopic
from ottla.client.fetch import Appetite, Fetched, OutOfRange, data_batches, fetch
from ottla.client.group_commit import supports_group_commit
from ottla.client.offsets import EARLIEST, LATEST, commit_offsets, fetch_offsets, latest_offsets, list_offsets
from ottla.client.settings import ClientSettings
from ottla.client.transactions import TransactionalProducer
from ottla.wire.batch import decode_records, encode_batch, new_records

from .brokers import Broker, KafkaBroker
from .java import Missing
from .raw import Raw

PLAIN_LISTENER = "listener.name.secured"
LOGIN = 'required username="admin" password="right" user_admin="right" user_me="right";'


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


async def write(producer: TransactionalProducer, where: TopicPartition, *values: bytes) -> None:
    for value in values:
        records = new_records([(None, value)], int(time.time() * 1000))
        await producer.submit(where, encode_batch(records, producer=producer.stamp(where, 1)))


async def read(cluster: Cluster, where: TopicPartition) -> list[bytes]:
    """All that counts, up to the last stable offset."""
    values: list[bytes] = []
    end = (await latest_offsets(cluster, [where]))[where]
    fetched = (await fetch(cluster, {where: 0}, Appetite(wait_ms_max=100)))[where]
    assert isinstance(fetched, Fetched)
    assert fetched.last_stable_offset == end
    for at, header in data_batches(fetched):
        values += [record.value or b"" for record in decode_records(fetched.records[at : at + header.size])]
    return values


@pytest.mark.parametrize("joins_by_itself", [False, True], ids=["classic", "version 2"])
def test_transactions_of_both_generations_count_or_do_not(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch, joins_by_itself: bool
) -> None:
    topic = raw.create(partitions=3)
    if not joins_by_itself:
        monkeypatch.setattr("ottla.client.transactions._FEATURE_LEVEL", 99)

    async def play() -> None:
        async with Cluster.at(broker.bootstrap) as cluster:
            producer = TransactionalProducer(cluster, topic)
            await producer.init()
            assert producer.joins_by_itself is joins_by_itself
            await write(producer, place(topic), b"one", b"two")
            await producer.send_offsets(topic, {place(topic, 2): 7})
            await producer.commit()
            await write(producer, place(topic), b"never")
            await write(producer, place(topic, 1), b"never")
            await producer.send_offsets(topic, {place(topic, 2): 99})
            await producer.abort()
            await write(producer, place(topic, 1), b"three")
            await producer.commit()
            assert await read(cluster, place(topic)) == [b"one", b"two"]
            assert await read(cluster, place(topic, 1)) == [b"three"]
            assert {at: one.offset for at, one in (await fetch_offsets(cluster, topic)).items()} == {place(topic, 2): 7}
            successor = TransactionalProducer(cluster, topic)
            await successor.init()
            with pytest.raises(Fenced):
                await write(producer, place(topic), b"late")
                await producer.commit()

    run(play())


def test_offsets_are_found_kept_and_missed(broker: Broker, raw: Raw) -> None:
    topic = raw.create(partitions=2)

    async def play() -> None:
        async with Cluster.at(broker.bootstrap) as cluster:
            assert await cluster.partitions([topic]) == [place(topic), place(topic, 1)]
            assert list(await cluster.topics_like(topic[:-1] + ".")) == [topic]
            with pytest.raises(NoSuchTopic):
                await cluster.topics([topic + "-not"])
            producer = TransactionalProducer(cluster, topic)
            await producer.init()
            await write(producer, place(topic), b"a", b"b")
            await producer.commit()
            for asked, offset in ((EARLIEST, 0), (LATEST, 3), (1, 0), (2**52, -1)):
                assert (await list_offsets(cluster, {place(topic): asked}))[place(topic)].offset == offset
            outcomes = await fetch(cluster, {place(topic): 99, place(topic, 1): 0}, Appetite(wait_ms_max=0))
            failure = outcomes[place(topic)]
            assert isinstance(failure, OutOfRange)
            assert (failure.log_start, failure.high_watermark) == (0, 3)
            assert isinstance(outcomes[place(topic, 1)], Fetched)
            await commit_offsets(cluster, topic + "-alone", {place(topic): 2}, "as of now")
            kept = await fetch_offsets(cluster, topic + "-alone", [place(topic), place(topic, 1)])
            assert {at: tuple(one) for at, one in kept.items()} == {place(topic): (2, "as of now")}

    run(play())


def test_only_a_node_of_ours_tells_of_group_commits(broker: Broker) -> None:
    async def play() -> None:
        async with Cluster.at(broker.bootstrap) as cluster:
            assert await supports_group_commit(cluster) is (broker.name == "ottla")

    run(play())


@pytest.mark.peers
def test_a_secured_kafka_lets_in_who_knows_the_password(tmp_path: Any) -> None:
    node = KafkaBroker(tmp_path)
    secured = f"SECURED://127.0.0.1:{node.port}"
    controller = f"CONTROLLER://127.0.0.1:{node._controller_port}"
    jaas = "org.apache.kafka.common.security"
    node.settings = {
        "listeners": f"{secured},{controller}",
        "advertised.listeners": f"{secured},{controller}",
        "listener.security.protocol.map": "SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SECURED",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{PLAIN_LISTENER}.plain.sasl.jaas.config": f"{jaas}.plain.PlainLoginModule {LOGIN}",
        f"{PLAIN_LISTENER}.scram-sha-256.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        f"{PLAIN_LISTENER}.scram-sha-512.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
    }
    try:
        node.start()
    except Missing as missing:
        pytest.skip(str(missing))
    try:
        _make_users(node.bootstrap)
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            run(_log_in(login(node.bootstrap, mechanism, "right")))
            with pytest.raises(AuthenticationFailed):
                run(_log_in(login(node.bootstrap, mechanism, "wrong")))
    finally:
        node.kill()


def login(bootstrap: str, mechanism: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "me",
        "sasl.password": password,
    }


def _make_users(bootstrap: str) -> None:
    admin = AdminClient(login(bootstrap, "PLAIN", "right"))
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("me", credential, b"right")
        admin.alter_user_scram_credentials([change])["me"].result(30)


async def _log_in(settings: dict[str, object]) -> None:
    async with Cluster(ClientSettings.from_kafka(settings)) as cluster:
        await cluster.learn(None, cluster.deadline(20))
