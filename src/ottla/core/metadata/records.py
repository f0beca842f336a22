"""The records of the cluster metadata log, as the core names them."""

from dataclasses import dataclass, field

ZERO = bytes(16)


@dataclass(slots=True)
class TopicRecord:
    name: str = ""
    topic_id: bytes = ZERO


@dataclass(slots=True)
class PartitionRecord:
    partition_id: int = -1
    topic_id: bytes = ZERO
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[bytes] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(slots=True)
class PartitionChangeRecord:
    partition_id: int = -1
    topic_id: bytes = ZERO
    isr: list[int] | None = None
    leader: int = -2
    replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    leader_recovery_state: int = -1
    directories: list[bytes] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(slots=True)
class RemoveTopicRecord:
    topic_id: bytes = ZERO


@dataclass(slots=True)
class ClearElrRecord:
    topic_name: str = ""


@dataclass(slots=True)
class ConfigRecord:
    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = None


@dataclass(slots=True)
class BrokerEndpoint:
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclass(slots=True)
class BrokerFeature:
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True)
class RegisterBrokerRecord:
    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: bytes = ZERO
    broker_epoch: int = 0
    end_points: list[BrokerEndpoint] = field(default_factory=list)
    features: list[BrokerFeature] = field(default_factory=list)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[bytes] = field(default_factory=list)
    cordoned_log_dirs: list[bytes] | None = None


@dataclass(slots=True)
class UnregisterBrokerRecord:
    broker_id: int = 0
    broker_epoch: int = 0


@dataclass(slots=True)
class BrokerRegistrationChangeRecord:
    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[bytes] = field(default_factory=list)
    cordoned_log_dirs: list[bytes] | None = None


@dataclass(slots=True)
class FenceBrokerRecord:
    id: int = 0
    epoch: int = 0


@dataclass(slots=True)
class UnfenceBrokerRecord:
    id: int = 0
    epoch: int = 0


@dataclass(slots=True)
class FeatureLevelRecord:
    name: str = ""
    feature_level: int = 0


@dataclass(slots=True)
class ProducerIdsRecord:
    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0


@dataclass(slots=True)
class EntityData:
    entity_type: str = ""
    entity_name: str | None = None


@dataclass(slots=True)
class ClientQuotaRecord:
    entity: list[EntityData] = field(default_factory=list)
    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True)
class AccessControlEntryRecord:
    id: bytes = ZERO
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True)
class RemoveAccessControlEntryRecord:
    id: bytes = ZERO


@dataclass(slots=True)
class UserScramCredentialRecord:
    name: str = ""
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


@dataclass(slots=True)
class RemoveUserScramCredentialRecord:
    name: str = ""
    mechanism: int = 0


@dataclass(slots=True)
class DelegationTokenRecord:
    token_id: str = ""


@dataclass(slots=True)
class RemoveDelegationTokenRecord:
    token_id: str = ""


@dataclass(slots=True)
class RegisterControllerRecord:
    controller_id: int = 0


@dataclass(slots=True)
class NoOpRecord:
    pass


@dataclass(slots=True)
class ZkMigrationStateRecord:
    zk_migration_state: int = 0


@dataclass(slots=True)
class BeginTransactionRecord:
    name: str | None = None


@dataclass(slots=True)
class EndTransactionRecord:
    pass


@dataclass(slots=True)
class AbortTransactionRecord:
    reason: str | None = None
