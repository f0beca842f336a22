"""The whole image as records: what a snapshot of the metadata log holds, in Kafka's order."""

from collections.abc import Iterator

from ottla.core.metadata import records as r
from ottla.core.metadata.entries import BrokerImage
from ottla.core.metadata.image import ClusterImage

METADATA_VERSION = "metadata.version"


def image_records(image: ClusterImage) -> Iterator[object]:
    assert not image.is_in_transaction, "a snapshot cannot say that a transaction is open"
    yield from _features(image)
    for broker in image.brokers.values():
        yield broker_record(broker)
    yield from image.controllers.values()
    for topic in image.topics_by_id.values():
        yield r.TopicRecord(name=topic.name, topic_id=topic.id)
        for entry in topic.partitions:
            yield entry.record(topic.id)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield r.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for entity, quotas in image.quotas.items():
        for key, amount in quotas.items():
            members = [r.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield r.ClientQuotaRecord(entity=members, key=key, value=amount)
    if image.next_producer_id:
        yield r.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.tokens.values()


def _features(image: ClusterImage) -> Iterator[object]:
    # The level of the metadata comes first: it says how to read everything after it.
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield r.FeatureLevelRecord(name=name, feature_level=image.features[name])


def broker_record(broker: BrokerImage) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            r.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            r.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=list(broker.cordoned_log_dirs) or None,
    )
