from typing import Any

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import Heartbeat, Protocol, Sync, Topic
from ottla.core.groups.consumer_protocol import read_assignment, write_assignment
from ottla.core.groups.records import by_topic
from ottla.core.groups.settings import GroupSettings
from tests.unit.core.groups.driving import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    TOPICS,
    Group,
    T,
    beat_of,
    commit_of,
    heartbeat_of,
    join_of,
    leave_of,
    subscription,
)

ALL = frozenset((T, number) for number in range(4))


def classic_member(group: Group) -> Any:
    """One member of a stable classic group that has all of t."""
    joined = group.join()
    group.sync(joined, {joined.member_id: write_assignment(ALL, {T: "t"}, 1)})
    return joined


def upgraded() -> tuple[Group, Any]:
    """The classic member has let go of half for the consumer C, and both have come to rest."""
    group = Group()
    joined = classic_member(group)
    group.ask("consumer_heartbeat", beat_of("C", 0))
    assert group.error("heartbeat", heartbeat_of(joined)) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join(joined.member_id)
    group.sync(again)
    group.ask("consumer_heartbeat", beat_of("C", 2))
    return group, again


def described(group: Group) -> Any:
    return group.ask("describe_consumer_group", GROUP)


def test_a_classic_group_goes_on_as_a_consumer_group_when_a_new_member_joins() -> None:
    group = Group()
    joined = classic_member(group)
    reply = group.ask("consumer_heartbeat", beat_of("C", 0))
    assert (reply.member_epoch, reply.assignment) == (joined.generation_id + 1, ())
    shown = {member.member_id: member for member in described(group).members}
    assert shown[joined.member_id].assignment == by_topic(ALL)
    assert [shown[name].member_type for name in (joined.member_id, "C")] == [0, 1]


def test_both_kinds_of_members_share_the_work() -> None:
    group, again = upgraded()
    shown = {member.member_id: member for member in described(group).members}
    assert shown["C"].assignment == ((T, (2, 3)),)
    assert shown[again.member_id].assignment == ((T, (0, 1)),)
    assert described(group).state == "Stable"
    assert read_assignment(group.sync(again).assignment) == (("t", 0), ("t", 1))
    group.ask("heartbeat", heartbeat_of(again))
    group.ask("commit_offsets", commit_of(1, again.member_id, again.generation_id, api_version=7))


def test_those_that_wait_in_the_classic_group_have_to_join_the_new_one() -> None:
    group = Group()
    leader, _ = group.stable_pair()
    ticket = group.ask("join", join_of(leader.member_id))
    group.ask("consumer_heartbeat", beat_of("C", 0))
    assert group.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(described(group).members) == 3


