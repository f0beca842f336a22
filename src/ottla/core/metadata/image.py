"""`ClusterImage`: what the metadata log says, as tables; every node folds the same records into the same image.

Read it freely, never write to it:

- `topics_by_name`, `topics_by_id` → `TopicImage(name, id, partitions)`; `partition(name, index)`
- `brokers[id]` → `BrokerImage`; `configs[(resource type, name)]` → own settings; `topic_config(name)`;
  `broker_config(id)` (the cluster's default under the broker's own)
- `features[name]` → level; `next_producer_id`; `acls`, `scram`, `quotas`, `tokens`, `controllers`

`apply(record, delta)` folds one record in and notes in `ImageDelta` what it touched. `copy()` is an independent
image that shares the immutable entries. The image as records: `ottla.core.metadata.snapshot.image_records`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ottla.core.metadata import records as r
from ottla.core.metadata.asks import ResourceType
from ottla.core.metadata.entries import BrokerImage, PartitionImage, TopicImage

ConfigKey = tuple[int, str]
QuotaEntity = tuple[tuple[str, str | None], ...]
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class ImageDelta:
    """What one committed stretch of the log touched. `whole`: anything may have changed (a first or loaded image)."""

    topics_created: dict[bytes, TopicImage] = field(default_factory=dict)
    topics_deleted: dict[bytes, TopicImage] = field(default_factory=dict)
    partitions: dict[bytes, set[int]] = field(default_factory=dict)
    """New or changed partitions by topic id, those of created topics among them."""
    configs: set[ConfigKey] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    producer_ids: bool = False
    access: bool = False
    """ACLs, credentials, quotas or tokens."""
    whole: bool = False
    topics_removed: frozenset[bytes] = frozenset()
    """With a whole image: ids of topics whose removal the log still tells of. What lies on a disk of them is to go."""


class ClusterImage:
    """Mutable, and touched by one loop only."""

    def __init__(self) -> None:
        self.topics_by_name: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.names_by_metric: dict[str, set[str]] = {}
        """Topics that share a metric name: `.` and `_` are one character there."""
        self.brokers: dict[int, BrokerImage] = {}
        self.configs: dict[ConfigKey, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.acls: dict[bytes, r.AccessControlEntryRecord] = {}
        self.scram: dict[tuple[str, int], r.UserScramCredentialRecord] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, r.DelegationTokenRecord] = {}
        self.controllers: dict[int, r.RegisterControllerRecord] = {}
        self._open_transaction: list[object] | None = None

    @property
    def is_in_transaction(self) -> bool:
        return self._open_transaction is not None

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics_by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.configs.get((ResourceType.TOPIC, name), _NOTHING)

    def broker_config(self, broker_id: int) -> Mapping[str, str]:
        default = self.configs.get((ResourceType.BROKER, ""), _NOTHING)
        own = self.configs.get((ResourceType.BROKER, str(broker_id)), _NOTHING)
        return {**default, **own} if default and own else own or default

    def copy(self) -> "ClusterImage":
        other = ClusterImage()
        other.topics_by_id = {topic_id: topic.copy() for topic_id, topic in self.topics_by_id.items()}
        other.topics_by_name = {topic.name: topic for topic in other.topics_by_id.values()}
        other.names_by_metric = {metric: set(names) for metric, names in self.names_by_metric.items()}
        other.brokers = dict(self.brokers)
        other.configs = {key: dict(values) for key, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other.acls = dict(self.acls)
        other.scram = dict(self.scram)
        other.quotas = {entity: dict(values) for entity, values in self.quotas.items()}
        other.tokens = dict(self.tokens)
        other.controllers = dict(self.controllers)
        if self._open_transaction is not None:
            other._open_transaction = list(self._open_transaction)
        return other

    def apply(self, record: object, delta: ImageDelta | None = None) -> None:
        """Fold one record in. An unknown kind is a bug here and flies: state that a node skips is state it lacks."""
        delta = ImageDelta() if delta is None else delta
        if isinstance(record, r.BeginTransactionRecord):
            self._open_transaction = []
        elif isinstance(record, r.EndTransactionRecord):
            held, self._open_transaction = self._open_transaction or [], None
            for one in held:
                _APPLIERS[type(one)](self, one, delta)
        elif isinstance(record, r.AbortTransactionRecord):
            self._open_transaction = None
        elif self._open_transaction is not None:
            self._open_transaction.append(record)  # not visible before its transaction ends (KIP-868)
        else:
            _APPLIERS[type(record)](self, record, delta)

    def _apply_topic(self, record: r.TopicRecord, delta: ImageDelta) -> None:
        topic = TopicImage(record.name, record.topic_id)
        self.topics_by_name[record.name] = self.topics_by_id[record.topic_id] = topic
        metric = metric_name(record.name)
        if "_" in metric:
            self.names_by_metric.setdefault(metric, set()).add(record.name)
        delta.topics_created[record.topic_id] = topic

    def _apply_partition(self, record: r.PartitionRecord, delta: ImageDelta) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        while len(partitions) <= record.partition_id:  # a snapshot need not list them in order
            partitions.append(PartitionImage.missing(len(partitions)))
        partitions[record.partition_id] = PartitionImage.of(record)
        delta.partitions.setdefault(record.topic_id, set()).add(record.partition_id)

    def _apply_partition_change(self, record: r.PartitionChangeRecord, delta: ImageDelta) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        partitions[record.partition_id] = partitions[record.partition_id].changed(record)
        delta.partitions.setdefault(record.topic_id, set()).add(record.partition_id)

    def _apply_remove_topic(self, record: r.RemoveTopicRecord, delta: ImageDelta) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics_by_name[topic.name]
        metric = metric_name(topic.name)
        if metric in self.names_by_metric:
            self.names_by_metric[metric].discard(topic.name)
            if not self.names_by_metric[metric]:
                del self.names_by_metric[metric]
        if self.configs.pop((ResourceType.TOPIC, topic.name), None) is not None:
            delta.configs.add((ResourceType.TOPIC, topic.name))
        delta.partitions.pop(record.topic_id, None)
        if delta.topics_created.pop(record.topic_id, None) is None:
            delta.topics_deleted[record.topic_id] = topic

    def _apply_clear_elr(self, record: r.ClearElrRecord, delta: ImageDelta) -> None:
        topics = [self.topics_by_name[record.topic_name]] if record.topic_name else list(self.topics_by_id.values())
        for topic in topics:
            for index, entry in enumerate(topic.partitions):
                if entry.elr or entry.last_known_elr:
                    topic.partitions[index] = entry._replace(elr=(), last_known_elr=())
                    delta.partitions.setdefault(topic.id, set()).add(index)

    def _apply_config(self, record: r.ConfigRecord, delta: ImageDelta) -> None:
        key = (record.resource_type, record.resource_name)
        values = self.configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[key]
        delta.configs.add(key)

    def _apply_register_broker(self, record: r.RegisterBrokerRecord, delta: ImageDelta) -> None:
        self.brokers[record.broker_id] = BrokerImage.of(record)
        delta.brokers.add(record.broker_id)

    def _apply_unregister_broker(self, record: r.UnregisterBrokerRecord, delta: ImageDelta) -> None:
        del self.brokers[record.broker_id]
        delta.brokers.add(record.broker_id)

    def _apply_registration_change(self, record: r.BrokerRegistrationChangeRecord, delta: ImageDelta) -> None:
        self.brokers[record.broker_id] = self.brokers[record.broker_id].changed(record)
        delta.brokers.add(record.broker_id)

    def _apply_fence(self, record: r.FenceBrokerRecord, delta: ImageDelta) -> None:
        self.brokers[record.id] = self.brokers[record.id]._replace(fenced=True)
        delta.brokers.add(record.id)

    def _apply_unfence(self, record: r.UnfenceBrokerRecord, delta: ImageDelta) -> None:
        self.brokers[record.id] = self.brokers[record.id]._replace(fenced=False)
        delta.brokers.add(record.id)

    def _apply_feature(self, record: r.FeatureLevelRecord, delta: ImageDelta) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        delta.features.add(record.name)

    def _apply_producer_ids(self, record: r.ProducerIdsRecord, delta: ImageDelta) -> None:
        self.next_producer_id = record.next_producer_id
        delta.producer_ids = True

    def _apply_acl(self, record: r.AccessControlEntryRecord, delta: ImageDelta) -> None:
        self.acls[record.id] = record
        delta.access = True

    def _apply_remove_acl(self, record: r.RemoveAccessControlEntryRecord, delta: ImageDelta) -> None:
        del self.acls[record.id]
        delta.access = True

    def _apply_scram(self, record: r.UserScramCredentialRecord, delta: ImageDelta) -> None:
        self.scram[record.name, record.mechanism] = record
        delta.access = True

    def _apply_remove_scram(self, record: r.RemoveUserScramCredentialRecord, delta: ImageDelta) -> None:
        del self.scram[record.name, record.mechanism]
        delta.access = True

    def _apply_quota(self, record: r.ClientQuotaRecord, delta: ImageDelta) -> None:
        entity = tuple(sorted(((e.entity_type, e.entity_name) for e in record.entity), key=lambda part: part[0]))
        values = self.quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self.quotas[entity]
        delta.access = True

    def _apply_token(self, record: r.DelegationTokenRecord, delta: ImageDelta) -> None:
        self.tokens[record.token_id] = record
        delta.access = True

    def _apply_remove_token(self, record: r.RemoveDelegationTokenRecord, delta: ImageDelta) -> None:
        self.tokens.pop(record.token_id, None)
        delta.access = True

    def _apply_controller(self, record: r.RegisterControllerRecord, delta: ImageDelta) -> None:
        self.controllers[record.controller_id] = record

    def _apply_remove_controller(self, record: r.UnregisterControllerRecord, delta: ImageDelta) -> None:
        self.controllers.pop(record.controller_id, None)

    def _apply_nothing(self, record: object, delta: ImageDelta) -> None:
        """NoOp keeps followers fetching; the migration from ZooKeeper is over and has no state here."""


def metric_name(topic: str) -> str:
    """The name under which a topic is measured; two topics must not share one."""
    return topic.replace(".", "_")


_APPLIERS: dict[type, Callable[[ClusterImage, Any, ImageDelta], None]] = {
    r.TopicRecord: ClusterImage._apply_topic,
    r.PartitionRecord: ClusterImage._apply_partition,
    r.PartitionChangeRecord: ClusterImage._apply_partition_change,
    r.RemoveTopicRecord: ClusterImage._apply_remove_topic,
    r.ClearElrRecord: ClusterImage._apply_clear_elr,
    r.ConfigRecord: ClusterImage._apply_config,
    r.RegisterBrokerRecord: ClusterImage._apply_register_broker,
    r.UnregisterBrokerRecord: ClusterImage._apply_unregister_broker,
    r.BrokerRegistrationChangeRecord: ClusterImage._apply_registration_change,
    r.FenceBrokerRecord: ClusterImage._apply_fence,
    r.UnfenceBrokerRecord: ClusterImage._apply_unfence,
    r.FeatureLevelRecord: ClusterImage._apply_feature,
    r.ProducerIdsRecord: ClusterImage._apply_producer_ids,
    r.AccessControlEntryRecord: ClusterImage._apply_acl,
    r.RemoveAccessControlEntryRecord: ClusterImage._apply_remove_acl,
    r.UserScramCredentialRecord: ClusterImage._apply_scram,
    r.RemoveUserScramCredentialRecord: ClusterImage._apply_remove_scram,
    r.ClientQuotaRecord: ClusterImage._apply_quota,
    r.DelegationTokenRecord: ClusterImage._apply_token,
    r.RemoveDelegationTokenRecord: ClusterImage._apply_remove_token,
    r.RegisterControllerRecord: ClusterImage._apply_controller,
    r.UnregisterControllerRecord: ClusterImage._apply_remove_controller,
    r.NoOpRecord: ClusterImage._apply_nothing,
    r.ZkMigrationStateRecord: ClusterImage._apply_nothing,
}
