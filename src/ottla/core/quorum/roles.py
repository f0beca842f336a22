"""What a member of the quorum is at the moment; each role has only the state that it needs.

An observer is a member without a vote: it is only ever unattached or a follower.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.core.quorum.messages import FetchRequest, SnapshotId


@dataclass(slots=True)
class Unattached:
    """Knows no leader of this epoch; asks around for one, and stands for election when its patience ends."""

    election_deadline_ms: int
    ask_deadline_ms: int


@dataclass(slots=True)
class Follower:
    leader_id: int
    fetch_deadline_ms: int
    """Without word from the leader until then, it is taken for lost."""
    retry_deadline_ms: int
    """The request under way is taken for lost, or the pause between two is over."""
    is_fetching: bool = False
    has_fetched: bool = False
    snapshot: SnapshotId | None = None
    snapshot_position: int = 0


@dataclass(slots=True)
class Prospective:
    """Asks whether an election could be won before it disturbs a leader with one."""

    election_deadline_ms: int
    former_leader_id: int | None
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Candidate:
    election_deadline_ms: int
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Peer:
    """What the leader knows of another member: everything below `end_offset` is on its disk."""

    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    parked: FetchRequest | None = None
    parked_until_ms: int = 0


@dataclass(slots=True)
class Leader:
    epoch_start: int
    check_deadline_ms: int
    """A leader that a majority no longer fetches from steps down."""
    announce_deadline_ms: int
    peers: dict[int, Peer] = field(default_factory=dict)
    observers: dict[int, Peer] = field(default_factory=dict)


@dataclass(slots=True)
class Resigned:
    """Led this epoch, and leads no more; votes for nobody in it."""

    election_deadline_ms: int


Role: TypeAlias = Unattached | Follower | Prospective | Candidate | Leader | Resigned
