"""What the members of the quorum say to each other; a driver translates to Vote, Fetch, … of the wire.

Every message names its sender's epoch. They may be lost, repeated and overtaken: an answer names what it answers.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `end_offset`; `epoch` is that of the last record it holds."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of the log, whole batches of one epoch; the machine never looks at `data`."""

    base_offset: int
    end_offset: int
    epoch: int
    data: object = None


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """`is_pre_vote` asks whether an election could be won, and binds nobody (KIP-996)."""

    source: int
    target: int
    epoch: int
    last_epoch: int
    end_offset: int
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    source: int
    target: int
    epoch: int
    leader_id: int | None
    is_granted: bool
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """The new leader makes itself known."""

    source: int
    target: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """The leader steps down; the successors that hold most come first."""

    source: int
    target: int
    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Proves that the sender holds, on disk, everything below `fetch_offset`."""

    source: int
    target: int
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Data, or why there are none: logs that part (`diverging`: epoch and its end), or a log that begins later."""

    source: int
    target: int
    epoch: int
    leader_id: int | None
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    source: int
    target: int
    epoch: int
    snapshot: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class SnapshotResponse:
    """`size` -1: the leader has this snapshot no longer."""

    source: int
    target: int
    epoch: int
    leader_id: int | None
    snapshot: SnapshotId
    position: int
    size: int
    data: object = None
    data_bytes: int = 0


Message: TypeAlias = (
    VoteRequest
    | VoteResponse
    | BeginEpoch
    | EndEpoch
    | FetchRequest
    | FetchResponse
    | SnapshotRequest
    | SnapshotResponse
)
