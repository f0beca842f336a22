"""What the machine wants done. The driver does it in order; `Persist` is on disk before the next effect begins."""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.quorum.messages import Batch, FetchResponse, Message, SnapshotId, SnapshotResponse


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a crash, or a node could vote twice in an epoch."""

    epoch: int = 0
    voted_for: int | None = None
    leader_id: int | None = None


@dataclass(frozen=True, slots=True)
class Persist:
    state: ElectionState


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class AnswerFetch:
    """Send `response` with the batches that begin at its fetch offset."""

    response: FetchResponse


@dataclass(frozen=True, slots=True)
class AnswerSnapshot:
    """Send `response` with the bytes of the snapshot at its position."""

    response: SnapshotResponse


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """The first batch of an epoch, at `base_offset`: it commits what earlier leaders left behind."""

    epoch: int
    base_offset: int
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """Write batches of the leader as they are, and say `on_flushed` when they are on disk."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    end_offset: int


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """A piece of a snapshot arrived, to be kept at `position`."""

    snapshot: SnapshotId
    position: int
    data: object


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """The snapshot is whole: it takes the place of the log, which goes on at its end."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Committed:
    """The high watermark: everything below it stands for ever."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    leader_id: int | None
    epoch: int


Effect: TypeAlias = (
    Persist
    | Send
    | AnswerFetch
    | AnswerSnapshot
    | AppendLeaderChange
    | Append
    | Truncate
    | StoreSnapshot
    | LoadSnapshot
    | Committed
    | LeaderChanged
)
