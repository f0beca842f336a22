import pytest

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import JoinReply, Leave, LeavingMember, LeftMember, Protocol, Sync
from tests.unit.core.groups.driving import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Group,
    commit_of,
    heartbeat_of,
    join_of,
    leave_of,
    subscription,
)


def test_everybody_gets_the_share_that_the_leader_has_written_for_it() -> None:
    group = Group()
    leader, other = group.stable_pair()
    assert group.state() == "Stable"
    assert (group.sync(leader).assignment, group.sync(other).assignment) == (b"one", b"two")


def test_a_share_for_a_member_that_does_not_exist_is_dropped_and_a_missing_one_is_empty() -> None:
    group = Group()
    joined = group.join()
    assert group.sync(joined, {"ghost": b"x"}).assignment == b""


def test_what_a_follower_writes_as_division_counts_for_nothing() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.join(leader.member_id)
    renewed = group.join(other.member_id)
    ticket = group.ask("sync", sync_of(renewed, {other.member_id: b"all"}))
    assert isinstance(ticket, int)
    assert ticket not in group.replies
    assert group.state() == "CompletingRebalance"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_sync_that_does_not_belong_is_refused(change: dict[str, object], code: ErrorCode) -> None:
    group = Group()
    leader, _ = group.stable_pair()
    values = {"group_id": GROUP, "generation_id": leader.generation_id, "member_id": leader.member_id, **change}
    assert group.error("sync", Sync(**values)) is code  # type: ignore[arg-type]


