"""Group commits, sentence by sentence. One shard is the coordinator of the group and of its members."""

from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import (
    AskVerdict,
    CommitGroup,
    CommitOffsets,
    DescribedGroup,
    DescribeGroup,
    EndMember,
    EndPinned,
    GroupCommitReply,
    GroupDone,
    InitProducerIdReply,
    PinMember,
)
from ottla.core.transactions.group_commit import REPEAT_MS, VOTES_WAIT_MS, is_outdated, offset_metadata
from ottla.core.transactions.records import GroupOffset, Member, Pin, Status
from tests.unit.core.transactions.driving import ID, P0, TIMEOUT_MS, Coordinator, init_of

OFFSETS = (GroupOffset("g", "source", 0, 10),)


def with_member() -> tuple[Coordinator, InitProducerIdReply]:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    return coordinator, producer


def group_of(producer: Any, **more: Any) -> CommitGroup:
    members = () if producer is None else (Member(ID, producer.producer_id, producer.producer_epoch),)
    values: dict[str, Any] = {"batch": 1, "members": members, "offsets": OFFSETS, "digest": b"d", **more}
    return CommitGroup(sink="lake", query="q", **values)


def tell(coordinator: Coordinator) -> list[Any]:
    """Carry out what coordinators have to tell one another; what it was."""
    told, coordinator.told = coordinator.told, []
    for effect in told:
        if isinstance(effect, PinMember):
            pin_member(coordinator, effect)
        elif isinstance(effect, EndMember):
            end_member(coordinator, effect.transactional_id, effect.pin, effect.committed)
        elif isinstance(effect, CommitOffsets):
            coordinator.ask("on_group_done", GroupDone("lake", "q", effect.batch, has_offsets=True))
        elif isinstance(effect, AskVerdict):
            committed = coordinator.carry_out(coordinator.shard.verdict(effect.pin, coordinator.now_ms))
            if committed is not None:
                end_member(coordinator, effect.transactional_id, effect.pin, committed)
    return told


def pin_member(coordinator: Coordinator, effect: PinMember, error: ErrorCode = ErrorCode.NONE) -> None:
    now_ms = coordinator.now_ms
    if error is ErrorCode.NONE:
        coordinator.carry_out(coordinator.shard.pin(effect.transactional_id, effect.pin, now_ms))
    coordinator.carry_out(coordinator.shard.on_pinned(effect.transactional_id, effect.pin, error, now_ms))


def end_member(coordinator: Coordinator, transactional_id: str, pin: Pin, committed: bool) -> None:
    coordinator.ask("end_pinned", EndPinned(transactional_id=transactional_id, pin=pin, committed=committed))
    if committed:
        done = GroupDone(pin.sink, pin.query, pin.batch, members=frozenset({transactional_id}))
        coordinator.ask("on_group_done", done)


def committed_group() -> tuple[Coordinator, InitProducerIdReply]:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    tell(coordinator)
    tell(coordinator)
    coordinator.write_markers()
    return coordinator, producer


def test_members_promise_then_one_record_decides_then_all_are_told() -> None:
    coordinator, producer = with_member()
    ticket = coordinator.ask("commit_group", group_of(producer))
    (pin,) = tell(coordinator)
    assert isinstance(pin, PinMember)
    assert coordinator.replies == {ticket: GroupCommitReply()}
    assert coordinator.status() is Status.ONGOING
    end, offsets = tell(coordinator)
    assert isinstance(end, EndMember)
    assert isinstance(offsets, CommitOffsets)
    assert offsets.offsets == OFFSETS
    assert coordinator.status() is Status.PREPARE_COMMIT
    coordinator.write_markers()
    assert coordinator.status() is Status.COMPLETE_COMMIT
    coordinator.pass_time(10 * REPEAT_MS)
    assert not coordinator.told


@pytest.mark.parametrize("restarts", [False, True])
def test_a_replay_is_answered_so_and_its_members_are_aborted(restarts: bool) -> None:
    coordinator, _ = committed_group()
    if restarts:
        coordinator.restart()
    replayed = coordinator.init()
    coordinator.add(replayed)
    assert coordinator.ask("commit_group", group_of(replayed)) == GroupCommitReply(is_replay=True)
    tell(coordinator)
    assert coordinator.status() is Status.PREPARE_ABORT


@pytest.mark.parametrize("other", [{"digest": b"other"}, {"batch": 0}])
def test_other_contents_and_older_batches_are_refused_loudly(other: dict[str, Any]) -> None:
    coordinator, _ = committed_group()
    producer = coordinator.init()
    coordinator.add(producer)
    reply = coordinator.ask("commit_group", group_of(producer, **other))
    assert reply.error is ErrorCode.INVALID_REQUEST
    assert "checkpoint" in reply.why
    tell(coordinator)
    assert coordinator.status() is Status.PREPARE_ABORT


def test_asking_again_while_members_are_asked_is_the_same_commit() -> None:
    coordinator, producer = with_member()
    first = coordinator.ask("commit_group", group_of(producer))
    second = coordinator.ask("commit_group", group_of(producer))
    other = group_of(producer, digest=b"other")
    assert coordinator.error("commit_group", other) is ErrorCode.CONCURRENT_TRANSACTIONS
    tell(coordinator)
    assert coordinator.replies == {first: GroupCommitReply(), second: GroupCommitReply()}


def test_the_next_batch_waits_until_the_last_one_is_everywhere() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    tell(coordinator)
    following = group_of(None, batch=2)
    assert coordinator.error("commit_group", following) is ErrorCode.CONCURRENT_TRANSACTIONS
    tell(coordinator)
    ticket = coordinator.ask("commit_group", following)
    assert coordinator.replies[ticket] == GroupCommitReply()


