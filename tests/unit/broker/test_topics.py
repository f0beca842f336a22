"""CreateTopics, DeleteTopics, CreatePartitions and elections, on the controller's real decisions."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import ZERO_UUID
from ottla.broker.api.reassignments import ReassignmentsApi
from ottla.broker.api.topics import TopicsApi
from ottla.core.metadata import records as r
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.broker.cluster import FakeReplicas, call, one_node, told

LATEST = 7
TIMEOUT_MS = 10_000


class Room:
    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.controller, config = one_node(settings)
        self.replicas = FakeReplicas()
        self.api = TopicsApi(self.controller, self.replicas, config)  # type: ignore[arg-type]
        self.reassignments = ReassignmentsApi(self.controller)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        return list(self.controller.image.topics_by_name)

    def create(
        self, *topics: CreatableTopic, version: int = LATEST, timeout_ms: int = TIMEOUT_MS, dry: bool = False
    ) -> Any:
        request = CreateTopicsRequest(list(topics), timeout_ms, dry)
        return told(asyncio.run(self.api.create(call(request, version))), version).topics

    def delete(self, *topics: DeleteTopicState | str, version: int = 6, timeout_ms: int = TIMEOUT_MS) -> Any:
        states = [topic if isinstance(topic, DeleteTopicState) else DeleteTopicState(topic) for topic in topics]
        request = DeleteTopicsRequest([state.name or "" for state in states], states, timeout_ms)
        return told(asyncio.run(self.api.delete(call(request, version))), version).responses

    def grow(self, *topics: CreatePartitionsTopic, timeout_ms: int = TIMEOUT_MS, dry: bool = False) -> Any:
        request = CreatePartitionsRequest(list(topics), timeout_ms, dry)
        return told(asyncio.run(self.api.add_partitions(call(request, 3))), 3).results


def topic(name: str, count: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    pairs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, count, factor, [], pairs)


def codes(answers: Sequence[Any]) -> list[int]:
    return [answer.error_code for answer in answers]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version_and_awaited_until_it_is_open(version: int) -> None:
    room = Room()
    (answer,) = room.create(topic("one", 3, 1, retention_ms="5"), version=version)
    assert (answer.name, answer.error_code, answer.error_message) == ("one", 0, None)
    assert len(room.controller.image.topics_by_name["one"].partitions) == 3
    assert room.replicas.waited_for == ["one"]
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        settings = {config.name: (config.value, config.config_source) for config in answer.configs}
        assert len(settings) == 33
        assert settings["retention.ms"] == ("5", 1)
        assert settings["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert answer.topic_id == room.controller.image.topics_by_name["one"].id


def test_a_dry_run_answers_and_creates_nothing() -> None:
    room = Room()
    (answer,) = room.create(topic("one", 3), dry=True)
    assert (answer.error_code, answer.num_partitions) == (0, 3)
    assert room.names == [] and room.replicas.waited_for == []


def test_one_bad_topic_does_not_keep_the_others_away() -> None:
    room = Room()
    answers = room.create(topic("good"), topic("bad name"), topic("far", 1, 9), topic("odd", 1, 1, nosuch="1"))
    assert codes(answers) == [0, 17, 38, 40]
    assert all(answer.error_message for answer in answers[1:])
    assert [answer.num_partitions for answer in answers] == [1, -1, -1, -1]
    assert room.names == ["good"]


def test_the_metadata_log_is_no_topic_that_one_can_create() -> None:
    room = Room()
    assert codes(room.create(topic("__cluster_metadata"))) == [ErrorCode.INVALID_REQUEST]
    assert room.names == []


@pytest.mark.parametrize(("count", "code"), [(0, 37), (-2, 37), (10_001, 44), (2**31 - 1, 44), (-1, 0)])
def test_a_topic_gets_a_sensible_number_of_partitions(count: int, code: int) -> None:
    assert codes(Room().create(topic("one", count))) == [code]


def test_a_topic_named_twice_is_refused_once() -> None:
    room = Room()
    answers = room.create(topic("twice"), topic("one"), topic("twice"))
    assert [(answer.name, answer.error_code) for answer in answers] == [("twice", 42), ("one", 0)]


def test_replicas_may_be_assigned_by_hand() -> None:
    room = Room()
    by_hand = CreatableTopic("hand", -1, -1, [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(1, [1])])
    nowhere = CreatableTopic("nowhere", -1, -1, [CreatableReplicaAssignment(0, [7])])
    assert codes(room.create(by_hand, nowhere)) == [0, 39]
    assert len(room.controller.image.topics_by_name["hand"].partitions) == 2


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_done(timeout_ms: int) -> None:
    room = Room()
    room.create(topic("old"))
    assert codes(room.create(topic("one"), timeout_ms=timeout_ms)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert codes(room.delete("old", timeout_ms=timeout_ms)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert codes(room.grow(CreatePartitionsTopic("old", 2, None), timeout_ms=timeout_ms)) == [7]
    assert room.names == ["old"]


def test_what_takes_longer_than_its_time_is_finished_all_the_same() -> None:
    room = Room()
    room.controller.delay_seconds = 0.05

    async def run() -> int:
        is_open = asyncio.Event()
        room.replicas.on_opened = is_open.set
        request = CreateTopicsRequest([topic("slow")], 1)
        answer = await room.api.create(call(request, LATEST))
        await is_open.wait()
        return answer.topics[0].error_code

    assert asyncio.run(run()) == ErrorCode.REQUEST_TIMED_OUT
    assert room.names == ["slow"]


def test_every_topic_is_told_that_this_node_is_not_the_controller() -> None:
    room = Room()
    room.controller.refusal = Refused(ErrorCode.NOT_CONTROLLER, "another node is")
    assert codes(room.create(topic("one"), topic("two"))) == [41, 41]
    assert codes(room.delete("one", "two")) == [41, 41]
    assert codes(room.grow(CreatePartitionsTopic("one", 2, None))) == [41]


def test_a_request_for_nothing_is_answered_with_nothing() -> None:
    room = Room()
    assert (room.create(), room.delete(), room.grow()) == ([], [], [])


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_in_every_version(version: int) -> None:
    room = Room()
    room.create(topic("one"), topic("two"))
    answers = room.delete("one", "nosuch", version=version)
    assert [(answer.name, answer.error_code) for answer in answers] == [("one", 0), ("nosuch", 3)]
    assert room.names == ["two"]


def test_topics_are_deleted_by_id_and_never_by_both() -> None:
    room = Room()
    answers = room.create(topic("one"), topic("two"))
    one, two = (answer.topic_id for answer in answers)
    asks = DeleteTopicState(None, one), DeleteTopicState("two", two), DeleteTopicState(None, b"\x09" * 16)
    deleted = room.delete(*asks, DeleteTopicState(None, ZERO_UUID), DeleteTopicState(None, ZERO_UUID))
    assert codes(deleted) == [0, 42, 100, 42, 42]
    assert (deleted[0].name, deleted[0].topic_id) == ("one", one)
    assert room.names == ["two"]


def test_a_deletion_named_twice_is_refused_once_and_deletes_nothing() -> None:
    room = Room()
    (created,) = room.create(topic("one"))
    assert codes(room.delete("one", "one", "nosuch", "nosuch")) == [42, 42]
    assert set(codes(room.delete("one", DeleteTopicState(None, created.topic_id)))) == {42}
    assert room.names == ["one"]


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_forbidden(version: int, code: int) -> None:
    room = Room({"delete.topic.enable": "false"})
    room.create(topic("one"))
    assert codes(room.delete("one", version=version)) == [code]
    assert room.names == ["one"]


def test_partitions_are_added_and_never_taken_away() -> None:
    room = Room()
    room.create(topic("one", 2))
    assert codes(room.grow(CreatePartitionsTopic("one", 3, None), dry=True)) == [0]
    assert len(room.controller.image.topics_by_name["one"].partitions) == 2
    assert codes(room.grow(CreatePartitionsTopic("one", 3, None))) == [0]
    assert len(room.controller.image.topics_by_name["one"].partitions) == 3
    for count, code in ((3, 37), (2, 37), (0, 37), (-1, 37), (2**31 - 1, 44), (10_001, 44)):
        (answer,) = room.grow(CreatePartitionsTopic("one", count, None))
        assert answer.error_code == code and answer.error_message
    assert codes(room.grow(CreatePartitionsTopic("nosuch", 3, None))) == [3]
    assert codes(room.grow(CreatePartitionsTopic("one", 5, None), CreatePartitionsTopic("one", 6, None))) == [42]


@pytest.mark.parametrize(("replicas", "code"), [([[1]], 0), ([], 39), ([[1], [1]], 39), ([[7]], 39), ([[]], 39)])
def test_added_partitions_may_be_assigned_by_hand(replicas: list[list[int]], code: int) -> None:
    room = Room()
    room.create(topic("one", 2))
    assignments = [CreatePartitionsAssignment(brokers) for brokers in replicas]
    assert codes(room.grow(CreatePartitionsTopic("one", 3, assignments))) == [code]


# ------------------------------------------------------------------------ elections and reassignments


def elect(room: Room, version: int, kind: int = 0, partitions: list[TopicPartitions] | None = None) -> Any:
    request = ElectLeadersRequest(kind, partitions, TIMEOUT_MS)
    return told(asyncio.run(room.reassignments.elect(call(request, version))), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_is_told_per_partition(version: int) -> None:
    room = Room()
    room.create(topic("one", 2))
    topic_id = room.controller.image.topics_by_name["one"].id
    room.controller.apply(r.PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=-1))
    answer = elect(room, version, partitions=[TopicPartitions("one", [0, 1, 1]), TopicPartitions("nosuch", [0])])
    results = {
        (one.topic, each.partition_id): each.error_code
        for one in answer.replica_election_results
        for each in one.partition_result
    }
    assert results == {("one", 0): 84, ("one", 1): 0, ("nosuch", 0): 3}
    assert room.controller.image.topics_by_name["one"].partitions[1].leader == 1


def test_asking_for_all_elections_tells_only_those_that_were_needed() -> None:
    room = Room()
    room.create(topic("one", 2))
    assert elect(room, 2).replica_election_results == []


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(Refused) as refusal:
        elect(Room(), 2, kind=5)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_only_partitions_on_the_move_are_listed() -> None:
    room = Room()
    room.create(topic("one", 2))

    def listed(topics: list[ListPartitionReassignmentsTopics] | None) -> Any:
        request = ListPartitionReassignmentsRequest(TIMEOUT_MS, topics)
        return told(asyncio.run(room.reassignments.list(call(request, 0))), 0).topics

    assert listed(None) == []
    topic_id = room.controller.image.topics_by_name["one"].id
    room.controller.apply(
        r.PartitionChangeRecord(partition_id=1, topic_id=topic_id, replicas=[1, 2], adding_replicas=[2])
    )
    for asked in (
        None,
        [ListPartitionReassignmentsTopics("one", [0, 1, 9]), ListPartitionReassignmentsTopics("no", [0])],
    ):
        (moving,) = listed(asked)
        (partition,) = moving.partitions
        assert (moving.name, partition.partition_index, partition.adding_replicas) == ("one", 1, [2])


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [(0, [1], 0), (0, None, 85), (0, [], 39), (0, [1, 1], 39), (0, [7], 39), (5, [1], 3)],
)
def test_replicas_can_stay_where_they_are(index: int, replicas: list[int] | None, code: int) -> None:
    room = Room()
    room.create(topic("one"))
    moves = [ReassignableTopic("one", [ReassignablePartition(index, replicas)])]
    request = AlterPartitionReassignmentsRequest(TIMEOUT_MS, True, moves)
    answer = told(asyncio.run(room.reassignments.alter(call(request, 1))), 1)
    assert answer.responses[0].partitions[0].error_code == code
