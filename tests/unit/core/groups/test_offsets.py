from dataclasses import replace

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import FetchedOffset, OffsetDelete, OffsetFetch, OffsetToCommit, Topic
from ottla.core.groups.records import OffsetRecord
from ottla.core.groups.settings import GroupSettings
from tests.unit.core.groups.driving import GROUP, TOPICS, Group, T, beat_of, commit_of, fetch_of, heartbeat_of, leave_of

WEEK_MS = 7 * 24 * 3_600_000
CHECK_MS = 600_000


def offset_of(group: Group, **more: object) -> FetchedOffset:
    ((_, (found,)),) = group.ask("fetch_offsets", fetch_of(**more)).topics
    assert isinstance(found, FetchedOffset)
    return found


def test_a_committed_offset_comes_back_with_its_epoch_and_metadata() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(0, offsets=(OffsetToCommit("t", 0, 42, 3, "note"),)))
    assert offset_of(group) == FetchedOffset(0, 42, 3, "note")
    group.restart()
    assert offset_of(group) == FetchedOffset(0, 42, 3, "note")


def test_what_was_never_committed_is_minus_one_without_an_error() -> None:
    assert offset_of(Group()) == FetchedOffset(0, -1, -1, "", ErrorCode.NONE)


def test_all_offsets_of_a_group_are_listed_when_no_topic_is_named() -> None:
    group = Group()
    offsets = tuple(OffsetToCommit(topic, number, number) for topic in ("u", "t") for number in (1, 0))
    group.ask("commit_offsets", commit_of(0, offsets=offsets))
    reply = group.ask("fetch_offsets", OffsetFetch(group_id=GROUP))
    assert [(name, [one.offset for one in found]) for name, found in reply.topics] == [("t", [0, 1]), ("u", [0, 1])]


def test_metadata_that_is_too_long_is_refused_for_its_partition_only() -> None:
    group = Group()
    offsets = (OffsetToCommit("t", 0, 1, -1, "x" * 4096), OffsetToCommit("t", 1, 1, -1, "é" * 2049))
    reply = group.ask("commit_offsets", commit_of(0, offsets=offsets))
    assert reply.errors == (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert offset_of(group).offset == 1


def test_of_a_partition_named_twice_the_later_offset_counts() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(0, offsets=(OffsetToCommit("t", 0, 5), OffsetToCommit("t", 0, 4))))
    assert offset_of(group).offset == 4


