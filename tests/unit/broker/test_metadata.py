"""Metadata, DescribeCluster and DescribeTopicPartitions, on the controller's real decisions."""

import asyncio
from typing import Any

import pytest

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.broker.api.metadata import MetadataApi
from ottla.broker.api.topic_partitions import TopicPartitionsApi
from ottla.core.metadata import records as r
from ottla.core.metadata.asks import NewPartitions, NewTopic, TopicRef
from ottla.net.connection import Peer
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.cluster import CLUSTER_ID, PEER, CoreController, FakeReplicas, call, one_node, told

ALL_VERSIONS = range(14)
NOT_ASKED = -(2**31)


class Room:
    """The API over one broker, with topics."""

    def __init__(self, *topics: tuple[str, int], settings: dict[str, str] | None = None) -> None:
        self.controller, self.config = one_node(settings)
        self.replicas = FakeReplicas()
        self.make(*topics)
        self.api = MetadataApi(self.controller, self.replicas, self.config, CLUSTER_ID)  # type: ignore[arg-type]

    def make(self, *topics: tuple[str, int]) -> None:
        asyncio.run(self.controller.create_topics([NewTopic(name, count, 1) for name, count in topics]))

    def ask(self, request: MetadataRequest, version: int, peer: Peer = PEER) -> Any:
        return told(asyncio.run(self.api.metadata(call(request, version, peer))), version)

    def named(self, *names: str, version: int = 12, create: bool = False) -> dict[str, Any]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        answer = self.ask(MetadataRequest(topics, allow_auto_topic_creation=create), version)
        return {topic.name: topic for topic in answer.topics}


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_tells_brokers_topics_and_leaders(version: int) -> None:
    room = Room(("one", 2), ("two", 1))
    answer = room.ask(MetadataRequest([] if version == 0 else None), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert {topic.name: len(topic.partitions) for topic in answer.topics} == {"one": 2, "two": 1}
    first = answer.topics[0].partitions[0]
    assert (first.error_code, first.leader_id, first.replica_nodes, first.isr_nodes) == (0, 1, [1], [1])
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
    if version >= 10:
        assert answer.topics[0].topic_id == room.controller.image.topics_by_name["one"].id


def test_no_topics_means_all_in_version_0_and_none_later() -> None:
    room = Room(("one", 1))
    assert len(room.ask(MetadataRequest([]), 0).topics) == 1
    assert len(room.ask(MetadataRequest([]), 1).topics) == 0
    assert len(room.ask(MetadataRequest(None), 1).topics) == 1


@pytest.mark.parametrize("name", ["a b", "", ".", "..", "x" * 250, "é", "a/b"])
def test_an_illegal_name_is_refused_and_never_created(name: str) -> None:
    room = Room()
    assert room.named(name, create=True)[name].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert room.controller.image.topics_by_name == {}


def test_a_topic_is_created_by_asking_for_it_and_led_at_once() -> None:
    room = Room(settings={"num.partitions": "3"})
    answer = room.named("fresh", create=True)["fresh"]
    assert answer.error_code == 0
    assert [partition.leader_id for partition in answer.partitions] == [1, 1, 1]
    assert room.replicas.waited_for == ["fresh"]


@pytest.mark.parametrize(
    ("settings", "version", "create"),
    [({"auto.create.topics.enable": "false"}, 12, True), ({}, 12, False), ({}, 4, False)],
)
def test_no_topic_is_created_when_the_client_or_the_node_forbids_it(
    settings: dict[str, str], version: int, create: bool
) -> None:
    room = Room(settings=settings)
    topic = room.named("fresh", version=version, create=create)["fresh"]
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert room.controller.image.topics_by_name == {}


def test_clients_older_than_the_choice_create_by_asking() -> None:
    assert Room().named("fresh", version=3)["fresh"].error_code == 0


def test_asking_creates_only_so_many_topics_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.api.metadata.TOPICS_CREATED_BY_ASKING_MAX", 2)
    room = Room()
    first = room.named("a", "b", "c", create=True)
    assert [topic.error_code for topic in first.values()] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [topic.error_code for topic in room.named("a", "b", "c", create=True).values()] == [0, 0, 0]


def test_a_creation_that_fails_says_why() -> None:
    room = Room(settings={"default.replication.factor": "3"})
    assert room.named("fresh", create=True)["fresh"].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    room.controller.refusal = Refused(ErrorCode.NOT_CONTROLLER, "another node is")
    assert room.named("fresh", create=True)["fresh"].error_code == ErrorCode.NOT_CONTROLLER


def test_internal_topics_are_marked_and_not_created_by_asking() -> None:
    room = Room()
    topic = room.named("__consumer_offsets", create=True)["__consumer_offsets"]
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert room.named("__cluster_metadata")["__cluster_metadata"].is_internal is False


def test_a_topic_named_twice_is_answered_once() -> None:
    room = Room(("one", 1))
    request = MetadataRequest([MetadataRequestTopic(name="one")] * 3 + [MetadataRequestTopic(name="no")] * 2, False)
    assert [topic.name for topic in room.ask(request, 12).topics] == ["one", "no"]


def test_topics_are_asked_for_by_id_from_version_12_on() -> None:
    room = Room(("one", 1))
    topic_id = room.controller.image.topics_by_name["one"].id
    by_id = MetadataRequest([MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"\x07" * 16, None)])
    known, unknown = room.ask(by_id, 12).topics
    assert (known.name, known.error_code) == ("one", 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    assert {topic.error_code for topic in room.ask(by_id, 11).topics} == {ErrorCode.INVALID_REQUEST}
    assert room.ask(MetadataRequest([MetadataRequestTopic(name=None)]), 12).topics[0].error_code == 42


def test_authorised_operations_are_told_when_asked_for() -> None:
    room = Room(("one", 1))
    request = MetadataRequest(None, True, True, True)
    answer = room.ask(request, 8)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (8096, 3576)
    answer = room.ask(MetadataRequest(None), 8)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (NOT_ASKED,) * 2


def test_a_client_is_told_the_addresses_of_its_own_listener() -> None:
    room = Room(("one", 1))
    room.controller.add_broker(2, 9999, listener="INSIDE")
    assert [broker.port for broker in room.ask(MetadataRequest(None), 12).brokers] == [9092]
    inside = room.ask(MetadataRequest(None), 12, Peer("127.0.0.1", 1, "INSIDE", "127.0.0.1"))
    assert [broker.port for broker in inside.brokers] == [9999]
    partition = inside.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "192.0.2.5"),
        ({"listeners": "PLAINTEXT://[::]:9092"}, "192.0.2.5"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "127.0.0.1"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://h:1"}, "127.0.0.1"),
    ],
)
def test_a_node_bound_to_every_address_names_the_one_that_the_client_reached(
    settings: dict[str, str], host: str
) -> None:
    room = Room()
    config = BrokerConfig.from_texts(settings)
    room.api = MetadataApi(room.controller, room.replicas, config, CLUSTER_ID)  # type: ignore[arg-type]
    answer = room.ask(MetadataRequest(None), 12, Peer("192.0.2.9", 1, "PLAINTEXT", "192.0.2.5"))
    assert [broker.host for broker in answer.brokers] == [host]


