"""One member of the quorum: its epoch, its vote, its role, and the ways from one role to the next.

    unattached ─► prospective ─► candidate ─► leader ─► resigned
         ▲            │              │           │          │
         └── follower ◄──────────────┴───────────┴──────────┘      any higher epoch leads to unattached or follower

Epoch and vote are persisted before anyone is told of them. What to do outside is collected in `effects`.
"""

from dataclasses import dataclass, field
from random import Random

from ottla.core.quorum.effects import (
    AppendLeaderChange,
    Committed,
    Effect,
    ElectionState,
    LeaderChanged,
    Persist,
    Send,
)
from ottla.core.quorum.log_shape import LogShape
from ottla.core.quorum.messages import BeginEpoch, EndEpoch, VoteRequest
from ottla.core.quorum.roles import Candidate, Follower, Leader, Peer, Prospective, Resigned, Role, Unattached


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSetup:
    node_id: int
    voters: frozenset[int]
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 1_000
    fetch_wait_ms_max: int = 500
    retry_backoff_ms: int = 20

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.voters

    @property
    def others(self) -> list[int]:
        """The other voters, in a fixed order: a simulation must not depend on how a set iterates."""
        return sorted(self.voters - {self.node_id})


@dataclass(slots=True)
class Member:
    setup: QuorumSetup
    log: LogShape
    random: Random
    epoch: int = 0
    voted_for: int | None = None
    high_watermark: int = 0
    role: Role = field(default_factory=lambda: Unattached(0, 0))
    effects: list[Effect] = field(default_factory=list)

    @property
    def me(self) -> int:
        return self.setup.node_id

    @property
    def leader_id(self) -> int | None:
        if isinstance(self.role, Leader):
            return self.me
        return self.role.leader_id if isinstance(self.role, Follower) else None

    def send(self, message: VoteRequest | BeginEpoch | EndEpoch) -> None:
        self.effects.append(Send(message))

    def election_deadline_ms(self, now_ms: int) -> int:
        """Between one and two timeouts from now: two members seldom stand at once."""
        return now_ms + self.setup.election_timeout_ms + self.random.randrange(self.setup.election_timeout_ms)

    def _settle(self, role: Role, epoch: int, voted_for: int | None) -> None:
        """Take up a role; what must survive a crash goes to disk first, observers learn of a new leader last."""
        before = ElectionState(self.epoch, self.voted_for, self.leader_id)
        self.role, self.epoch, self.voted_for = role, epoch, voted_for
        now = ElectionState(epoch, voted_for, self.leader_id)
        if now != before:
            self.effects.append(Persist(now))
        if (now.leader_id, now.epoch) != (before.leader_id, before.epoch):
            self.effects.append(LeaderChanged(now.leader_id, now.epoch))

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        assert epoch >= self.epoch, "epochs only grow"
        voted_for = self.voted_for if epoch == self.epoch else None
        ask_ms = now_ms + self.random.randrange(self.setup.retry_backoff_ms + 1)
        self._settle(Unattached(self.election_deadline_ms(now_ms), ask_ms), epoch, voted_for)

    def vote_for(self, candidate: int, now_ms: int) -> None:
        """Having voted, wait for the outcome before standing for election oneself."""
        ask_ms = now_ms + self.setup.request_timeout_ms
        self._settle(Unattached(self.election_deadline_ms(now_ms), ask_ms), self.epoch, candidate)

    def become_follower(self, leader_id: int, epoch: int, now_ms: int) -> None:
        assert epoch >= self.epoch and leader_id != self.me
        voted_for = self.voted_for if epoch == self.epoch else None
        fetch_deadline_ms = now_ms + self.setup.fetch_timeout_ms + self.random.randrange(self.setup.election_timeout_ms)
        self._settle(Follower(leader_id, fetch_deadline_ms, now_ms), epoch, voted_for)

    def become_prospective(self, now_ms: int) -> None:
        assert self.setup.is_voter, "an observer never stands for election"
        role = Prospective(self.election_deadline_ms(now_ms), self.leader_id, granted={self.me})
        self._settle(role, self.epoch, self.voted_for)
        self._ask_for_votes(is_pre_vote=True)
        self.count_votes(now_ms)

    def become_candidate(self, now_ms: int) -> None:
        role = Candidate(self.election_deadline_ms(now_ms), granted={self.me})
        self._settle(role, self.epoch + 1, self.me)
        self._ask_for_votes(is_pre_vote=False)
        self.count_votes(now_ms)

    def _ask_for_votes(self, is_pre_vote: bool) -> None:
        for voter in self.setup.others:
            last_epoch, end = self.log.last_epoch, self.log.end_offset
            self.send(VoteRequest(self.me, voter, self.epoch, last_epoch, end, is_pre_vote))

    def count_votes(self, now_ms: int) -> None:
        """A majority for or against moves on; a lone voter is its own majority."""
        role = self.role
        assert isinstance(role, Prospective | Candidate)
        if len(role.granted) >= self.setup.majority:
            if isinstance(role, Prospective):
                self.become_candidate(now_ms)
            else:
                self._become_leader(role, now_ms)
        elif len(role.rejected) >= self.setup.majority and isinstance(role, Prospective):
            self.leave_prospective(role, now_ms)

    def leave_prospective(self, role: Prospective, now_ms: int) -> None:
        if role.former_leader_id is not None:
            self.become_follower(role.former_leader_id, self.epoch, now_ms)
        else:
            self.become_unattached(self.epoch, now_ms)

    def _become_leader(self, won: Candidate, now_ms: int) -> None:
        role = Leader(
            epoch_start=self.log.end_offset,
            check_deadline_ms=now_ms + self.setup.fetch_timeout_ms * 3 // 2,
            announce_deadline_ms=now_ms + self.setup.request_timeout_ms,
            peers={voter: Peer() for voter in self.setup.others},
        )
        self._settle(role, self.epoch, self.voted_for)
        base = self.log.append(self.epoch, 1)
        self.effects.append(AppendLeaderChange(self.epoch, base, tuple(sorted(won.granted))))
        self.announce(role, now_ms)

    def announce(self, role: Leader, now_ms: int) -> None:
        role.announce_deadline_ms = now_ms + self.setup.request_timeout_ms
        for voter, peer in role.peers.items():
            if peer.fetched_ms < 0:
                self.send(BeginEpoch(self.me, voter, self.epoch))

    def resign(self, now_ms: int) -> None:
        """Tell the others who should succeed: those that hold most need to catch up least."""
        role = self.role
        assert isinstance(role, Leader)
        order = sorted(role.peers, key=lambda voter: (-role.peers[voter].end_offset, voter))
        self._settle(Resigned(self.election_deadline_ms(now_ms)), self.epoch, self.voted_for)
        for voter in order:
            self.send(EndEpoch(self.me, voter, self.epoch, tuple(order)))

    def commit(self, offset: int) -> None:
        """The high watermark never moves back."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.effects.append(Committed(offset))