def test_a_refused_upgrade_leaves_everything_as_it_was() -> None:
    group = Group()
    first = group.join(instance_id="a")
    group.sync(first, {first.member_id: b""})
    ticket = group.ask("join", join_of())
    assert group.error("consumer_heartbeat", beat_of("C", 0, instance_id="a")) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert ticket not in group.replies
    group.pass_time(SESSION_MS // 2)
    assert group.error("consumer_heartbeat", beat_of("C", 0, instance_id="a")) is ErrorCode.UNRELEASED_INSTANCE_ID
    group.pass_time(SESSION_MS // 2 + 1)
    group.ask("consumer_heartbeat", beat_of("C", 0, instance_id="a"))


def test_a_group_of_another_kind_is_not_upgraded() -> None:
    group = Group()
    joined = group.join(protocol_type="connect", protocols=(Protocol("default", b"?"),))
    group.sync(joined, {joined.member_id: b"task"})
    assert group.error("consumer_heartbeat", beat_of("C", 0)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_operator_may_forbid_the_upgrade() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=0, consumer_can_upgrade=False))
    classic_member(group)
    assert group.error("consumer_heartbeat", beat_of("C", 0)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_makes_room_for_a_consumer_group_and_keeps_its_offsets() -> None:
    group = Group()
    joined = classic_member(group)
    group.ask("commit_offsets", commit_of(7, joined.member_id, joined.generation_id))
    group.ask("leave", leave_of(joined.member_id))
    group.ask("consumer_heartbeat", beat_of("C", 0))
    group.restart()
    assert described(group).members[0].member_id == "C"
    assert list(group.shard.committed_offsets()) == [(GROUP, "t", 0, 7)]


def test_an_empty_consumer_group_makes_room_for_a_classic_one() -> None:
    group = Group()
    group.ask("consumer_heartbeat", beat_of("C", 0))
    group.ask("consumer_heartbeat", beat_of("C", -1))
    classic_member(group)
    group.restart()
    assert group.state() == "Stable"
    assert group.error("describe_consumer_group", GROUP) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_joins_a_consumer_group_and_is_led_by_nobody() -> None:
    group = Group()
    group.ask("consumer_heartbeat", beat_of("C", 0))
    joined = group.join()
    assert (joined.error, joined.leader, joined.members) == (ErrorCode.NONE, "", ())
    assert read_assignment(group.sync(joined).assignment) == ()
    group.ask("heartbeat", heartbeat_of(joined))
    group.ask("consumer_heartbeat", beat_of("C", 2))
    group.ask("consumer_heartbeat", beat_of("C", 2, target_share(group, "C")))
    assert group.error("heartbeat", heartbeat_of(joined)) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join(joined.member_id)
    assert len(read_assignment(group.sync(again).assignment)) == 2


def target_share(group: Group, member_id: str) -> Any:
    return next(member.target_assignment for member in described(group).members if member.member_id == member_id)


def test_a_classic_member_that_still_claims_partitions_must_be_known() -> None:
    group = Group()
    group.ask("consumer_heartbeat", beat_of("C", 0))
    claiming = b"\x00\x01" + subscription("t")[2:-4] + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00"
    ask = join_of("m", protocols=(Protocol("cooperative-sticky", claiming),))
    assert group.error("join", ask) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_is_called_back_and_does_not_come_is_removed() -> None:
    group, again = upgraded()
    group.carry_out(group.shard.on_topics({"t": Topic(T, 6)}, group.now_ms))
    group.ask("consumer_heartbeat", beat_of("C", 2))
    for _ in range(REBALANCE_MS // 5_000):
        assert group.error("heartbeat", heartbeat_of(again)) is ErrorCode.REBALANCE_IN_PROGRESS
        group.pass_time(5_000)
    assert group.error("heartbeat", heartbeat_of(again)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_of_the_wrong_generation_or_protocol_are_refused() -> None:
    group, again = upgraded()
    sync = {"group_id": GROUP, "member_id": again.member_id, "generation_id": again.generation_id}
    assert group.error("sync", Sync(**{**sync, "generation_id": 9})) is ErrorCode.ILLEGAL_GENERATION
    assert group.error("sync", Sync(**sync, protocol_name="x")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.error("sync", Sync(**{**sync, "member_id": "C"})) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("heartbeat", heartbeat_of(again, 9)) is ErrorCode.ILLEGAL_GENERATION
    beat = Heartbeat(group_id=GROUP, generation_id=2, member_id="C")
    assert group.error("heartbeat", beat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_is_classic_again_when_the_last_new_member_has_left() -> None:
    group, again = upgraded()
    group.ask("consumer_heartbeat", beat_of("C", -1))
    assert group.state() == "PreparingRebalance"
    assert group.error("heartbeat", heartbeat_of(again, again.generation_id + 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = group.join(again.member_id)
    assert joined.leader == again.member_id
    group.sync(joined, {again.member_id: b"all"})
    group.restart()
    assert group.state() == "Stable"


def test_a_downgrade_that_a_restart_interrupts_still_ends_in_a_rebalance() -> None:
    group, again = upgraded()
    group.ask("consumer_heartbeat", beat_of("C", -1))
    group.restart()
    assert group.state() == "PreparingRebalance"
    assert group.join(again.member_id).leader == again.member_id


def test_the_operator_may_forbid_the_downgrade() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=0, consumer_can_downgrade=False))
    classic_member(group)
    group.ask("consumer_heartbeat", beat_of("C", 0))
    group.ask("consumer_heartbeat", beat_of("C", -1))
    assert len(described(group).members) == 1


def test_what_a_cooperative_member_may_still_use_is_not_given_away_by_the_upgrade() -> None:
    group = Group()
    owned = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03"
    said = b"\x00\x01" + subscription("t")[2:-4] + owned
    joined = group.join(protocols=(Protocol("cooperative-sticky", said),))
    half = frozenset(((T, 0), (T, 1)))
    group.sync(joined, {joined.member_id: write_assignment(half, {T: "t"}, 1)})
    assert group.ask("consumer_heartbeat", beat_of("C", 0)).assignment == ()
    free = group.join(joined.member_id, protocols=(Protocol("cooperative-sticky", subscription("t")),))
    assert free.error is ErrorCode.NONE
    assert group.ask("consumer_heartbeat", beat_of("C", 2)).assignment == ((T, (2, 3)),)
    assert TOPICS["t"].id == T
