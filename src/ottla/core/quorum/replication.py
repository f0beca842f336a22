"""How the log gets from the leader to the others: they fetch, and each fetch says what they hold."""

from collections.abc import Mapping

from ottla.core.quorum.effects import (
    AnswerFetch,
    AnswerSnapshot,
    Append,
    LoadSnapshot,
    Send,
    StoreSnapshot,
    Truncate,
)
from ottla.core.quorum.member import Member
from ottla.core.quorum.messages import (
    FetchRequest,
    FetchResponse,
    SnapshotId,
    SnapshotRequest,
    SnapshotResponse,
)
from ottla.core.quorum.roles import Follower, Leader, Peer, Unattached

OBSERVERS_MAX = 1_000


def advance_high_watermark(member: Member) -> None:
    """What a majority has on disk is committed, if an entry of this very epoch is among it (Raft, figure 8)."""
    role = member.role
    assert isinstance(role, Leader)
    ends = sorted([member.log.flushed_end, *(peer.end_offset for peer in role.peers.values())], reverse=True)
    held = ends[member.setup.majority - 1]
    if held > role.epoch_start and held > member.high_watermark:
        member.commit(held)
        answer_parked(member, role)


def answer_parked(member: Member, role: Leader) -> None:
    """New data, or a new high watermark: whoever waits for it gets it now."""
    for peers in (role.peers, role.observers):
        for peer in peers.values():
            ask, peer.parked = peer.parked, None
            if ask is not None:
                member.effects.append(AnswerFetch(_response(member, ask)))


def answer_expired(member: Member, role: Leader, now_ms: int) -> None:
    for peers in (role.peers, role.observers):
        for peer in peers.values():
            if peer.parked is not None and now_ms >= peer.parked_until_ms:
                ask, peer.parked = peer.parked, None
                member.effects.append(AnswerFetch(_response(member, ask)))


def _response(member: Member, ask: FetchRequest) -> FetchResponse:
    # The high watermark is only for a log that is known to be a beginning of the leader's.
    is_answer = member.leader_id == member.me and ask.epoch == member.epoch
    return FetchResponse(
        member.me,
        ask.source,
        member.epoch,
        member.leader_id,
        ask.fetch_offset,
        ask.last_fetched_epoch,
        high_watermark=member.high_watermark if is_answer else -1,
    )


def on_fetch_request(member: Member, ask: FetchRequest, now_ms: int) -> None:
    role = member.role
    response = _response(member, ask)
    if not isinstance(role, Leader) or ask.epoch != member.epoch:
        member.effects.append(Send(response))  # it says who leads, as far as known here
        return
    log = member.log
    if ask.fetch_offset < log.start.end_offset or (
        ask.fetch_offset == log.start.end_offset and ask.last_fetched_epoch != log.start.epoch
    ):
        member.effects.append(Send(_with(response, snapshot=log.start)))
        return
    if not log.holds(ask.last_fetched_epoch, ask.fetch_offset):
        member.effects.append(Send(_with(response, diverging=log.end_of(ask.last_fetched_epoch))))
        return
    peer = _peer(role, ask.source, member.setup.is_voter and ask.source in member.setup.voters)
    is_news = ask.fetch_offset > peer.end_offset
    peer.end_offset = max(peer.end_offset, ask.fetch_offset)
    peer.fetched_ms = now_ms
    if ask.fetch_offset >= log.end_offset:
        peer.caught_up_ms = now_ms
        peer.parked, peer.parked_until_ms = ask, now_ms + member.setup.fetch_wait_ms_max
    else:
        peer.parked = None
        member.effects.append(AnswerFetch(response))
    if is_news:
        advance_high_watermark(member)


def _with(
    response: FetchResponse, diverging: tuple[int, int] | None = None, snapshot: SnapshotId | None = None
) -> FetchResponse:
    return FetchResponse(
        response.source,
        response.target,
        response.epoch,
        response.leader_id,
        response.fetch_offset,
        response.last_fetched_epoch,
        response.high_watermark,
        diverging,
        snapshot,
    )


def _peer(role: Leader, source: int, is_voter: bool) -> Peer:
    if is_voter:
        return role.peers[source]
    if source not in role.observers and len(role.observers) >= OBSERVERS_MAX:
        oldest = min(role.observers, key=lambda observer: role.observers[observer].fetched_ms)
        del role.observers[oldest]
    return role.observers.setdefault(source, Peer())


