from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import DescribedMember, ListedGroup, Protocol
from tests.unit.core.groups.driving import GROUP, Group, T, beat_of, commit_of, leave_of, subscription


def listed(group: Group, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> object:
    return group.shard.list_groups(states, types, group.now_ms).reply


def test_groups_are_listed_with_their_type_and_state() -> None:
    group = Group()
    assert listed(group) == ()
    group.stable_pair()
    assert listed(group) == (ListedGroup(GROUP, "consumer", "Stable", "classic"),)


def test_a_name_that_is_only_committed_under_is_an_empty_group() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1))
    assert listed(group) == (ListedGroup(GROUP, "", "Empty", "classic"),)
    assert group.ask("describe_group", GROUP).state == "Empty"


def test_filters_do_not_care_for_capitals() -> None:
    group = Group()
    group.ask("consumer_heartbeat", beat_of("A", 0))
    row = (ListedGroup(GROUP, "consumer", "Stable", "consumer"),)
    assert listed(group, ("STABLE", "Empty")) == listed(group, (), ("Consumer",)) == row
    assert listed(group, ("empty",)) == listed(group, (), ("classic",)) == ()


def test_a_stable_group_shows_what_its_members_said_and_got() -> None:
    group = Group()
    leader, other = group.stable_pair()
    shown = group.ask("describe_group", GROUP)
    assert (shown.state, shown.protocol_type, shown.protocol) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.metadata, m.assignment) for m in shown.members] == [
        (leader.member_id, subscription("t"), b"one"),
        (other.member_id, subscription("t"), b"two"),
    ]


def test_a_group_that_rebalances_does_not_show_what_its_members_said() -> None:
    group = Group()
    group.stable_pair()
    group.join(protocols=(Protocol("range", subscription("t")),))
    shown = group.ask("describe_group", GROUP)
    assert (shown.state, shown.protocol) == ("PreparingRebalance", "")
    assert all(isinstance(m, DescribedMember) and m.metadata == b"" for m in shown.members)
    assert [m.assignment for m in shown.members] == [b"one", b"two", b""]


def test_a_consumer_group_is_described_with_its_epochs_and_targets() -> None:
    group = Group()
    group.ask("consumer_heartbeat", beat_of("A", 0))
    group.ask("consumer_heartbeat", beat_of("B", 0))
    shown = group.ask("describe_consumer_group", GROUP)
    assert (shown.state, shown.group_epoch, shown.assignment_epoch) == ("Reconciling", 3, 3)
    assert (shown.assignor_name, shown.members[0].member_type) == ("uniform", 1)
    assert shown.members[0].assignment == ((T, (0, 1, 2, 3)),)
    assert shown.members[0].target_assignment == ((T, (0, 1)),)


def test_each_kind_of_description_is_for_its_kind_of_group() -> None:
    group = Group()
    assert group.error("describe_group", GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error("describe_consumer_group", GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
    group.ask("consumer_heartbeat", beat_of("A", 0))
    assert group.error("describe_group", GROUP) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_without_offsets_is_forgotten_at_the_next_look() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.ask("leave", leave_of(leader.member_id, other.member_id))
    assert group.state() == "Empty"
    group.pass_time(601_000)
    assert group.state() == "none"
    group.restart()
    assert group.state() == "none"
