"""Topics: create, delete, grow. Each topic of a question is decided for itself; one bad one spoils no other."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX, TOPIC_NAME_CHARS_MAX
from ottla.base.types import METADATA_TOPIC, ZERO_UUID, Uuid, uuid_text
from ottla.core.metadata.asks import (
    Decision,
    NewPartitions,
    NewTopic,
    PartitionsCreation,
    ResourceType,
    TopicCreation,
    TopicDeletion,
    TopicRef,
)
from ottla.core.metadata.assignments import check_replicas, checked_assignments, new_partition
from ottla.core.metadata.config_rules import check_topic_config
from ottla.core.metadata.entries import TopicImage
from ottla.core.metadata.image import metric_name
from ottla.core.metadata.placement import place_replicas
from ottla.core.metadata.records import ConfigRecord, RemoveTopicRecord, TopicRecord
from ottla.core.metadata.state import ControllerState

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


@dataclass(slots=True)
class _Room:
    """How many partitions the question may still make, and the metric names it has taken."""

    left: int = PARTITIONS_PER_REQUEST_MAX
    metrics: dict[str, str] = field(default_factory=dict)

    def take(self, total: int, added: int) -> None:
        if total > PARTITIONS_PER_TOPIC_MAX:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"A topic has at most {PARTITIONS_PER_TOPIC_MAX} partitions.")
        if added > self.left:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                "Excessively large number of partitions per request: at most "
                f"{PARTITIONS_PER_REQUEST_MAX} are created at once.",
            )
        self.left -= added


def check_topic_name(name: str) -> None:
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = "'.' or '..' is not allowed"
    elif len(name) > TOPIC_NAME_CHARS_MAX:
        wrong = (
            f"the length of '{name[:TOPIC_NAME_CHARS_MAX]}' is longer than the max allowed length "
            f"{TOPIC_NAME_CHARS_MAX}"
        )
    elif _LEGAL.match(name) is None:
        wrong = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")


def create_topics(state: ControllerState, asks: Sequence[NewTopic], validate_only: bool = False) -> Decision:
    times = Counter(ask.name for ask in asks)
    records: list[object] = []
    replies: list[TopicCreation] = []
    room = _Room()
    for ask in asks:
        try:
            if times[ask.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made, reply = _create_topic(state, ask, room)
        except Refused as refusal:
            replies.append(TopicCreation(ask.name, refusal.code, refusal.why))
            continue
        records += made
        replies.append(reply)
    return Decision(() if validate_only else tuple(records), replies)


def _create_topic(state: ControllerState, ask: NewTopic, room: _Room) -> tuple[list[object], TopicCreation]:
    image = state.image
    check_topic_name(ask.name)
    if ask.name == METADATA_TOPIC:
        # Its directory would be that of the metadata log itself.
        raise Refused(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the cluster's own")
    if ask.name in image.topics_by_name:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{ask.name}' already exists.")
    metric = metric_name(ask.name)
    other = room.metrics.get(metric) or min(image.names_by_metric.get(metric, ()), default=None)
    if other is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{ask.name}' collides with existing topic: {other}")
    configs = _new_configs(state, ask)
    topic_id = _new_topic_id(state)
    records: list[object] = [TopicRecord(name=ask.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=ask.name, name=name, value=value)
        for name, value in configs.items()
    ]
    placed = _new_replicas(state, ask, room)
    records += [new_partition(image, topic_id, index, replicas) for index, replicas in enumerate(placed)]
    if "_" in metric:
        room.metrics[metric] = ask.name
    reply = TopicCreation(
        ask.name, id=topic_id, partition_count=len(placed), replication_factor=len(placed[0]), configs=configs
    )
    return records, reply


def _new_configs(state: ControllerState, ask: NewTopic) -> dict[str, str]:
    without = sorted(name for name, value in ask.configs if value is None)
    if without:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without)}")
    configs = {name: value for name, value in ask.configs if value is not None}
    check_topic_config(configs, state.defaults)
    return configs


def _new_topic_id(state: ControllerState) -> Uuid:
    while True:
        bits = state.random.getrandbits(128) & ~(0xF000_C000 << 48) | 0x4000_8000 << 48  # a UUID of version 4
        made = Uuid(bits.to_bytes(16))
        # A leading dash would read as a flag where a tool takes an id.
        if made not in state.image.topics_by_id and not uuid_text(made).startswith("-"):
            return made


def _new_replicas(state: ControllerState, ask: NewTopic, room: _Room) -> list[tuple[int, ...]]:
    if ask.assignments:
        return _assigned_replicas(state, ask, room)
    if ask.replication_factor < -1 or ask.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if ask.partition_count < -1 or ask.partition_count == 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = state.number("num.partitions") if ask.partition_count == -1 else ask.partition_count
    factor = state.number("default.replication.factor") if ask.replication_factor == -1 else ask.replication_factor
    room.take(count, count)
    return place_replicas(state.image.brokers.values(), count, factor, state.random)


def _assigned_replicas(state: ControllerState, ask: NewTopic, room: _Room) -> list[tuple[int, ...]]:
    for given, what in ((ask.replication_factor, "replication factor"), (ask.partition_count, "numPartitions")):
        if given != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    room.take(len(ask.assignments), len(ask.assignments))
    return checked_assignments(state.image, ask.assignments)


def delete_topics(state: ControllerState, asks: Sequence[TopicRef]) -> Decision:
    found = [_find(state, ask) for ask in asks]
    times = Counter(one.id for one in found if isinstance(one, TopicImage))
    records: list[object] = []
    replies: list[TopicDeletion] = []
    for ask, topic in zip(asks, found, strict=True):
        if isinstance(topic, Refused):
            replies.append(TopicDeletion(ask.name, ask.id, topic.code, topic.why))
        elif times[topic.id] > 1:
            why = "Duplicate topic name." if ask.name is not None else "Duplicate topic id."
            replies.append(TopicDeletion(ask.name, ask.id, ErrorCode.INVALID_REQUEST, why))
        elif state.setting("delete.topic.enable") is not True:
            replies.append(TopicDeletion(ask.name, ask.id, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is off."))
        else:
            records.append(RemoveTopicRecord(topic_id=topic.id))
            replies.append(TopicDeletion(topic.name, topic.id))
    return Decision(tuple(records), replies)


def _find(state: ControllerState, ask: TopicRef) -> TopicImage | Refused:
    if ask.name is None:
        if ask.id == ZERO_UUID:
            return Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topic = state.image.topics_by_id.get(ask.id)
        return topic or Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if ask.id != ZERO_UUID:
        return Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    topic = state.image.topics_by_name.get(ask.name)
    return topic or Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def create_partitions(state: ControllerState, asks: Sequence[NewPartitions], validate_only: bool = False) -> Decision:
    times = Counter(ask.name for ask in asks)
    records: list[object] = []
    replies: list[PartitionsCreation] = []
    room = _Room()
    for ask in asks:
        try:
            if times[ask.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _grow_topic(state, ask, room)
        except Refused as refusal:
            replies.append(PartitionsCreation(ask.name, refusal.code, refusal.why))
        else:
            replies.append(PartitionsCreation(ask.name))
    return Decision(() if validate_only else tuple(records), replies)


def _grow_topic(state: ControllerState, ask: NewPartitions, room: _Room) -> list[object]:
    topic = state.image.topics_by_name.get(ask.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    now = len(topic.partitions)
    if ask.count < now:
        why = f"The topic {ask.name} currently has {now} partition(s); {ask.count} would not be an increase."
        raise Refused(ErrorCode.INVALID_PARTITIONS, why)
    if ask.count == now:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    added = ask.count - now
    room.take(ask.count, added)
    factor = len(topic.partitions[0].replicas)
    if ask.assignments is None:
        placed = place_replicas(state.image.brokers.values(), added, factor, state.random)
    else:
        placed = _assigned_growth(state, ask, added, factor)
    return [new_partition(state.image, topic.id, now + at, replicas) for at, replicas in enumerate(placed)]


def _assigned_growth(state: ControllerState, ask: NewPartitions, added: int, factor: int) -> list[tuple[int, ...]]:
    assignments = ask.assignments or ()
    if len(assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but {len(assignments)} assignment(s) were specified.",
        )
    for replicas in assignments:
        check_replicas(state.image, replicas, factor)
    return list(assignments)
