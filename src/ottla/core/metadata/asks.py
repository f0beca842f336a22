"""What can be asked of the controller, and what it answers: plain values, one pair of classes per question.

An answer per element carries `error` and `why`; a whole question is refused with `Refused`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.base.errors import ErrorCode
from ottla.base.types import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command comes to. Nothing has changed yet: only applying the records changes state."""

    records: tuple[object, ...] = ()
    reply: object = None


@dataclass(frozen=True, slots=True)
class Assignment:
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[Assignment, ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicCreation:
    name: str
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None
    id: bytes = ZERO_UUID
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic by name, or by id when the name is None."""

    name: str | None
    id: bytes = ZERO_UUID


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    name: str | None
    id: bytes = ZERO_UUID
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """`count` is the total the topic shall have; `assignments` are those of the added partitions, in order."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionsCreation:
    name: str
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    name: str
    op: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Edits to single keys; all of them or, when one is wrong, none."""

    type: int
    name: str
    edits: tuple[ConfigEdit, ...]


@dataclass(frozen=True, slots=True)
class ConfigReplacement:
    """The old way: what is not in `configs` goes back to its default."""

    type: int
    name: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()
    previous_broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class IsrMember:
    broker_id: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class PartitionIsr:
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """AlterPartition: the leader of these partitions tells who is in sync (KIP-497, KIP-841, KIP-903)."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[PartitionIsr, ...]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    topic_id: bytes
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class LeaderElection:
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade. Level 0 removes the feature."""

    name: str
    level: int
    upgrade_type: int = 1


@dataclass(frozen=True, slots=True)
class FeatureAlteration:
    name: str
    error: ErrorCode = ErrorCode.NONE
    why: str | None = None
