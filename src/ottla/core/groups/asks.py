"""What can be asked of a group coordinator, and what it answers: plain values, one pair of classes per question.

A question that is refused as a whole raises `Refused`. A reply carries `error` only where Kafka sends more than the
code with it, or where the reply comes later than the call, as the effect `Reply`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode
from ottla.base.types import ZERO_UUID

NO_GENERATION = -1
UNKNOWN_MEMBER = ""
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

TopicIdPartitions = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Partitions by topic id, both in order: how assignments travel."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a question comes to.

    The caller appends `records` as one batch, applies each of them at once, and hands out `reply` and `effects` when
    they are committed. If they cannot be appended, nothing is applied and only effects with an error are handed out.
    """

    records: tuple[object, ...] = ()
    reply: object = None
    effects: tuple["Reply", ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer comes later, as a `Reply` with this ticket; a ticket the caller no longer knows may be ignored."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Reply:
    ticket: int
    reply: "JoinReply | SyncReply"


@dataclass(frozen=True, slots=True)
class Client:
    id: str = ""
    host: str = ""


# The classic protocol


@dataclass(frozen=True, slots=True)
class Protocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup. `requires_known_member_id` from version 4 on, `supports_skipping_assignment` from version 9 on."""

    group_id: str
    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    client: Client = Client()
    protocol_type: str = "consumer"
    protocols: tuple[Protocol, ...] = ()
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    requires_known_member_id: bool = True
    supports_skipping_assignment: bool = True


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat of the classic protocol; the reply is None."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None = None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Leave:
    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveReply:
    members: tuple[LeftMember, ...]


# Offsets


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: bytes = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """OffsetCommit, and TxnOffsetCommit when `producer_id` is set. `retention_ms` -1: the broker's own."""

    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    generation_id_or_member_epoch: int = NO_GENERATION
    api_version: int = 9
    retention_ms: int = -1
    producer_id: int = -1
    is_decided: bool = False
    """It is committed elsewhere already, with what was worked on: the group's members are not asked."""


@dataclass(frozen=True, slots=True)
class OffsetCommitReply:
    errors: tuple[ErrorCode, ...]
    """One per offset of the question, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    """Offsets of one group; `topics` None asks for all that it has."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class OffsetFetchReply:
    topics: tuple[tuple[str, tuple[FetchedOffset, ...]], ...]


@dataclass(frozen=True, slots=True)
class OffsetDelete:
    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteReply:
    errors: tuple[ErrorCode, ...]
    """One per partition of the question, in its order."""


# The consumer protocol (KIP-848)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat; None stands for "as in my last heartbeat"."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: TopicIdPartitions | None = None
    client: Client = Client()
    api_version: int = 1


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatReply:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: TopicIdPartitions | None = None


# Administration


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client: Client
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """One member of a consumer group. `member_type` 0 speaks the classic protocol, 1 the consumer protocol."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client: Client
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: TopicIdPartitions
    target_assignment: TopicIdPartitions
    member_type: int


@dataclass(frozen=True, slots=True)
class DescribedConsumerGroup:
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[DescribedConsumer, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """What a coordinator has to know of a topic."""

    id: bytes
    partition_count: int