def test_those_that_wait_for_the_division_hear_of_the_next_rebalance() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.join(leader.member_id)
    renewed = group.join(other.member_id)
    ticket = group.ask("sync", sync_of(renewed))
    group.join()
    assert group.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_divides_the_work_is_removed_and_the_rest_goes_on() -> None:
    group = Group()
    leader, other = group.stable_pair()
    first = group.ask("join", join_of(leader.member_id))
    renewed = group.join(other.member_id)
    ticket = group.ask("sync", sync_of(renewed))
    lazy = group.replies[first]
    for _ in range(REBALANCE_MS // 5_000):
        group.pass_time(4_990)
        if ticket not in group.replies:
            group.ask("heartbeat", heartbeat_of(lazy))
    group.pass_time(100)
    assert group.replies[ticket].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join(other.member_id).leader == other.member_id
    assert group.error("heartbeat", heartbeat_of(lazy)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_dies_between_join_and_sync_does_not_stop_the_others() -> None:
    group = Group()
    leader, other = group.stable_pair()
    first = group.ask("join", join_of(leader.member_id))
    group.join(other.member_id)
    renewed = group.replies[first]
    group.sync(renewed, {leader.member_id: b"mine"})
    group.pass_time(SESSION_MS - 1)
    group.ask("heartbeat", heartbeat_of(renewed))
    group.pass_time(2)
    assert group.error("heartbeat", heartbeat_of(renewed)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join(leader.member_id).leader == leader.member_id


def test_a_member_is_gone_when_nothing_is_heard_of_it_for_its_session() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.pass_time(SESSION_MS // 2)
    group.ask("heartbeat", heartbeat_of(leader))
    group.pass_time(SESSION_MS // 2 + 1)
    assert group.error("heartbeat", heartbeat_of(other)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("heartbeat", heartbeat_of(leader)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    group = Group()
    leader, other = group.stable_pair()
    for _ in range(5):
        group.pass_time(SESSION_MS // 2)
        group.ask("heartbeat", heartbeat_of(leader))
        group.ask("commit_offsets", commit_of(1, other.member_id, other.generation_id))
    assert group.state() == "Stable"


def test_a_zombie_with_an_old_generation_is_turned_away_everywhere() -> None:
    group = Group()
    leader, other = group.stable_pair()
    old = leader.generation_id - 1
    assert group.error("heartbeat", heartbeat_of(other, old)) is ErrorCode.ILLEGAL_GENERATION
    assert group.error("commit_offsets", commit_of(5, other.member_id, old)) is ErrorCode.ILLEGAL_GENERATION


def test_leaving_members_are_answered_one_by_one() -> None:
    group = Group()
    leader, other = group.stable_pair()
    reply = group.ask("leave", leave_of(other.member_id, "ghost"))
    assert reply.members == (LeftMember(other.member_id), LeftMember("ghost", None, ErrorCode.UNKNOWN_MEMBER_ID))
    assert group.error("heartbeat", heartbeat_of(leader)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_leaves_while_it_waits_is_still_answered() -> None:
    group = Group()
    leader, _ = group.stable_pair()
    ticket = group.ask("join", join_of(leader.member_id))
    group.ask("leave", leave_of(leader.member_id))
    assert group.replies[ticket].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_is_a_member_of_a_group_that_is_not_there() -> None:
    reply = Group().ask("leave", leave_of("ghost"))
    assert reply.members == (LeftMember("ghost", None, ErrorCode.UNKNOWN_MEMBER_ID),)


# Static members (KIP-345)


def static_pair(group: Group) -> tuple[JoinReply, JoinReply]:
    first = group.join(instance_id="a")
    group.sync(first, {first.member_id: b"one"})
    ticket = group.join(instance_id="b")
    leader = group.replies[group.ask("join", join_of(first.member_id, "a"))]
    other = group.replies[ticket]
    group.sync(leader, {leader.member_id: b"one", other.member_id: b"two"})
    return leader, other


def test_a_static_member_that_comes_back_keeps_its_share_and_nobody_rebalances() -> None:
    group = Group()
    leader, other = static_pair(group)
    back = group.join(instance_id="b")
    assert back.member_id not in (leader.member_id, other.member_id)
    assert (back.generation_id, back.leader, back.skip_assignment) == (leader.generation_id, leader.member_id, False)
    assert group.sync(back).assignment == b"two"
    group.ask("heartbeat", heartbeat_of(leader))


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    group = Group()
    leader, _ = static_pair(group)
    back = group.join(instance_id="a")
    assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
    assert group.sync(back).assignment == b"one"
    older = group.join(instance_id="a", supports_skipping_assignment=False)
    assert (older.skip_assignment, older.members) == (False, ())
    assert older.leader == back.member_id != older.member_id
    assert leader.generation_id == older.generation_id


def test_the_former_holder_of_an_instance_is_fenced() -> None:
    group = Group()
    _, other = static_pair(group)
    group.join(instance_id="b")
    assert group.error("heartbeat", heartbeat_of(other, instance_id="b")) is ErrorCode.FENCED_INSTANCE_ID
    assert group.error("join", join_of(other.member_id, "b")) is ErrorCode.FENCED_INSTANCE_ID
    assert group.error("heartbeat", heartbeat_of(other)) is ErrorCode.UNKNOWN_MEMBER_ID
    commit = commit_of(1, other.member_id, other.generation_id, group_instance_id="b")
    assert group.error("commit_offsets", commit) is ErrorCode.FENCED_INSTANCE_ID


def test_a_former_holder_that_waits_is_told_that_it_is_fenced() -> None:
    group = Group()
    leader, _ = static_pair(group)
    ticket = group.ask("join", join_of(leader.member_id, "a"))
    group.join(instance_id="a")
    assert group.replies[ticket].error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_subscribes_to_something_else_makes_the_group_rebalance() -> None:
    group = Group()
    static_pair(group)
    group.join(instance_id="b", protocols=(Protocol("range", subscription("t", "u")),))
    assert group.state() == "PreparingRebalance"


def test_an_operator_removes_a_static_member_by_its_instance() -> None:
    group = Group()
    _, other = static_pair(group)
    reply = group.ask("leave", Leave(GROUP, (LeavingMember("", "b"), LeavingMember("", "c"))))
    assert [one.error for one in reply.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.error("heartbeat", heartbeat_of(other, instance_id="b")) is ErrorCode.UNKNOWN_MEMBER_ID


# Failover


def test_a_stable_generation_survives_a_restart() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.restart()
    assert group.state() == "Stable"
    group.ask("heartbeat", heartbeat_of(leader))
    assert group.sync(other).assignment == b"two"
    group.pass_time(SESSION_MS + 1)
    assert group.state() == "Empty"


def test_a_generation_that_was_never_divided_is_not_confused_with_the_next_after_a_restart() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.join(leader.member_id)
    forgotten = group.join(other.member_id)
    group.restart()
    group.ask("join", join_of(leader.member_id))
    group.join(other.member_id)
    assert group.error("sync", sync_of(forgotten)) is ErrorCode.ILLEGAL_GENERATION


def test_nothing_has_changed_when_the_division_does_not_reach_the_log() -> None:
    group = Group()
    joined = group.join()
    sync = sync_of(joined, {joined.member_id: b"one"})
    group.shard.sync(sync, group.now_ms)  # decided, not applied
    assert group.state() == "CompletingRebalance"
    assert group.ask("sync", sync).assignment == b"one"


def sync_of(joined: JoinReply, assignments: dict[str, bytes] | None = None) -> Sync:
    return Sync(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments or {},
    )
