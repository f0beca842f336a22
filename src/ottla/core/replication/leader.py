"""What the leader of a partition knows of its replicas: who is in sync, and what is committed.

Committed is what every in-sync replica holds. The in-sync set that counts is the larger one while a change is on its
way to the controller: the set the controller knows, and the replicas that are about to join it (KIP-497). While fewer
replicas are in sync than `min.insync.replicas` asks for, the high watermark stands still (KIP-966).
"""

from collections.abc import Collection
from dataclasses import dataclass

from ottla.base.types import BrokerId, Epoch, Offset

REPLICA_LAG_MS_MAX = 30_000


class _Follower:
    __slots__ = ("caught_up_ms", "end", "fetched_ms", "leader_end_at_fetch")

    def __init__(self, now_ms: int) -> None:
        self.end = Offset(-1)
        self.caught_up_ms = now_ms
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = Offset(-1)


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the controller says about this leader's term."""

    me: BrokerId
    epoch: Epoch
    replicas: tuple[BrokerId, ...]
    isr: frozenset[BrokerId]
    min_isr: int
    partition_epoch: int = 0


class Leader:
    __slots__ = (
        "_followers",
        "_joining",
        "_lag_ms_max",
        "end",
        "epoch_start",
        "has_enough_in_sync",
        "high_watermark",
        "term",
    )

    def __init__(
        self, term: Leadership, end: Offset, high_watermark: Offset, now_ms: int, lag_ms_max: int = REPLICA_LAG_MS_MAX
    ) -> None:
        assert term.me in term.isr
        assert high_watermark <= end
        self._take(term)
        self.end = end
        self.epoch_start = end
        self.high_watermark = high_watermark
        self._lag_ms_max = lag_ms_max
        self._joining: frozenset[BrokerId] = frozenset()
        self._followers = {replica: _Follower(now_ms) for replica in term.replicas if replica != term.me}
        self._advance()

    def _take(self, term: Leadership) -> None:
        self.term = term
        # Whether acks=all may be promised: more replicas than exist are never asked for. Every append looks at it.
        self.has_enough_in_sync = len(term.isr) >= min(term.min_isr, len(term.replicas))

    def on_append(self, end: Offset) -> bool:
        """The leader's own log reaches to `end`; True when that commits something."""
        assert end >= self.end
        self.end = end
        return self._advance()

    def on_follower_fetch(self, replica: BrokerId, offset: Offset, now_ms: int) -> bool:
        """A fetch at `offset` proves that the follower holds everything below it."""
        follower = self._followers[replica]
        if offset >= self.end:
            follower.caught_up_ms = now_ms
        elif offset >= follower.leader_end_at_fetch >= 0:
            # It has what the leader had when it last asked, so it was caught up at that moment.
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.end = offset
        follower.fetched_ms = now_ms
        follower.leader_end_at_fetch = self.end
        return self._advance()

    def wanted_isr(self, now_ms: int) -> frozenset[BrokerId] | None:
        """The in-sync set to propose to the controller, or None when it should stay as it is."""
        wanted = {self.term.me}
        for replica, follower in self._followers.items():
            if replica in self.term.isr:
                if not self._is_lagging(follower, now_ms):
                    wanted.add(replica)
            elif follower.end >= self.high_watermark and follower.end >= self.epoch_start:
                wanted.add(replica)
        return None if wanted == self.term.isr else frozenset(wanted)

    def on_isr_proposed(self, isr: Collection[BrokerId]) -> None:
        """Those who join count at once: the controller may already have let them in."""
        self._joining = frozenset(isr) - self.term.isr

    def on_term(self, term: Leadership) -> bool:
        """The controller has spoken: a new in-sync set, or the answer to a proposal."""
        assert term.epoch == self.term.epoch
        self._take(term)
        self._joining = frozenset()
        return self._advance()

    def _is_lagging(self, follower: _Follower, now_ms: int) -> bool:
        return follower.end != self.end and now_ms - follower.caught_up_ms > self._lag_ms_max

    def _advance(self) -> bool:
        """Move the high watermark to what every replica that counts holds; it never moves back."""
        if not self._followers:
            committed = self.end
        else:
            if not self.has_enough_in_sync:
                return False
            counted = (self.term.isr | self._joining) - {self.term.me}
            committed = min([self.end, *(self._followers[replica].end for replica in counted)])
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True
