from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import ConsumerHeartbeat, Topic
from ottla.core.groups.settings import ConsumerTimes, GroupSettings
from tests.unit.core.groups.driving import GROUP, REBALANCE_MS, TOPICS, Group, T, U, beat_of

SESSION_MS = 45_000


def beat(group: Group, member_id: str, epoch: int, owned: Any = None, **more: Any) -> Any:
    return group.ask("consumer_heartbeat", beat_of(member_id, epoch, owned, **more))


def error(group: Group, member_id: str, epoch: int, owned: Any = None, **more: Any) -> ErrorCode:
    return group.error("consumer_heartbeat", beat_of(member_id, epoch, owned, **more))


def described(group: Group) -> Any:
    return group.ask("describe_consumer_group", GROUP)


def pair() -> Group:
    """A and B at epoch 3, with two partitions of t each; 0 and 1 are A's."""
    group = Group()
    beat(group, "A", 0)
    beat(group, "B", 0)
    beat(group, "A", 2)
    beat(group, "A", 2, ((T, (0, 1)),))
    beat(group, "B", 3)
    return group


def test_the_first_member_gets_everything_at_once() -> None:
    reply = beat(Group(), "A", 0)
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("A", 2, 5_000)
    assert reply.assignment == ((T, (0, 1, 2, 3)),)


def test_a_partition_goes_to_its_new_owner_only_after_the_old_one_has_let_go() -> None:
    group = Group()
    beat(group, "A", 0)
    assert beat(group, "B", 0).assignment == ()
    told = beat(group, "A", 2)
    assert (told.member_epoch, told.assignment) == (2, ((T, (0, 1)),))
    assert beat(group, "B", 3).assignment is None
    assert beat(group, "A", 2, ((T, (0, 1, 2, 3)),)).member_epoch == 2
    assert beat(group, "B", 3).assignment is None
    assert beat(group, "A", 2, ((T, (0, 1)),)).member_epoch == 3
    assert beat(group, "B", 3).assignment == ((T, (2, 3)),)
    assert described(group).state == "Stable"


def test_a_member_that_waits_for_others_is_called_back_soon() -> None:
    group = Group()
    beat(group, "A", 0)
    assert beat(group, "B", 0).heartbeat_interval_ms < 5_000


def test_the_assignment_is_repeated_only_to_those_who_tell_everything() -> None:
    group = pair()
    assert beat(group, "B", 3).assignment is None
    full = beat(group, "B", 3, ((T, (2, 3)),), rebalance_timeout_ms=1_000, subscribed_topic_names=("t",))
    assert full.assignment == ((T, (2, 3)),)


def test_a_member_whose_answer_was_lost_may_come_with_its_former_epoch() -> None:
    group = pair()
    assert beat(group, "A", 2, ((T, (0, 1)),)).member_epoch == 3
    assert error(group, "A", 2, ((T, (0, 1, 2)),)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error(group, "A", 2) is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [4, 2**31 - 1])
