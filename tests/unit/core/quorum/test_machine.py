"""Sentences of the protocol that chance seldom writes."""

from random import Random

import pytest

from ottla.core.quorum import effects as fx
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.log_shape import LogShape
from ottla.core.quorum.machine import Quorum
from ottla.core.quorum.member import QuorumSetup
from ottla.core.quorum.messages import (
    Batch,
    BeginEpoch,
    EndEpoch,
    FetchRequest,
    FetchResponse,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from ottla.core.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached

LONG_MS = 60_000


def member(
    node: int = 1, epochs: tuple[tuple[int, int], ...] = (), end: int = 0, stored: ElectionState | None = None
) -> Quorum:
    setup = QuorumSetup(node_id=node, voters=frozenset((1, 2, 3)))
    quorum = Quorum(setup, stored or ElectionState(), LogShape(epochs=epochs, end=end), Random(1))
    quorum.start(0)
    return quorum


def elected(quorum: Quorum) -> Quorum:
    """The member with its log becomes leader by the vote of 2."""
    quorum.on_time(LONG_MS)
    assert isinstance(quorum.role, Prospective)
    quorum.receive(VoteResponse(2, 1, quorum.epoch, None, True, True), LONG_MS)
    assert isinstance(quorum.role, Candidate)
    quorum.receive(VoteResponse(2, 1, quorum.epoch, None, True, False), LONG_MS)
    assert isinstance(quorum.role, Leader)
    return quorum


def sent(effects: list[fx.Effect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, fx.Send)]


def test_what_earlier_leaders_left_is_committed_only_with_an_entry_of_the_own_epoch() -> None:
    leader = elected(member(epochs=((1, 0), (2, 3)), end=5, stored=ElectionState(2)))
    assert leader.epoch_start == 5 and leader.log.end_offset == 6
    leader.on_flushed(6, leader.log.generation, LONG_MS)
    effects = leader.receive(FetchRequest(2, 1, 3, 5, 2), LONG_MS)
    assert leader.high_watermark == 0, "the old entries are on a majority, and may yet be overwritten"
    assert not [e for e in effects if isinstance(e, fx.Committed)]
    effects = leader.receive(FetchRequest(2, 1, 3, 6, 3), LONG_MS)
    assert leader.high_watermark == 6 and fx.Committed(6) in effects


def test_the_leader_counts_only_what_is_on_its_own_disk() -> None:
    leader = elected(member())
    leader.receive(FetchRequest(2, 1, 1, 1, 1), LONG_MS)
    assert leader.high_watermark == 0
    leader.on_flushed(1, leader.log.generation, LONG_MS)
    assert leader.high_watermark == 1


def test_an_fsync_that_began_before_a_truncation_proves_nothing() -> None:
    follower = member(epochs=((1, 0),), end=5, stored=ElectionState(1))
    follower.receive(BeginEpoch(2, 1, 2), 0)
    follower.on_time(LONG_MS // 60)
    before = follower.log.generation
    follower.receive(FetchResponse(2, 1, 2, 2, 5, 1, 0, diverging=(1, 3)), 10)
    assert follower.log.end_offset == 3
    batch = Batch(3, 6, 2)
    follower.receive(FetchResponse(2, 1, 2, 2, 3, 1, 0, batches=(batch,)), 20)
    assert (follower.log.end_offset, follower.log.flushed_end) == (6, 3)
    assert sent(follower.on_flushed(5, before, 30)) == []
    assert follower.log.flushed_end == 3
    (ask,) = sent(follower.on_flushed(6, follower.log.generation, 40))
    assert isinstance(ask, FetchRequest) and (ask.fetch_offset, ask.last_fetched_epoch) == (6, 2)


def test_a_vote_is_given_once_in_an_epoch_and_persisted_first() -> None:
    quorum = member()
    effects = quorum.receive(VoteRequest(2, 1, 4, 0, 0, False), 0)
    assert [type(effect) for effect in effects[-2:]] == [fx.Persist, fx.Send]
    assert effects[-2] == fx.Persist(ElectionState(4, voted_for=2))
    (other,) = sent(quorum.receive(VoteRequest(3, 1, 4, 0, 0, False), 0))
    assert isinstance(other, VoteResponse) and not other.is_granted
    (again,) = sent(quorum.receive(VoteRequest(2, 1, 4, 0, 0, False), 0))
    assert isinstance(again, VoteResponse) and again.is_granted
    reborn = member(stored=ElectionState(4, voted_for=2))
    (refused,) = sent(reborn.receive(VoteRequest(3, 1, 4, 0, 0, False), 0))
    assert isinstance(refused, VoteResponse) and not refused.is_granted


@pytest.mark.parametrize(
    ("last_epoch", "end", "is_granted"), [(1, 9, False), (2, 4, False), (2, 5, True), (3, 1, True)]
)
def test_only_a_log_that_lacks_nothing_gets_a_vote(last_epoch: int, end: int, is_granted: bool) -> None:
    for is_pre_vote in (True, False):
        quorum = member(epochs=((1, 0), (2, 3)), end=5, stored=ElectionState(2))
        (answer,) = sent(quorum.receive(VoteRequest(2, 1, 3, last_epoch, end, is_pre_vote), 0))
        assert isinstance(answer, VoteResponse) and answer.is_granted == is_granted


def test_who_hears_its_leader_helps_nobody_to_an_election() -> None:
    quorum = member()
    quorum.receive(BeginEpoch(2, 1, 1), 0)
    (before,) = sent(quorum.receive(VoteRequest(3, 1, 1, 0, 0, True), 0))
    assert isinstance(before, VoteResponse) and before.is_granted
    quorum.receive(FetchResponse(2, 1, 1, 2, 0, 0, 0), 5)
    (after,) = sent(quorum.receive(VoteRequest(3, 1, 1, 0, 0, True), 10))
    assert isinstance(after, VoteResponse) and not after.is_granted
    assert isinstance(quorum.role, Follower) and quorum.epoch == 1


def test_a_leader_that_restarts_does_not_lead_its_epoch_again() -> None:
    quorum = member(stored=ElectionState(4, voted_for=1, leader_id=1))
    assert isinstance(quorum.role, Resigned) and quorum.leader_id is None
    (answer,) = sent(quorum.receive(FetchRequest(2, 1, 4, 0, 0), 0))
    assert isinstance(answer, FetchResponse) and (answer.leader_id, answer.high_watermark) == (None, -1)


def test_a_fetch_of_another_epoch_gets_no_high_watermark() -> None:
    leader = elected(member())
    leader.on_flushed(1, leader.log.generation, LONG_MS)
    leader.receive(FetchRequest(2, 1, 1, 1, 1), LONG_MS)
    assert leader.high_watermark == 1
    (answer,) = sent(leader.receive(FetchRequest(3, 1, 0, 1, 0), LONG_MS))
    assert isinstance(answer, FetchResponse) and (answer.epoch, answer.high_watermark) == (1, -1)


def test_logs_that_part_are_told_where() -> None:
    leader = elected(member(epochs=((1, 0), (3, 4)), end=6, stored=ElectionState(3)))
    (answer,) = sent(leader.receive(FetchRequest(2, 1, 4, 7, 2), LONG_MS))
    assert isinstance(answer, FetchResponse) and answer.diverging == (1, 4)


def test_a_follower_below_the_log_is_told_of_the_snapshot() -> None:
    leader = elected(member())
    leader.append(5)
    leader.on_flushed(6, leader.log.generation, LONG_MS)
    leader.receive(FetchRequest(2, 1, 1, 6, 1), LONG_MS)
    leader.on_snapshot_kept(SnapshotId(4, 1))
    (answer,) = sent(leader.receive(FetchRequest(3, 1, 1, 2, 1), LONG_MS))
    assert isinstance(answer, FetchResponse) and answer.snapshot == SnapshotId(4, 1)


def test_a_fetch_at_the_end_waits_for_data() -> None:
    leader = elected(member())
    assert leader.receive(FetchRequest(2, 1, 1, 1, 1), LONG_MS) == []
    leader.append(2)
    (answer,) = [e for e in leader.on_appended() if isinstance(e, fx.AnswerFetch)]
    assert answer.response.fetch_offset == 1
    assert leader.receive(FetchRequest(2, 1, 1, 3, 1), LONG_MS) == []
    late = [e for e in leader.on_time(LONG_MS + 500) if isinstance(e, fx.AnswerFetch)]
    assert len(late) == 1


def test_the_first_successor_stands_at_once() -> None:
    quorum = member()
    quorum.receive(BeginEpoch(2, 1, 1), 0)
    asks = sent(quorum.receive(EndEpoch(2, 1, 1, (1, 3)), 10))
    assert isinstance(quorum.role, Prospective)
    assert [type(ask) for ask in asks] == [VoteRequest, VoteRequest]
    later = member()
    later.receive(BeginEpoch(2, 1, 1), 0)
    later.receive(EndEpoch(2, 1, 1, (3, 1)), 10)
    assert isinstance(later.role, Unattached) and later.role.election_deadline_ms <= 10 + 250


def test_a_quorum_of_one_needs_no_timer() -> None:
    quorum = Quorum(QuorumSetup(node_id=1, voters=frozenset((1,))), ElectionState(), LogShape(), Random(1))
    effects = quorum.start(0)
    assert quorum.is_leader and quorum.epoch == 1
    assert [e for e in effects if isinstance(e, fx.AppendLeaderChange)] == [fx.AppendLeaderChange(1, 0, (1,))]
    assert quorum.next_deadline_ms() is None
