"""Offsets of groups and of the partitions they are about."""

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.connection import Denied, Target, explained
from ottla.cli.places import Place, place_name

_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}


def committed_offsets(target: Target, admin: AdminClient, group: str) -> dict[Place, int]:
    with explained(target):
        [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = target.outcome(future, admin, group).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def end_offsets(target: Target, admin: AdminClient, places: Iterable[Place]) -> dict[Place, int]:
    """Without partitions that are no more."""
    there = existing(target, admin)
    return offsets_at(target, admin, [place for place in places if place in there], OffsetSpec.latest())


def existing(target: Target, admin: AdminClient) -> set[Place]:
    topics = target.metadata(admin).topics
    return {(name, partition) for name, topic in topics.items() for partition in topic.partitions}


def offsets_at(target: Target, admin: AdminClient, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
    """What the specification means in each partition; -1 where no record is so late."""
    asked = {TopicPartition(*place): spec for place in places}
    if not asked:
        return {}
    with explained(target):
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    found = {}
    for one, future in futures.items():
        place = (one.topic, one.partition)
        try:
            found[place] = target.outcome(future, admin, place_name(place)).offset
        except Denied as denied:
            if denied.error.code() not in _GONE:
                raise
    return found


def alter_offsets(target: Target, admin: AdminClient, group: str, offsets: dict[Place, int]) -> dict[Place, KafkaError]:
    """Commit them in the group's name; what was refused, and why."""
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    with explained(target):
        [future] = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
    answered = target.outcome(future, admin, group).topic_partitions
    return {(one.topic, one.partition): one.error for one in answered if one.error is not None}
