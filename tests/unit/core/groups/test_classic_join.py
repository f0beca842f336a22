from dataclasses import replace

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import JoinReply, Protocol
from ottla.core.groups.settings import GroupSettings
from tests.unit.core.groups.driving import (
    REBALANCE_MS,
    SESSION_MS,
    Group,
    heartbeat_of,
    join_of,
    leave_of,
    subscription,
)


def test_a_new_member_is_first_told_its_id_and_joins_with_it() -> None:
    group = Group()
    reply = group.ask("join", join_of())
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("client-")
    joined = group.replies[group.ask("join", join_of(reply.member_id))]
    assert (joined.error, joined.member_id, joined.generation_id) == (ErrorCode.NONE, reply.member_id, 1)
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]


def test_an_old_client_joins_in_one_step() -> None:
    group = Group()
    joined = group.replies[group.ask("join", join_of(requires_known_member_id=False))]
    assert joined.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (replace(join_of(), group_id=""), ErrorCode.INVALID_GROUP_ID),
        (replace(join_of(), group_id="g" * 40_000), ErrorCode.INVALID_GROUP_ID),
        (join_of(session_timeout_ms=0), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join_of(session_timeout_ms=2**31 - 1), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join_of("someone-else"), ErrorCode.UNKNOWN_MEMBER_ID),
        (join_of(protocols=()), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join_of(protocol_type=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_makes_no_sense_is_refused_and_leaves_no_group_behind(ask: object, code: ErrorCode) -> None:
    group = Group()
    assert group.error("join", ask) is code
    assert group.state() == "none"


def test_a_member_id_of_somebody_else_is_unknown_to_an_existing_group() -> None:
    group = Group()
    group.stable_pair()
    assert group.error("join", join_of("stolen")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_without_a_protocol_in_common_do_not_get_together() -> None:
    group = Group()
    group.stable_pair()
    assert group.error("join", join_of(protocols=(Protocol("sticky", b""),))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.error("join", join_of(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_most_members_prefer_among_those_all_support_is_chosen() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=1_000))
    offers = (("a", "b"), ("b", "a", "c"), ("b", "a"))
    tickets = [group.join(protocols=tuple(Protocol(name, subscription("t")) for name in offer)) for offer in offers]
    group.pass_time(3_000)
    assert {group.replies[ticket].protocol_name for ticket in tickets} == {"b"}


def test_only_the_leader_learns_who_is_in() -> None:
    leader, other = Group().stable_pair()
    assert [member.member_id for member in leader.members] == [leader.member_id, other.member_id]
    assert other.members == ()
    assert other.leader == leader.leader == leader.member_id


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_keep_coming() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    tickets = [group.join()]
    for _ in range(4):
        group.pass_time(2_000)
        tickets.append(group.join())
    assert group.replies == {}
    group.pass_time(6_000)
    assert {group.replies[ticket].generation_id for ticket in tickets} == {1}


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    first = group.join()
    for _ in range(REBALANCE_MS // 2_000):
        group.pass_time(2_000)
        group.join()
    assert first in group.replies


def test_two_hundred_members_rebalance_once() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    tickets = [group.join() for _ in range(200)]
    group.pass_time(6_000)
    assert {group.replies[ticket].generation_id for ticket in tickets} == {1}
    assert sorted(len(group.replies[ticket].members) for ticket in tickets) == [0] * 199 + [200]


def test_a_member_that_joins_a_stable_group_makes_the_others_join_again() -> None:
    group = Group()
    leader, other = group.stable_pair()
    ticket = group.join()
    assert group.error("heartbeat", heartbeat_of(leader)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.error("heartbeat", heartbeat_of(other)) is ErrorCode.REBALANCE_IN_PROGRESS
    group.join(leader.member_id)
    assert ticket not in group.replies
    group.join(other.member_id)
    assert len(group.replies[ticket].leader) > 0
    assert group.replies[ticket].generation_id == leader.generation_id + 1


def test_whoever_does_not_join_again_in_time_is_no_longer_a_member() -> None:
    group = Group()
    leader, other = group.stable_pair()
    ticket = group.join()
    group.join(leader.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        group.pass_time(5_000)
        if other.member_id in group.shard._groups.by_id["orders"].members:
            assert group.error("heartbeat", heartbeat_of(other)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.replies[ticket].error is ErrorCode.NONE
    assert group.replies[ticket].leader == leader.member_id  # it waited for longer than its session, and may
    assert group.error("heartbeat", heartbeat_of(other)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_repeats_its_join_gets_the_same_generation_again() -> None:
    group = Group()
    leader, other = group.stable_pair()
    again = group.ask("join", join_of(other.member_id))
    assert isinstance(again, JoinReply)
    assert (again.generation_id, again.members) == (leader.generation_id, ())
    assert group.state() == "Stable"


def test_a_leader_that_joins_again_forces_a_rebalance() -> None:
    group = Group()
    leader, _ = group.stable_pair()
    assert isinstance(group.ask("join", join_of(leader.member_id)), int)
    assert group.state() == "PreparingRebalance"


def test_a_member_that_waits_twice_is_answered_at_both_places() -> None:
    group = Group()
    leader, _ = group.stable_pair()
    first = group.ask("join", join_of(leader.member_id))
    second = group.ask("join", join_of(leader.member_id))
    assert group.replies[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in group.replies


def test_an_id_that_nobody_came_back_with_is_forgotten_and_holds_up_nobody() -> None:
    group = Group()
    leader, other = group.stable_pair()
    pending = group.ask("join", join_of())
    ticket = group.ask("join", join_of(leader.member_id))
    assert isinstance(group.ask("join", join_of(other.member_id)), int)
    assert ticket not in group.replies
    group.pass_time(SESSION_MS + 1)
    assert group.replies[ticket].error is ErrorCode.NONE
    assert group.error("join", join_of(pending.member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_in() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2))
    group.stable_pair()
    assert group.error("join", join_of()) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_all_that_wait_hear_of_it_when_the_coordinator_moves() -> None:
    group = Group()
    group.stable_pair()
    ticket = group.join()
    assert [(one.ticket, one.reply.error) for one in group.shard.resign()] == [(ticket, ErrorCode.NOT_COORDINATOR)]


def test_a_group_that_everybody_left_starts_over() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.ask("leave", leave_of(leader.member_id, other.member_id))
    assert group.state() == "Empty"
    joined = group.join()
    assert joined.generation_id > leader.generation_id
