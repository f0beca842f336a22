"""A whole data directory, metadata log and all, goes from one broker to the other and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from .brokers import Broker, KafkaBroker, OttlaBroker, discard
from .java import Missing, kafka_libs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


def create(broker: Broker, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(name, partitions, config={"retention.ms": "12345"})
    admin.create_topics([topic])[name].result(timeout=30)


def check_topics(broker: Broker, expected: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = admin.list_topics(timeout=30).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == expected
    for topic in topics.values():
        assert all(partition.leader == 1 for partition in topic.partitions.values())
    for name in expected:
        resource = ConfigResource("topic", name)
        described = admin.describe_configs([resource])[resource].result(timeout=30)
        assert described["retention.ms"].value == "12345"


@pytest.mark.parametrize("has_snapshots", [False, True])
def test_a_directory_serves_ottla_then_apache_then_ottla(tmp_path: Path, has_snapshots: bool) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "400"} if has_snapshots else {}
    ottla, apache = OttlaBroker(tmp_path / "ottla", settings), KafkaBroker(tmp_path / "kafka")
    apache.data_dir = ottla.data_dir
    topics: dict[str, int] = {}
    try:
        for turn, broker in enumerate((ottla, apache, ottla, apache)):
            broker.start()
            check_topics(broker, topics)
            for at in (1, 2, 3):
                create(broker, f"t{turn}-{at}", at)
                topics[f"t{turn}-{at}"] = at
            check_topics(broker, topics)
            broker.stop()
        assert (len(list(ottla.metadata_log.glob("*.checkpoint"))) > 1) == has_snapshots
    finally:
        discard(ottla)
        discard(apache)