def test_a_fenced_leader_is_no_leader_and_its_replica_is_offline() -> None:
    room = Room(("one", 1))
    before = room.ask(MetadataRequest(None), 12)
    assert before.topics[0].partitions[0].error_code == 0
    room.controller.apply(r.FenceBrokerRecord(id=1, epoch=5))
    answer = room.ask(MetadataRequest(None), 5)
    partition = answer.topics[0].partitions[0]
    assert answer.brokers == [] and answer.controller_id == -1
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (partition.replica_nodes, partition.offline_replicas) == ([1], [1])
    oldest = room.ask(MetadataRequest([]), 0).topics[0].partitions[0]
    assert (oldest.replica_nodes, oldest.isr_nodes) == ([], [])


def test_answers_follow_every_change_of_the_image() -> None:
    room = Room(("one", 1))
    assert len(room.named("one")["one"].partitions) == 1
    asyncio.run(room.controller.create_partitions([NewPartitions("one", 4)]))
    assert len(room.named("one")["one"].partitions) == 4
    topic_id = room.controller.image.topics_by_name["one"].id
    room.controller.apply(r.PartitionChangeRecord(partition_id=2, topic_id=topic_id, leader=-1))
    assert room.named("one")["one"].partitions[2].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    asyncio.run(room.controller.delete_topics([TopicRef("one")]))
    assert room.named("one")["one"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described_in_every_version(version: int) -> None:
    room = Room()
    answer = told(asyncio.run(room.api.describe_cluster(call(DescribeClusterRequest(True), version))), version)
    assert (answer.cluster_id, answer.controller_id, answer.cluster_authorized_operations) == (CLUSTER_ID, 1, 8096)
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(1, 9092)]


