"""The records of `__consumer_offsets`, as the core names them; a value of None is a tombstone.

`ottla.core.groups.codec` turns them into Kafka's bytes and back.
"""

from typing import NamedTuple

from ottla.base.types import ZERO_UUID
from ottla.core.groups.asks import Client, Protocol

TopicIdPartition = tuple[bytes, int]
Partitions = frozenset[TopicIdPartition]
NO_PARTITIONS: Partitions = frozenset()


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = ZERO_UUID


class OffsetRecord(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None
    producer_id: int = -1
    """Set while the offset belongs to an open transaction; the bytes do not say it, their batch does."""


class GenerationMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class Generation(NamedTuple):
    """A generation of a classic group, as its leader has divided the work."""

    protocol_type: str
    generation_id: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[GenerationMember, ...]


class GroupRecord(NamedTuple):
    group_id: str
    value: Generation | None


class Epoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0


class EpochRecord(NamedTuple):
    group_id: str
    value: Epoch | None


class ClassicMembership(NamedTuple):
    """What is kept of a member of a consumer group that still speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class Subscription(NamedTuple):
    """What a member of a consumer group has said of itself."""

    instance_id: str | None
    rack_id: str | None
    client: Client
    topic_names: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMembership | None = None


class MemberRecord(NamedTuple):
    group_id: str
    member_id: str
    value: Subscription | None


class TargetEpoch(NamedTuple):
    epoch: int
    timestamp_ms: int = 0


class TargetEpochRecord(NamedTuple):
    group_id: str
    value: TargetEpoch | None


class TargetRecord(NamedTuple):
    group_id: str
    member_id: str
    value: Partitions | None


class Current(NamedTuple):
    """Where a member stands: its epoch, what it may use, and what it has still to let go."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: Partitions
    revoking: Partitions


class CurrentRecord(NamedTuple):
    group_id: str
    member_id: str
    value: Current | None


class ResolvedPattern(NamedTuple):
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class PatternRecord(NamedTuple):
    group_id: str
    pattern: str
    value: ResolvedPattern | None


ConsumerRecord = EpochRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | PatternRecord
Record = OffsetRecord | GroupRecord | ConsumerRecord


def by_topic(partitions: Partitions) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Partitions by topic id, both in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return tuple((topic_id, tuple(numbers)) for topic_id, numbers in topics.items())


def from_topics(topics: tuple[tuple[bytes, tuple[int, ...]], ...]) -> Partitions:
    return frozenset((topic_id, partition) for topic_id, numbers in topics for partition in numbers)