def fetch(member: Member, role: Follower, now_ms: int) -> None:
    """The next request to the leader. Only what is on disk counts as held."""
    if member.log.flushed_end < member.log.end_offset:
        role.is_fetching = False
        role.retry_deadline_ms = now_ms + member.setup.request_timeout_ms
        return
    role.is_fetching = True
    role.retry_deadline_ms = now_ms + member.setup.request_timeout_ms
    if role.snapshot is not None:
        ask = SnapshotRequest(member.me, role.leader_id, member.epoch, role.snapshot, role.snapshot_position)
        member.effects.append(Send(ask))
    else:
        member.effects.append(Send(_fetch_request(member, role.leader_id)))


def ask_around(member: Member, role: Unattached, now_ms: int) -> None:
    """Any member's answer to a fetch names the leader, if it knows one."""
    role.ask_deadline_ms = now_ms + member.setup.request_timeout_ms
    if member.setup.others:
        member.effects.append(Send(_fetch_request(member, member.random.choice(member.setup.others))))


def _fetch_request(member: Member, target: int) -> FetchRequest:
    return FetchRequest(member.me, target, member.epoch, member.log.end_offset, member.log.last_epoch)


def on_fetch_response(member: Member, answer: FetchResponse, now_ms: int) -> None:
    role = member.role
    if answer.epoch != member.epoch:
        return
    if isinstance(role, Unattached):
        if answer.leader_id is not None and answer.leader_id != member.me:
            member.become_follower(answer.leader_id, answer.epoch, now_ms)
        return
    if not isinstance(role, Follower) or answer.source != role.leader_id:
        return
    if answer.leader_id is None:  # it led this epoch, and does so no more
        member.become_unattached(member.epoch, now_ms)
    if answer.leader_id != role.leader_id:
        return
    log = member.log
    if (answer.fetch_offset, answer.last_fetched_epoch) != (
        log.end_offset,
        log.last_epoch,
    ) or role.snapshot is not None:
        return  # an answer to a question of before
    _heard(member, role, now_ms)
    if answer.snapshot is not None:
        role.snapshot, role.snapshot_position = answer.snapshot, 0
    elif answer.diverging is not None:
        _truncate(member, answer.diverging)
    else:
        for batch in answer.batches:
            assert batch.base_offset == log.end_offset
            log.append(batch.epoch, batch.end_offset - batch.base_offset)
        if answer.batches:
            member.effects.append(Append(answer.batches))
        member.commit(min(answer.high_watermark, log.end_offset))
    fetch(member, role, now_ms)


def _heard(member: Member, role: Follower, now_ms: int) -> None:
    role.has_fetched = True
    role.is_fetching = False
    jitter_ms = member.random.randrange(member.setup.election_timeout_ms)
    role.fetch_deadline_ms = now_ms + member.setup.fetch_timeout_ms + jitter_ms


def _truncate(member: Member, diverging: tuple[int, int]) -> None:
    """Back to where the two logs may still agree; the next fetch tells whether they do."""
    epoch, leader_end = diverging
    own_end = member.log.end_of(epoch)[1]
    target = max(min(leader_end, own_end), member.log.start.end_offset)
    assert target >= member.high_watermark, "what is committed is on the leader"
    if target < member.log.end_offset:
        member.log.truncate(target)
        member.effects.append(Truncate(target))


def on_snapshot_request(member: Member, ask: SnapshotRequest, now_ms: int) -> None:
    is_known = isinstance(member.role, Leader) and ask.epoch == member.epoch and ask.snapshot == member.log.start
    if isinstance(member.role, Leader) and ask.source in member.role.peers and ask.epoch == member.epoch:
        member.role.peers[ask.source].fetched_ms = now_ms
    answer = SnapshotResponse(
        member.me, ask.source, member.epoch, member.leader_id, ask.snapshot, ask.position, 0 if is_known else -1
    )
    member.effects.append(AnswerSnapshot(answer) if is_known else Send(answer))


def on_snapshot_response(member: Member, answer: SnapshotResponse, now_ms: int) -> None:
    role = member.role
    if answer.epoch != member.epoch or not isinstance(role, Follower) or answer.source != role.leader_id:
        return
    if (answer.snapshot, answer.position) != (role.snapshot, role.snapshot_position):
        return
    _heard(member, role, now_ms)
    if answer.size < 0:
        role.snapshot = None  # the leader has a later one by now: the next fetch names it
    else:
        member.effects.append(StoreSnapshot(answer.snapshot, answer.position, answer.data))
        role.snapshot_position += answer.data_bytes
        if role.snapshot_position >= answer.size:
            role.snapshot = None
            member.log.restart_at(answer.snapshot)
            member.effects.append(LoadSnapshot(answer.snapshot))
            member.commit(answer.snapshot.end_offset)
    fetch(member, role, now_ms)


def replica_ends(member: Member, role: Leader) -> Mapping[int, Peer]:
    """Every member the leader knows, itself among them."""
    own = Peer(end_offset=member.log.end_offset)
    return {member.me: own, **role.peers, **role.observers}