def test_fenced_brokers_are_described_when_asked_for() -> None:
    room = Room()
    room.controller.add_broker(2, 9093, fenced=True)
    for wanted, expected in ((False, [(1, False)]), (True, [(1, False), (2, True)])):
        request = DescribeClusterRequest(False, 1, wanted)
        answer = told(asyncio.run(room.api.describe_cluster(call(request, 2))), 2)
        assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == expected


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_only_the_brokers_endpoints_are_described(endpoint: int, code: ErrorCode) -> None:
    room = Room()
    with pytest.raises(Refused) as refusal:
        asyncio.run(room.api.describe_cluster(call(DescribeClusterRequest(False, endpoint), 1)))
    assert refusal.value.code == code


# ------------------------------------------------------------------------ DescribeTopicPartitions


def page(controller: CoreController, config: BrokerConfig, *names: str, **fields: Any) -> Any:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], **fields)
    return told(asyncio.run(TopicPartitionsApi(controller, config).describe(call(request, 0))), 0)  # type: ignore[arg-type]


def paged(answer: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics]


def test_partitions_come_page_by_page_in_order_of_names() -> None:
    room = Room(("b", 5), ("a", 2))
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(10):
        answer = page(room.controller, room.config, "b", "a", response_partition_limit=3, cursor=cursor)
        assert sum(len(topic.partitions) for topic in answer.topics) <= 3
        seen += [(name, index) for name, indexes in paged(answer) for index in indexes]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), *(("b", index) for index in range(5))]


def test_a_page_ends_where_kafka_ends_it() -> None:
    room = Room(("a", 2), ("m", 5))
    answer = page(room.controller, room.config, "a", "m", response_partition_limit=3)
    assert paged(answer) == [("a", [0, 1]), ("m", [0])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("m", 1)
    answer = page(room.controller, room.config, "a", "m", response_partition_limit=2)
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("m", 0)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_one_partition_at_least(limit: int) -> None:
    room = Room(("a", 2))
    assert paged(page(room.controller, room.config, "a", response_partition_limit=limit)) == [("a", [0])]


def test_a_page_holds_no_more_than_the_node_allows() -> None:
    room = Room(("a", 5), settings={"max.request.partition.size.limit": "2"})
    assert paged(page(room.controller, room.config, response_partition_limit=2**31 - 1)) == [("a", [0, 1])]


def test_topics_that_are_not_there_are_told_apart() -> None:
    room = Room(("a", 1))
    answer = page(room.controller, room.config, "nosuch", "a b", "a", "a")
    assert {topic.name: topic.error_code for topic in answer.topics} == {"nosuch": 3, "a b": 17, "a": 0}


@pytest.mark.parametrize("cursor", [Cursor("b", -1), Cursor("z", 0), Cursor("a", 0)])
def test_a_cursor_that_names_nothing_asked_for_is_refused(cursor: Cursor) -> None:
    room = Room(("b", 5))
    answer = page(room.controller, room.config, "b", cursor=cursor)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_cursor_behind_the_last_partition_ends_the_listing() -> None:
    room = Room(("b", 5))
    answer = page(room.controller, room.config, "b", cursor=Cursor("b", 9))
    assert paged(answer) == [("b", [])] and answer.next_cursor is None
