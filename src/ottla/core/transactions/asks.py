"""What can be asked of a transaction coordinator, and what it answers: plain values.

A question that is refused as a whole raises `Refused`. A reply carries `error` only where a refusal comes with records
of its own, or comes later than the call, as the effect `Reply`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode
from ottla.core.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    GroupOffset,
    Member,
    Pin,
    Record,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a question comes to.

    The caller appends `records` as one batch, applies each of them at once, and hands out `reply` and `effects` when
    they are committed. If they cannot be appended, nothing is applied, and of the effects only those with an error
    are handed out.
    """

    records: tuple[Record, ...] = ()
    reply: object = None
    effects: "tuple[Effect, ...]" = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer comes later, as a `Reply` with this ticket; a ticket the caller no longer knows may be ignored."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """A reply, and nothing has been decided: ask again with a `new_producer_id`."""


# Effects


@dataclass(frozen=True, slots=True)
class Reply:
    ticket: int
    reply: "AddPartitionsReply | GroupCommitReply"


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the end of a transaction into its partitions, however often it takes, and report to `on_markers`.

    `marker_id` tells apart the ends of transactions that have the same epoch, as they do in the classic protocol.
    """

    marker_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(frozen=True, slots=True)
class PinMember:
    """Ask `pin` of the member's coordinator and report to `on_pinned` here."""

    transactional_id: str
    pin: Pin


@dataclass(frozen=True, slots=True)
class EndMember:
    """Ask `end_pinned` of the member's coordinator; what was committed is reported to `on_group_done` here."""

    transactional_id: str
    pin: Pin
    committed: bool


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit the group's source offsets, then report to `on_group_done`.

    It may come twice, and late: each offset is written with `group_commit.offset_metadata`, and passed over where
    `is_outdated` says so of the metadata that stands there.
    """

    sink: str
    query: str
    batch: int
    offsets: tuple[GroupOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPinned:
    """What an EndMember or an AskVerdict asks of the member's coordinator."""

    transactional_id: str
    pin: Pin
    committed: bool
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class AskVerdict:
    """Ask `verdict` of the coordinator of (sink, query), and tell `end_pinned` here what it says."""

    transactional_id: str
    pin: Pin


Effect = Reply | WriteMarkers | PinMember | EndMember | CommitOffsets | AskVerdict

# Producers


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """`producer_id` and `producer_epoch` are what the producer believes to be (KIP-360), or -1."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    enable_two_phase_commit: bool = False
    keep_prepared: bool = False
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    """CONCURRENT_TRANSACTIONS here means that an open transaction is being aborted: ask again."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn, and what a broker adds by itself on Produce v12 and TxnOffsetCommit v5 (`is_implicit`).

    `transaction_version` is 2 from AddPartitionsToTxn v4 on, 0 before.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0
    is_implicit: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitionsReply:
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class VerifyPartitionsReply:
    errors: tuple[ErrorCode, ...]
    """One per partition of the question, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """EndTxn; `transaction_version` is 2 from version 5 on, 0 before."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 0
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class EndTransactionReply:
    """Who the producer is from now on; -1 in the classic protocol."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Markers that stand in their partitions, or whose partitions exist no more."""

    marker_id: int
    transactional_id: str
    partitions: frozenset[TopicPartition]


# Administration


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Empty filters let everything pass; `duration_ms` -1 too."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    is_wanted: Callable[[str], bool] = field(default=lambda transactional_id: True)


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


# Group commit


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroup:
    """Commit the open transactions of all members and the offsets, or none of them."""

    sink: str
    query: str
    batch: int
    members: tuple[Member, ...]
    offsets: tuple[GroupOffset, ...] = ()
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupCommitReply:
    """`is_replay`: the batch had been committed before, and the members of this question have been aborted."""

    error: ErrorCode = ErrorCode.NONE
    is_replay: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    sink: str
    query: str


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """The last decision; a batch of -1 if there is none. Complete: members and offsets have all heard of it."""

    batch: int = -1
    digest: bytes = b""
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class GroupDone:
    """Transactional ids of members that are committed for good, and whether the offsets are."""

    sink: str
    query: str
    batch: int
    members: frozenset[str] = frozenset()
    has_offsets: bool = False