def test_one_member_that_cannot_commit_aborts_all() -> None:
    coordinator, producer = with_member()
    known = Member(ID, producer.producer_id, producer.producer_epoch)
    ask = group_of(producer, members=(known, Member("other", 5, 0)))
    ticket = coordinator.ask("commit_group", ask)
    mine, other = coordinator.told
    coordinator.told = []
    pin_member(coordinator, mine)
    pin_member(coordinator, other, ErrorCode.INVALID_TXN_STATE)
    assert coordinator.replies[ticket].error is ErrorCode.INVALID_TXN_STATE
    tell(coordinator)
    assert coordinator.status() is Status.PREPARE_ABORT
    assert coordinator.carry_out(coordinator.shard.verdict(mine.pin, coordinator.now_ms)) is False


def test_members_that_do_not_answer_are_asked_again_and_not_for_ever() -> None:
    coordinator, producer = with_member()
    ticket = coordinator.ask("commit_group", group_of(producer))
    coordinator.told.clear()
    coordinator.pass_time(REPEAT_MS)
    (again,) = coordinator.told
    pin_member(coordinator, again, ErrorCode.NOT_COORDINATOR)
    assert not coordinator.replies
    coordinator.pass_time(VOTES_WAIT_MS)
    assert coordinator.replies[ticket].error is ErrorCode.REQUEST_TIMED_OUT


def test_a_pinned_transaction_obeys_nobody_but_its_group() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    (effect,) = coordinator.told
    coordinator.carry_out(coordinator.shard.pin(ID, effect.pin, coordinator.now_ms))
    coordinator.restart()
    for method, ask in (
        ("end", coordinator.end_of(producer, committed=False)),
        ("add_partitions", coordinator.add_of(producer)),
        ("init_producer_id", init_of()),
    ):
        assert coordinator.error(method, ask) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.pass_time(10 * TIMEOUT_MS)
    assert coordinator.status() is Status.ONGOING
    stale = effect.pin._replace(attempt=effect.pin.attempt + 1)
    end_member(coordinator, ID, stale, committed=False)
    assert coordinator.status() is Status.ONGOING


def test_a_member_of_an_attempt_that_died_with_its_coordinator_is_told_to_abort() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    (effect,) = coordinator.told
    coordinator.carry_out(coordinator.shard.pin(ID, effect.pin, coordinator.now_ms))
    coordinator.restart()
    coordinator.pass_time(0)
    assert coordinator.told == [AskVerdict(ID, effect.pin)]
    tell(coordinator)
    assert coordinator.status() is Status.PREPARE_ABORT


def test_a_decision_outlives_its_coordinator() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    tell(coordinator)
    coordinator.restart()
    coordinator.pass_time(0)
    assert {type(effect) for effect in coordinator.told} == {AskVerdict, EndMember, CommitOffsets}
    tell(coordinator)
    assert coordinator.status() is Status.PREPARE_COMMIT
    coordinator.pass_time(10 * REPEAT_MS)
    assert not coordinator.told


def test_the_last_decision_can_be_asked_for_and_an_attempt_is_none() -> None:
    coordinator, producer = with_member()
    ask = DescribeGroup("lake", "q")
    coordinator.ask("commit_group", group_of(producer))
    assert coordinator.ask("describe_group", ask) == DescribedGroup(-1, b"", True)
    tell(coordinator)
    assert coordinator.ask("describe_group", ask) == DescribedGroup(1, b"d", False)
    tell(coordinator)
    coordinator.write_markers()
    assert coordinator.ask("describe_group", ask) == DescribedGroup(1, b"d", True)
    coordinator.restart()
    assert coordinator.ask("describe_group", ask) == DescribedGroup(1, b"d", True)
    assert coordinator.ask("describe_group", DescribeGroup("lake", "other")).batch == -1


def test_while_members_are_asked_nobody_knows_the_verdict() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    (effect,) = coordinator.told
    assert coordinator.carry_out(coordinator.shard.verdict(effect.pin, coordinator.now_ms)) is None


def test_a_transaction_that_is_over_cannot_be_pinned() -> None:
    coordinator, producer = with_member()
    coordinator.ask("commit_group", group_of(producer))
    coordinator.end(producer, committed=False)
    (effect,) = coordinator.told
    with pytest.raises(Refused) as refused:
        coordinator.shard.pin(ID, effect.pin, coordinator.now_ms)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    "bad",
    [
        {"batch": -1},
        {"members": (Member("", 1, 0),)},
        {"members": (Member("a", 1, 0), Member("a", 2, 0))},
    ],
)
def test_a_group_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    assert Coordinator().error("commit_group", group_of(None, **bad)) is ErrorCode.INVALID_REQUEST


def test_whoever_waits_for_a_group_hears_that_the_coordinator_has_moved() -> None:
    coordinator, producer = with_member()
    ticket = coordinator.ask("commit_group", group_of(producer))
    (reply,) = coordinator.shard.resign()
    assert (reply.ticket, reply.reply.error) == (ticket, ErrorCode.NOT_COORDINATOR)


def test_an_offset_commit_that_comes_late_is_passed_over() -> None:
    older, newer = (CommitOffsets("lake", "q of", batch, OFFSETS) for batch in (9, 10))
    assert is_outdated(older, offset_metadata(newer))
    assert is_outdated(newer, offset_metadata(newer))
    assert not is_outdated(newer, offset_metadata(older))
    assert not is_outdated(older, offset_metadata(CommitOffsets("lake", "other", 10, OFFSETS)))
    for metadata in ("", "anything", "batch x of q of to lake", "batch 10 of "):
        assert not is_outdated(older, metadata)
