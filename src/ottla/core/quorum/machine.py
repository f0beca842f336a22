"""`Quorum`: KRaft's Raft (KIP-595, 853, 996) without clock, thread, socket or file.

Tell it what happened (`receive`, `on_time`, `on_flushed`, …), do the effects it returns in order, and come back at
`next_deadline_ms()`. A quorum of one elects itself by the very path that three or five members take.
"""

from random import Random

from ottla.core.quorum import elections, replication
from ottla.core.quorum.effects import Effect, ElectionState
from ottla.core.quorum.log_shape import LogShape
from ottla.core.quorum.member import Member, QuorumSetup
from ottla.core.quorum.messages import (
    BeginEpoch,
    EndEpoch,
    FetchRequest,
    FetchResponse,
    Message,
    SnapshotId,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from ottla.core.quorum.roles import Candidate, Follower, Leader, Peer, Prospective, Resigned, Role, Unattached


class Quorum:
    def __init__(self, setup: QuorumSetup, stored: ElectionState, log: LogShape, random: Random) -> None:
        self._member = Member(setup, log, random, stored.epoch, stored.voted_for, log.start.end_offset)
        self._stored_leader = stored.leader_id

    @property
    def role(self) -> Role:
        return self._member.role

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def leader_id(self) -> int | None:
        return self._member.leader_id

    @property
    def voted_for(self) -> int | None:
        return self._member.voted_for

    @property
    def high_watermark(self) -> int:
        return self._member.high_watermark

    @property
    def log(self) -> LogShape:
        return self._member.log

    @property
    def is_leader(self) -> bool:
        return isinstance(self._member.role, Leader)

    @property
    def epoch_start(self) -> int | None:
        """Where the leader's own epoch begins: once that is committed, so is all that came before."""
        return self._member.role.epoch_start if isinstance(self._member.role, Leader) else None

    @property
    def replicas(self) -> dict[int, Peer]:
        role = self._member.role
        return dict(replication.replica_ends(self._member, role)) if isinstance(role, Leader) else {}

    def start(self, now_ms: int) -> list[Effect]:
        member = self._member
        assert member.epoch >= member.log.last_epoch, "the epoch is persisted before anything is written in it"
        if self._stored_leader is not None and self._stored_leader != member.me:
            member.become_follower(self._stored_leader, member.epoch, now_ms)
        elif self._stored_leader is not None:
            member.role = Resigned(member.election_deadline_ms(now_ms))
        else:
            member.become_unattached(member.epoch, now_ms)
        if member.setup.voters == {member.me}:
            member.become_prospective(now_ms)  # nobody to wait for
        return self._taken()

    def receive(self, message: Message, now_ms: int) -> list[Effect]:
        member = self._member
        assert message.target == member.me
        if message.epoch > member.epoch:
            self._enter_epoch(message, now_ms)
        match message:
            case VoteRequest():
                elections.on_vote_request(member, message, now_ms)
            case VoteResponse():
                elections.on_vote_response(member, message, now_ms)
            case BeginEpoch():
                elections.on_begin_epoch(member, message, now_ms)
            case EndEpoch():
                elections.on_end_epoch(member, message, now_ms)
            case FetchRequest():
                replication.on_fetch_request(member, message, now_ms)
            case FetchResponse():
                replication.on_fetch_response(member, message, now_ms)
            case SnapshotRequest():
                replication.on_snapshot_request(member, message, now_ms)
            case SnapshotResponse():
                replication.on_snapshot_response(member, message, now_ms)
        return self._taken()

    def _enter_epoch(self, message: Message, now_ms: int) -> None:
        """A later epoch counts for more than anything known in this one."""
        leader = message.source if isinstance(message, BeginEpoch) else getattr(message, "leader_id", None)
        if leader is not None and leader != self._member.me:
            self._member.become_follower(leader, message.epoch, now_ms)
        else:
            self._member.become_unattached(message.epoch, now_ms)

    def next_deadline_ms(self) -> int | None:
        """None: only an event from outside can change anything."""
        match self._member.role:
            case Unattached() as role:
                asks = role.ask_deadline_ms
                return min(role.election_deadline_ms, asks) if self._member.setup.is_voter else asks
            case Follower() as role:
                return min(role.fetch_deadline_ms, role.retry_deadline_ms)
            case Leader() as role:
                peers = [*role.peers.values(), *role.observers.values()]
                waits = [peer.parked_until_ms for peer in peers if peer.parked is not None]
                if role.peers:
                    waits += (role.check_deadline_ms, role.announce_deadline_ms)
                return min(waits, default=None)
            case Prospective() | Candidate() | Resigned() as role:
                return role.election_deadline_ms

    def on_time(self, now_ms: int) -> list[Effect]:
        member = self._member
        match member.role:
            case Unattached() as role:
                if member.setup.is_voter and now_ms >= role.election_deadline_ms:
                    member.become_prospective(now_ms)
                elif now_ms >= role.ask_deadline_ms:
                    replication.ask_around(member, role, now_ms)
            case Follower() as role:
                self._follower_on_time(role, now_ms)
            case Prospective() as role:
                if now_ms >= role.election_deadline_ms:
                    member.leave_prospective(role, now_ms)
            case Candidate() | Resigned() as role:
                if now_ms >= role.election_deadline_ms:
                    member.become_prospective(now_ms)
            case Leader() as role:
                self._leader_on_time(role, now_ms)
        return self._taken()

    def _follower_on_time(self, role: Follower, now_ms: int) -> None:
        member = self._member
        if now_ms >= role.fetch_deadline_ms:
            if member.setup.is_voter:
                member.become_prospective(now_ms)
            else:
                member.become_unattached(member.epoch, now_ms)
        elif now_ms >= role.retry_deadline_ms:
            replication.fetch(member, role, now_ms)

    def _leader_on_time(self, role: Leader, now_ms: int) -> None:
        member = self._member
        replication.answer_expired(member, role, now_ms)
        if now_ms >= role.announce_deadline_ms:
            member.announce(role, now_ms)
        if now_ms >= role.check_deadline_ms:
            patience_ms = member.setup.fetch_timeout_ms * 3 // 2
            role.check_deadline_ms = now_ms + patience_ms // 3
            alive = 1 + sum(peer.fetched_ms > now_ms - patience_ms for peer in role.peers.values())
            if alive < member.setup.majority:
                member.resign(now_ms)

    def append(self, count: int) -> int:
        """The leader takes `count` records into its log; returns their base offset. Their data are the driver's."""
        assert self.is_leader
        return self._member.log.append(self._member.epoch, count)

    def on_appended(self) -> list[Effect]:
        """The data of an `append` can be read: whoever waits for them is answered."""
        role = self._member.role
        if isinstance(role, Leader):
            replication.answer_parked(self._member, role)
        return self._taken()

    def on_flushed(self, end_offset: int, generation: int, now_ms: int) -> list[Effect]:
        """Everything below `end_offset` is on disk, by an fsync that began at this `generation` of the log."""
        member = self._member
        if generation == member.log.generation and end_offset > member.log.flushed_end:
            member.log.flushed_end = min(end_offset, member.log.end_offset)
            if isinstance(member.role, Leader):
                replication.advance_high_watermark(member)
            elif isinstance(member.role, Follower) and not member.role.is_fetching:
                replication.fetch(member, member.role, now_ms)
        return self._taken()

    def on_snapshot_kept(self, snapshot: SnapshotId) -> list[Effect]:
        """The log now begins at this snapshot of committed state; what lies below it may be deleted."""
        assert snapshot.end_offset <= self._member.high_watermark
        if snapshot.end_offset > self._member.log.start.end_offset:
            self._member.log.begin_at(snapshot)
        return self._taken()

    def resign(self, now_ms: int) -> list[Effect]:
        if self.is_leader:
            self._member.resign(now_ms)
        return self._taken()

    def _taken(self) -> list[Effect]:
        effects, self._member.effects = self._member.effects, []
        return effects