def test_an_epoch_from_the_future_is_fenced(epoch: int) -> None:
    assert error(pair(), "A", epoch) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_or_group_that_nobody_knows_is_told_so() -> None:
    assert error(Group(), "A", 2) is ErrorCode.GROUP_ID_NOT_FOUND
    assert error(pair(), "C", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error(pair(), "C", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_gives_its_partitions_to_those_who_stay() -> None:
    group = pair()
    assert beat(group, "A", -1).member_epoch == -1
    reply = beat(group, "B", 3)
    assert (reply.member_epoch, reply.assignment) == (4, ((T, (0, 1, 2, 3)),))


def test_a_silent_member_is_removed_after_its_session() -> None:
    group = pair()
    group.pass_time(SESSION_MS - 1)
    beat(group, "B", 3)
    group.pass_time(2)
    assert beat(group, "B", 3).assignment == ((T, (0, 1, 2, 3)),)
    assert error(group, "A", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_in_time_is_removed() -> None:
    group = Group()
    beat(group, "A", 0)
    beat(group, "B", 0)
    beat(group, "A", 2)
    for _ in range(REBALANCE_MS // 5_000):
        group.pass_time(4_999)
        beat(group, "A", 2)
        beat(group, "B", 3)
    group.pass_time(10)
    assert error(group, "A", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(group, "B", 3).assignment == ((T, (0, 1, 2, 3)),)


def test_a_topic_that_grows_is_divided_anew_at_the_next_heartbeat() -> None:
    group = pair()
    group.carry_out(group.shard.on_topics({**TOPICS, "t": Topic(T, 6)}, group.now_ms))
    assert beat(group, "A", 3).assignment == ((T, (0, 1, 4)),)
    assert beat(group, "B", 3).assignment == ((T, (2, 3, 5)),)


def test_a_topic_that_did_not_exist_is_assigned_once_it_does() -> None:
    group = Group(topics={})
    assert beat(group, "A", 0).assignment == ()
    group.carry_out(group.shard.on_topics(TOPICS, group.now_ms))
    assert beat(group, "A", 2).assignment == ((T, (0, 1, 2, 3)),)


def test_a_changed_subscription_is_followed() -> None:
    group = Group()
    beat(group, "A", 0)
    reply = beat(group, "A", 2, ((T, (0, 1, 2, 3)),), subscribed_topic_names=("u",))
    assert (reply.member_epoch, reply.assignment) == (2, ())
    assert beat(group, "A", 2, ()).assignment == ((U, (0, 1)),)


def test_many_changes_within_a_second_cost_one_assignment() -> None:
    group = Group(GroupSettings())
    beat(group, "A", 0)
    group.pass_time(400)
    waiting = [beat(group, f"B{number}", 0) for number in range(200)]
    assert {(reply.heartbeat_interval_ms, reply.assignment) for reply in waiting} == {(600, ())}
    group.pass_time(600)
    beat(group, "B0", 2)
    assert described(group).assignment_epoch == described(group).group_epoch == 202


def test_two_hundred_members_come_to_rest_with_one_round_of_heartbeats_each_way() -> None:
    group = Group(GroupSettings(), {"t": Topic(T, 400)})
    names = [f"m{number:03}" for number in range(200)]
    replies = {name: beat(group, name, 0) for name in names}
    group.pass_time(1_000)
    owned: dict[str, Any] = {name: replies[name].assignment for name in names}
    for _ in range(3):
        for name in names:
            reply = beat(group, name, replies[name].member_epoch, owned[name])
            owned[name] = owned[name] if reply.assignment is None else reply.assignment
            replies[name] = reply
    assert described(group).state == "Stable"
    assert {sum(len(numbers) for _, numbers in share) for share in owned.values()} == {2}


# Patterns (KIP-1082)


def test_a_pattern_is_followed_as_topics_come_and_go() -> None:
    group = Group()
    assert beat(group, "A", 0, subscribed_topic_regex="[tu]").assignment == ((T, (0, 1, 2, 3)), (U, (0, 1)))
    group.carry_out(group.shard.on_topics({"t": TOPICS["t"], "tt": Topic(U, 1)}, group.now_ms))
    assert beat(group, "A", 2, ((T, (0, 1, 2, 3)), (U, (0, 1)))).assignment == ((T, (0, 1, 2, 3)),)


@pytest.mark.parametrize("pattern", ["(", "a{1001}{1001}", "(?=x)", "\\1", "x" * 5_000])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert error(Group(), "A", 0, subscribed_topic_regex=pattern) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_hostile_pattern_is_answered_like_any_other() -> None:
    group = Group(topics={"a" * 240: Topic(T, 1)})
    assert beat(group, "A", 0, subscribed_topic_regex="(a*)*(a|aa)+b").assignment == ()


def test_a_pattern_that_nobody_uses_any_more_is_forgotten() -> None:
    group = Group()
    beat(group, "A", 0, subscribed_topic_regex="t.*")
    beat(group, "A", 2, ((T, (0, 1, 2, 3)),), subscribed_topic_regex="", subscribed_topic_names=("t",))
    assert group.shard._groups.by_id[GROUP].patterns == {}  # type: ignore[union-attr]


# Static members


def test_a_static_member_that_goes_for_a_while_finds_its_partitions_again() -> None:
    group = Group()
    beat(group, "A", 0, instance_id="one")
    assert beat(group, "A", -2, instance_id="one").member_epoch == -2
    assert beat(group, "B", 0).assignment == ()
    back = beat(group, "C", 0, instance_id="one")
    assert back.assignment is not None
    assert sum(len(numbers) for _, numbers in back.assignment) > 0
    assert error(group, "A", 2, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    group = Group()
    beat(group, "A", 0, instance_id="one")
    beat(group, "A", -2, instance_id="one")
    group.pass_time(SESSION_MS + 1)
    assert described(group).members == ()


def test_an_instance_in_use_is_not_handed_over() -> None:
    group = Group()
    beat(group, "A", 0, instance_id="one")
    assert error(group, "B", 0, instance_id="one") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert beat(group, "A", 0, instance_id="one").member_epoch == 2


def test_an_instance_that_nobody_knows_cannot_go_on() -> None:
    assert error(pair(), "A", 3, instance_id="one") is ErrorCode.UNKNOWN_MEMBER_ID


# What makes no sense


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": ((T, (0,)),)}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(change: dict[str, Any], code: ErrorCode) -> None:
    sound = {
        "group_id": GROUP,
        "member_id": "A",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "topic_partitions": (),
        "subscribed_topic_names": ("t",),
    }
    group = Group()
    assert group.error("consumer_heartbeat", ConsumerHeartbeat(**{**sound, **change})) is code
    assert group.log == []


def test_an_early_client_is_given_its_member_id() -> None:
    reply = Group().ask("consumer_heartbeat", beat_of("", 0, api_version=0))
    assert len(reply.member_id) == 36


def test_a_full_group_takes_nobody_in() -> None:
    group = Group(GroupSettings(consumer_max_size=1))
    beat(group, "A", 0)
    assert error(group, "B", 0) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    group = Group()
    beat(group, "A", 0, server_assignor="range")
    assert described(group).assignor_name == "range"


# Failover


def test_a_restarted_coordinator_knows_all_that_the_one_before_knew() -> None:
    group = pair()
    before = described(group)
    group.restart()
    assert described(group) == before
    assert beat(group, "A", 3).member_epoch == 3
    group.pass_time(SESSION_MS - 1)
    beat(group, "A", 3)
    group.pass_time(2)
    assert [member.member_id for member in described(group).members] == ["A"]


def test_deciding_changes_nothing() -> None:
    group = pair()
    before = described(group)
    for question in (beat_of("C", 0), beat_of("A", -1), beat_of("B", 3, (), subscribed_topic_names=("u",))):
        assert group.shard.consumer_heartbeat(question, group.now_ms).records
        assert described(group) == before


def test_a_group_may_have_times_of_its_own_and_get_others_while_it_lives() -> None:
    own = {GROUP: ConsumerTimes(60_000, 7_000, 0)}
    group = Group(own_times=own)
    assert beat(group, "A", 0).heartbeat_interval_ms == 7_000
    group.pass_time(59_999)
    assert beat(group, "A", 2).heartbeat_interval_ms == 7_000
    own[GROUP] = ConsumerTimes(50_000, 6_000, 0)
    assert beat(group, "A", 2).heartbeat_interval_ms == 6_000
    group.pass_time(50_000)
    assert error(group, "A", 2) is ErrorCode.UNKNOWN_MEMBER_ID