@pytest.mark.parametrize(
    ("epoch", "version", "code"), [(0, 9, ErrorCode.GROUP_ID_NOT_FOUND), (3, 8, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_member_of_a_group_that_nobody_knows_cannot_commit(epoch: int, version: int, code: ErrorCode) -> None:
    assert Group().error("commit_offsets", commit_of(1, "m", epoch, api_version=version)) is code


def test_nobody_commits_from_outside_into_a_group_with_members() -> None:
    group = Group()
    leader, _ = group.stable_pair()
    assert group.error("commit_offsets", commit_of(1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("commit_offsets", commit_of(1, "ghost", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("commit_offsets", commit_of(1, leader.member_id, 99)) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_takes_commits_from_outside() -> None:
    group = Group()
    leader, other = group.stable_pair()
    group.ask("leave", leave_of(leader.member_id, other.member_id))
    group.ask("commit_offsets", commit_of(7))
    assert offset_of(group).offset == 7


def test_a_member_cannot_commit_between_join_and_sync() -> None:
    group = Group()
    joined = group.join()
    commit = commit_of(1, joined.member_id, joined.generation_id)
    assert group.error("commit_offsets", commit) is ErrorCode.REBALANCE_IN_PROGRESS
    group.ask("commit_offsets", replace(commit, producer_id=7))


def test_a_member_of_a_consumer_group_commits_with_its_epoch_alone() -> None:
    group = Group()
    epoch = group.ask("consumer_heartbeat", beat_of("m", 0)).member_epoch
    group.ask("commit_offsets", commit_of(3, "m", epoch))
    assert group.error("commit_offsets", commit_of(4, "m", epoch + 1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.error("commit_offsets", commit_of(4, "x", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("commit_offsets", commit_of(4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.error("commit_offsets", commit_of(4, "m", epoch, api_version=8)) is ErrorCode.UNSUPPORTED_VERSION
    assert offset_of(group, member_id="m", member_epoch=epoch).offset == 3
    assert group.error("fetch_offsets", fetch_of(member_id="m", member_epoch=9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.error("fetch_offsets", fetch_of(member_id="x", member_epoch=1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_empty_name_is_a_group_as_far_as_offsets_go() -> None:
    group = Group()
    group.ask("commit_offsets", replace(commit_of(5), group_id=""))
    assert list(group.shard.committed_offsets()) == [("", "t", 0, 5)]
    group.ask("delete_group", "")
    assert list(group.shard.committed_offsets()) == []


def test_a_member_cannot_commit_under_a_name_that_has_only_offsets() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(5))
    assert group.error("commit_offsets", commit_of(6, "m", 5)) is ErrorCode.UNKNOWN_MEMBER_ID


# Transactions


def test_an_offset_in_an_open_transaction_is_unstable_and_unseen_until_the_transaction_commits() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1))
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    assert offset_of(group).offset == 1
    assert offset_of(group, require_stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    group.shard.end_transaction(55, committed=True)
    assert offset_of(group, require_stable=True).offset == 8


def test_an_offset_of_an_aborted_transaction_never_was() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1))
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    group.ask("commit_offsets", commit_of(9, producer_id=66))
    group.shard.end_transaction(55, committed=False)
    assert offset_of(group, require_stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    group.shard.end_transaction(66, committed=False)
    assert offset_of(group, require_stable=True).offset == 1


@pytest.mark.parametrize("order", [(55, 66), (66, 55)])
def test_of_two_transactions_the_offset_that_was_sent_last_counts(order: tuple[int, int]) -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    group.ask("commit_offsets", commit_of(9, producer_id=66))
    for producer_id in order:
        group.shard.end_transaction(producer_id, committed=True)
    assert offset_of(group, require_stable=True).offset == 9


def test_an_offset_committed_beside_an_open_transaction_is_not_undone_by_its_end() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    group.ask("commit_offsets", commit_of(30))
    group.shard.end_transaction(55, committed=True)
    assert offset_of(group, require_stable=True).offset == 30
    group.ask("commit_offsets", commit_of(40, producer_id=55))
    group.shard.end_transaction(55, committed=True)
    assert offset_of(group, require_stable=True).offset == 40


def test_a_group_exists_as_soon_as_an_open_transaction_has_offsets_for_it() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    assert [one.group_id for one in group.shard.list_groups((), (), group.now_ms).reply] == [GROUP]
    assert group.error("commit_offsets", commit_of(9, "m", 5)) is ErrorCode.UNKNOWN_MEMBER_ID
    group.shard.end_transaction(55, committed=False)
    assert group.error("commit_offsets", commit_of(9, "m", 5)) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("deed", "what"), [("delete_group", GROUP), ("delete_offsets", OffsetDelete(GROUP, (("t", 0),)))]
)
def test_deleting_takes_the_offsets_of_open_transactions_along(deed: str, what: object) -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(8, producer_id=55))
    group.ask(deed, what)
    assert offset_of(group, require_stable=True).error is ErrorCode.NONE
    group.shard.end_transaction(55, committed=True)
    assert offset_of(group).offset == -1


# Deleting


def test_offsets_are_deleted_of_topics_that_nobody_is_subscribed_to() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(0, offsets=(OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1))))
    group.ask("consumer_heartbeat", beat_of("m", 0))
    reply = group.ask("delete_offsets", OffsetDelete(GROUP, (("t", 0), ("u", 0), ("u", 1))))
    assert reply.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE)
    remaining = group.ask("fetch_offsets", OffsetFetch(group_id=GROUP)).topics
    assert [name for name, _ in remaining] == ["t"]


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted() -> None:
    assert Group().error("delete_offsets", OffsetDelete(GROUP, (("t", 0),))) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted() -> None:
    group = Group()
    group.stable_pair()
    assert group.error("delete_group", GROUP) is ErrorCode.NON_EMPTY_GROUP


def test_a_deleted_group_leaves_nothing_behind() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1))
    leader, other = group.stable_pair()
    group.ask("leave", leave_of(leader.member_id, other.member_id))
    group.ask("delete_group", GROUP)
    assert group.error("delete_group", GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.state() == "none"
    assert offset_of(group).offset == -1
    live = {key: value for key, value, _ in group.log}
    assert set(live.values()) == {None}


def test_offsets_of_a_deleted_topic_go_with_it() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(0, offsets=(OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2))))
    decision = group.shard.on_topics({"t": Topic(b"n" * 16, 4), "u": TOPICS["u"]}, group.now_ms)
    assert decision.records == (OffsetRecord(GROUP, "t", 0, None),)
    group.carry_out(decision)
    assert offset_of(group).offset == -1


# Expiry (KIP-211)


def test_a_name_that_is_only_committed_under_is_forgotten_a_week_after_the_commit() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1))
    group.pass_time(WEEK_MS - CHECK_MS)
    assert offset_of(group).offset == 1
    group.pass_time(2 * CHECK_MS)
    assert offset_of(group).offset == -1
    assert group.state() == "none"


def test_the_week_begins_when_the_last_member_goes() -> None:
    group = Group(GroupSettings(group_initial_rebalance_delay_ms=0, offsets_retention_ms=3_600_000))
    leader, other = group.stable_pair()
    group.ask("commit_offsets", commit_of(1, leader.member_id, leader.generation_id))
    for _ in range(800):
        group.pass_time(9_000)
        group.ask("heartbeat", heartbeat_of(leader))
        group.ask("heartbeat", heartbeat_of(other))
    assert offset_of(group).offset == 1
    group.ask("leave", leave_of(leader.member_id, other.member_id))
    group.pass_time(3_000_000)
    assert offset_of(group).offset == 1
    group.restart()
    group.pass_time(1_300_000)
    assert offset_of(group).offset == -1
    assert group.state() == "none"


def test_a_consumer_group_too_counts_from_the_moment_it_became_empty() -> None:
    group = Group(
        GroupSettings(
            group_initial_rebalance_delay_ms=0, offsets_retention_ms=3_600_000, consumer_assignment_interval_ms=0
        )
    )
    epoch = group.ask("consumer_heartbeat", beat_of("m", 0)).member_epoch
    group.ask("commit_offsets", commit_of(1, "m", epoch))
    for _ in range(200):
        group.pass_time(30_000)
        group.ask("consumer_heartbeat", beat_of("m", epoch))
    group.ask("consumer_heartbeat", beat_of("m", -1))
    group.pass_time(3_000_000)
    group.restart()
    assert offset_of(group).offset == 1
    group.pass_time(1_300_000)
    assert offset_of(group).offset == -1
    assert group.state() == "none"


def test_a_commit_may_name_its_own_expiry() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(1, retention_ms=3_600_000))
    group.restart()
    group.pass_time(3_600_000 + CHECK_MS)
    assert offset_of(group).offset == -1


def test_a_topic_id_survives_with_its_offset() -> None:
    group = Group()
    group.ask("commit_offsets", commit_of(0, offsets=(OffsetToCommit("t", 0, 1, topic_id=T),)))
    (key, value, _) = group.log[-1]
    assert value is not None
    assert value[:2] == b"\x00\x04"
    assert T in value
    assert key[:2] == b"\x00\x01"
