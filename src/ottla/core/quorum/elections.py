"""Votes: who may have one, and what an answer to a question for one means."""

from ottla.core.quorum.effects import Send
from ottla.core.quorum.member import Member
from ottla.core.quorum.messages import BeginEpoch, EndEpoch, VoteRequest, VoteResponse
from ottla.core.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached


def on_vote_request(member: Member, ask: VoteRequest, now_ms: int) -> None:
    if not member.setup.is_voter or ask.source not in member.setup.voters:
        return
    is_granted = ask.epoch == member.epoch and _may_vote(member, ask)
    if is_granted and not ask.is_pre_vote and member.voted_for is None:
        member.vote_for(ask.source, now_ms)
    answer = VoteResponse(member.me, ask.source, member.epoch, member.leader_id, is_granted, ask.is_pre_vote)
    member.effects.append(Send(answer))


def _may_vote(member: Member, ask: VoteRequest) -> bool:
    """Only for a log that lacks nothing this one has: what is committed is on a majority, so it stays."""
    if (ask.last_epoch, ask.end_offset) < (member.log.last_epoch, member.log.end_offset):
        return False
    role = member.role
    if ask.is_pre_vote:
        # Who hears its leader would only disturb it (KIP-996).
        return not isinstance(role, Leader) and not (isinstance(role, Follower) and role.has_fetched)
    if member.voted_for is not None:
        return member.voted_for == ask.source
    former = role.former_leader_id if isinstance(role, Prospective) else None
    return isinstance(role, Unattached | Prospective) and former is None


def on_vote_response(member: Member, answer: VoteResponse, now_ms: int) -> None:
    role = member.role
    if answer.epoch != member.epoch or answer.source not in member.setup.voters:
        return
    leader = None if answer.is_granted or answer.leader_id == member.me else answer.leader_id
    if leader is not None and not isinstance(role, Follower | Leader):
        member.become_follower(leader, answer.epoch, now_ms)
        return
    expected = Prospective if answer.is_pre_vote else Candidate
    if not isinstance(role, Prospective | Candidate) or not isinstance(role, expected):
        return
    (role.granted if answer.is_granted else role.rejected).add(answer.source)
    member.count_votes(now_ms)


def on_begin_epoch(member: Member, news: BeginEpoch, now_ms: int) -> None:
    if news.epoch == member.epoch and not isinstance(member.role, Follower | Leader):
        assert not isinstance(member.role, Resigned), "a leader has no successor in its own epoch"
        member.become_follower(news.source, news.epoch, now_ms)


def on_end_epoch(member: Member, news: EndEpoch, now_ms: int) -> None:
    """The first successor stands at once, the others in their order, so that they do not stand against each other."""
    if news.epoch != member.epoch or not member.setup.is_voter or isinstance(member.role, Leader | Candidate):
        return
    if isinstance(member.role, Follower) and member.role.leader_id != news.source:
        return
    place = news.successors.index(member.me) if member.me in news.successors else len(news.successors)
    member.become_unattached(member.epoch, now_ms)
    assert isinstance(member.role, Unattached)
    if place == 0:
        member.become_prospective(now_ms)
    else:
        step_ms = member.setup.election_timeout_ms // 4
        member.role.election_deadline_ms = min(member.role.election_deadline_ms, now_ms + place * step_ms)
