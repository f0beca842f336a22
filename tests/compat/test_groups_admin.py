"""Groups as administrators see them, and what becomes of them when topics and protocols change: real admin clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPlace

from .brokers import Broker
from .conversations_configs import GROUP, SET, changed, operation
from .group_ledger import Ledger, Place, wait_until
from .group_members import ConfluentMember, Load
from .group_node import QUICK, SECONDS_MAX, commit, committed, create
from .names import unique
from .raw import Raw

NewMember = Callable[..., ConfluentMember]
NewBroker = Callable[[dict[str, str]], Broker]
CLASSIC: dict[str, Any] = {"partition_assignment_strategy": "range"}
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}


@pytest.fixture
def admin(group_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": group_broker.bootstrap})


@pytest.fixture
def members(group_broker: Broker) -> Iterator[NewMember]:
    made: list[ConfluentMember] = []

    def make(name: str, group: str, topics: list[str], ledger: Ledger, **settings: Any) -> ConfluentMember:
        made.append(ConfluentMember(name, group_broker.bootstrap, group, topics, ledger, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for member in made:
        member.ask_to_end()
    for member in made:
        member.wait_ended()


def listed(admin: AdminClient, **filters: Any) -> dict[str, tuple[str, str]]:
    found = admin.list_consumer_groups(**filters).result(SECONDS_MAX)
    assert not found.errors
    return {one.group_id: (one.type.name, one.state.name) for one in found.valid}


def described(admin: AdminClient, group: str) -> Any:
    [future] = admin.describe_consumer_groups([group]).values()
    return future.result(SECONDS_MAX)


def refusal(future: Any) -> int:
    with pytest.raises(KafkaException) as refused:
        future.result(SECONDS_MAX)
    return int(refused.value.args[0].code())


def test_filters_of_the_list_by_state_and_type(group_broker: Broker, admin: AdminClient, members: NewMember) -> None:
    topic, ledgers = unique("listed"), (Ledger(), Ledger())
    places = create(admin, topic, 2)
    empty, classic, consumer = unique("empty"), unique("classic"), unique("consumer")
    commit(group_broker.bootstrap, empty, {places[0]: 1})
    for group, ledger, settings in ((classic, ledgers[0], CLASSIC), (consumer, ledgers[1], CONSUMER)):
        members(group, group, [topic], ledger, **settings)
        ledger.wait_shared([group], places)
    mine = {empty, classic, consumer}

    def find(**filters: Any) -> set[str]:
        return listed(admin, **filters).keys() & mine

    wait_until(lambda: find(states={ConsumerGroupState.STABLE}) == {classic, consumer}, "they are not stable")
    assert find(states={ConsumerGroupState.EMPTY}) == {empty}
    assert find(types={ConsumerGroupType.CLASSIC}) == {empty, classic}
    assert find(types={ConsumerGroupType.CONSUMER}) == {consumer}
    assert find(types={ConsumerGroupType.CONSUMER}, states={ConsumerGroupState.EMPTY}) == set()
    assert listed(admin)[consumer] == ("CONSUMER", "STABLE")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_description_names_members_and_what_they_own(admin: AdminClient, members: NewMember, protocol: str) -> None:
    topic, group, ledger = unique("described"), unique("group"), Ledger()
    places = create(admin, topic, 4)
    settings = CONSUMER if protocol == "consumer" else CLASSIC
    for name in ("m0", "m1"):
        members(name, group, [topic], ledger, group_instance_id=f"static-{name}", **settings)
    ledger.wait_shared(["m0", "m1"], places)
    wait_until(lambda: described(admin, group).state == ConsumerGroupState.STABLE, "the group is not stable")
    found = described(admin, group)
    assert found.partition_assignor == ("uniform" if protocol == "consumer" else "range")
    assert {member.client_id: member.group_instance_id for member in found.members} == {
        "m0": "static-m0",
        "m1": "static-m1",
    }
    for member in found.members:
        assert member.host == "/127.0.0.1"
        owned = sorted((one.topic, one.partition) for one in member.assignment.topic_partitions)
        assert owned == ledger.owned_by(member.client_id)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_live_group_is_not_deleted_and_an_empty_one_is(admin: AdminClient, members: NewMember, protocol: str) -> None:
    topic, group, ledger = unique("deleted"), unique("group"), Ledger()
    places = create(admin, topic, 1)
    member = members("m0", group, [topic], ledger, **(CONSUMER if protocol == "consumer" else CLASSIC))
    ledger.wait_shared(["m0"], places)

    def delete() -> Any:
        [future] = admin.delete_consumer_groups([group]).values()
        return future

    assert refusal(delete()) == KafkaError.NON_EMPTY_GROUP
    offsets = [TopicPartition(topic, 0, 0)]
    [future] = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)]).values()
    try:
        answers = future.result(SECONDS_MAX).topic_partitions
        assert [one.error.code() for one in answers] == [KafkaError.UNKNOWN_MEMBER_ID]
    except KafkaException as refused:
        assert refused.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    member.close()
    delete().result(SECONDS_MAX)
    assert refusal(delete()) == KafkaError.GROUP_ID_NOT_FOUND
    assert group not in listed(admin)


def test_offsets_of_several_groups_come_at_once(group_broker: Broker, admin: AdminClient) -> None:
    """kafka-python asks for all groups of a coordinator in one request; librdkafka and aiokafka for each on its own."""
    topic = unique("several")
    places = create(admin, topic, 3)
    groups = [unique("group") for _ in range(3)]
    for number, group in enumerate(groups):
        commit(group_broker.bootstrap, group, {place: 10 * number + place[1] for place in places})
    for number, group in enumerate(groups):
        expected = {place: 10 * number + place[1] for place in places}
        assert committed(admin, group) == expected

    async def ask() -> list[dict[Place, int]]:
        client = AIOKafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
        await client.start()
        found = [await client.list_consumer_group_offsets(group) for group in groups]
        await client.close()
        return [{(one.topic, one.partition): at.offset for one, at in offsets.items()} for offsets in found]

    all_expected = [{place: 10 * at + place[1] for place in places} for at in range(3)]
    assert asyncio.run(ask()) == all_expected
    client = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    batched = client.list_group_offsets(dict.fromkeys(groups))
    client.close()
    found = [{(one.topic, one.partition): at.offset for one, at in batched[group].items()} for group in groups]
    assert found == all_expected


def test_kafka_python_lists_describes_alters_and_deletes(group_broker: Broker, admin: AdminClient) -> None:
    topic, group = unique("python"), unique("group")
    create(admin, topic, 2)
    client = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    try:
        place, other = PythonPlace(topic, 0), PythonPlace(topic, 1)
        client.alter_group_offsets(group, {place: OffsetAndMetadata(5, "", -1), other: OffsetAndMetadata(6, "", -1)})
        assert group in str(client.list_groups())
        assert "Empty" in str(client.describe_groups([group]))
        assert committed(admin, group) == {(topic, 0): 5, (topic, 1): 6}
        client.delete_group_offsets(group, [place])
        assert committed(admin, group) == {(topic, 1): 6}
        client.delete_groups([group])
        assert group not in listed(admin)
    finally:
        client.close()


def test_new_topic_of_an_old_name_begins_without_offsets(group_broker: Broker, admin: AdminClient) -> None:
    topic, kept, group = unique("again"), unique("kept"), unique("group")
    [place], [other] = create(admin, topic, 1), create(admin, kept, 1)
    commit(group_broker.bootstrap, group, {place: 7, other: 8})
    for future in admin.delete_topics([topic]).values():
        future.result(SECONDS_MAX)
    create(admin, topic, 1)
    wait_until(lambda: committed(admin, group) == {other: 8}, lambda: str(committed(admin, group)))


@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_pattern_finds_topics_that_come_later(
    group_broker: Broker, admin: AdminClient, members: NewMember, settings: dict[str, Any]
) -> None:
    stem, group, ledger = unique("pattern"), unique("group"), Ledger()
    places = create(admin, f"{stem}-a", 2)
    create(admin, f"no-{stem}", 1)
    members("m0", group, [f"^{stem}-.*"], ledger, **settings)
    ledger.wait_shared(["m0"], places)
    places += create(admin, f"{stem}-b", 2)
    ledger.wait_shared(["m0"], places)
    members("m1", group, [f"^{stem}-.*"], ledger, **settings)
    ledger.wait_shared(["m0", "m1"], places)
    load = Load(group_broker.bootstrap, {f"{stem}-a": 2, f"{stem}-b": 2})
    wait_until(lambda: all(load.ends.values()), "nothing is produced")
    ledger.wait_seen(load.end())
    assert not ledger.faults


def test_more_partitions_are_shared_out(group_broker: Broker, admin: AdminClient, members: NewMember) -> None:
    topic, group, ledger = unique("grows"), unique("group"), Ledger()
    places = create(admin, topic, 2)
    for name in ("m0", "m1"):
        members(name, group, [topic], ledger, **CONSUMER)
    ledger.wait_shared(["m0", "m1"], places)
    for future in admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result(SECONDS_MAX)
    ledger.wait_shared(["m0", "m1"], [(topic, partition) for partition in range(4)])
    assert {len(ledger.owned_by(name)) for name in ("m0", "m1")} == {2}
    assert not ledger.faults


def test_group_changes_protocol_and_back_while_it_works(
    group_broker: Broker, admin: AdminClient, members: NewMember
) -> None:
    topic, group, ledger = unique("upgrade"), unique("group"), Ledger()
    places = create(admin, topic, 4)
    load = Load(group_broker.bootstrap, {topic: 4})
    team = [members(f"old{number}", group, [topic], ledger, **CLASSIC) for number in range(2)]
    ledger.wait_shared([member.name for member in team], places)
    assert described(admin, group).type == ConsumerGroupType.CLASSIC
    for new, settings, kind in (("new", CONSUMER, ConsumerGroupType.CONSUMER), ("older", CLASSIC, None)):
        for number in range(2):
            team.append(members(f"{new}{number}", group, [topic], ledger, **settings))
            ledger.wait_shared([member.name for member in team], places)
            team.pop(0).close()
            ledger.wait_shared([member.name for member in team], places)
        if kind is not None:
            assert described(admin, group).type == kind
    wait_until(lambda: described(admin, group).type == ConsumerGroupType.CLASSIC, "it is no classic group again")
    ends = load.end()
    ledger.wait_seen(ends)
    for member in team:
        member.ask_to_end()
    for member in team:
        member.wait_ended()
    assert not ledger.faults
    assert ledger.doubled().keys() <= ledger.lost
    assert committed(admin, group) == ends


def test_members_follow_the_settings_of_their_group_also_after_a_restart(new_broker: NewBroker) -> None:
    broker = new_broker(QUICK)

    def interval_ms(raw: Raw, member_epoch: int) -> int:
        joining = {"rebalance_timeout": 10_000, "subscribed_topic_names": ["none"], "topic_partitions": []}
        staying = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        raw.ask("find_coordinator", 0, key="own-times")  # makes the coordinators' topic, if there is none yet
        answer = raw.ask(
            "consumer_group_heartbeat",
            1,
            group_id="own-times",
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=member_epoch,
            **(staying if member_epoch else joining),
        )
        return int(answer["heartbeat_interval"]) if answer["error_code"] == 0 else 0

    with Raw(broker.host, broker.port) as raw:
        wait_until(lambda: interval_ms(raw, 0) == 100, lambda: "the group has no coordinator")
        heartbeat = operation("consumer.heartbeat.interval.ms", SET, "321")
        answer = raw.ask("incremental_alter_configs", 1, **changed("own-times", heartbeat, kind=GROUP))
        assert answer["responses"][0]["error_code"] == 0
        wait_until(lambda: interval_ms(raw, 0) == 321, lambda: "the setting is not taken up")
    broker.restart()
    with Raw(broker.host, broker.port) as raw:
        wait_until(lambda: interval_ms(raw, 0) == 321, lambda: "the setting is forgotten")
