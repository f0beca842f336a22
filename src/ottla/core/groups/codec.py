"""Kafka's bytes of the records of `__consumer_offsets`.

An offset is written as version 3, as version 1 when the commit named its own expiry, and as version 4 when the topic's
id is known. Records of other kinds (share and streams groups, later versions) are passed over on load.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ottla.base.types import ZERO_UUID
from ottla.core.groups import records as r
from ottla.core.groups.asks import Client, Protocol
from ottla.wire.primitives import Message
from ottla.wire.state import consumer_offsets as w
from ottla.wire.state.coordinator_frame import decode_key, decode_value, encode_key, encode_value

_GROUP_VERSION = 3
_CONSUMER_VERSION = 0
_KEYS: Mapping[int, type[Message]] = {
    key.API_KEY: key
    for key in (
        w.LegacyOffsetCommitKey,
        w.OffsetCommitKey,
        w.GroupMetadataKey,
        w.ConsumerGroupMetadataKey,
        w.ConsumerGroupMemberMetadataKey,
        w.ConsumerGroupTargetAssignmentMetadataKey,
        w.ConsumerGroupTargetAssignmentMemberKey,
        w.ConsumerGroupCurrentMemberAssignmentKey,
        w.ConsumerGroupRegularExpressionKey,
    )
}


def encode(record: Any) -> tuple[bytes, bytes | None]:
    """Key and value of one record of a Decision."""
    key, write = _ENCODERS[type(record)]
    value = None if record.value is None else encode_value(*write(record.value))
    return encode_key(key(record)), value


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> r.Record | None:
    """The record, or None if it is none of ours. Raises Malformed."""
    decoded = decode_key(key, _KEYS)
    return None if decoded is None else _DECODERS[type(decoded)](decoded, value)


def _write_offset(offset: r.CommittedOffset) -> tuple[Message, int]:
    version = 1 if offset.expire_timestamp_ms >= 0 else 4 if offset.topic_id != ZERO_UUID else 3
    value = w.OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
        expire_timestamp=offset.expire_timestamp_ms,
        topic_id=offset.topic_id,
    )
    return value, version


def _write_generation(value: r.Generation) -> tuple[Message, int]:
    members = [
        w.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client.id,
            client_host=member.client.host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in value.members
    ]
    message = w.GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation_id,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=value.state_timestamp_ms,
        members=members,
    )
    return message, _GROUP_VERSION


def _write_subscription(value: r.Subscription) -> tuple[Message, int]:
    classic = None
    if value.classic is not None:
        classic = w.ClassicMemberMetadata(
            session_timeout_ms=value.classic.session_timeout_ms,
            supported_protocols=[w.ClassicProtocol(name=p.name, metadata=p.metadata) for p in value.classic.protocols],
        )
    message = w.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client.id,
        client_host=value.client.host,
        subscribed_topic_names=list(value.topic_names),
        subscribed_topic_regex=value.topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=classic,
    )
    return message, _CONSUMER_VERSION


def _write_target(value: r.Partitions) -> tuple[Message, int]:
    topics = [w.TargetTopicPartitions(topic_id=i, partitions=list(numbers)) for i, numbers in r.by_topic(value)]
    return w.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics), _CONSUMER_VERSION


def _write_current(value: r.Current) -> tuple[Message, int]:
    message = w.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_current_topics(value.assigned),
        partitions_pending_revocation=_current_topics(value.revoking),
    )
    return message, _CONSUMER_VERSION


def _current_topics(partitions: r.Partitions) -> list[w.CurrentTopicPartitions]:
    return [w.CurrentTopicPartitions(topic_id=i, partitions=list(numbers)) for i, numbers in r.by_topic(partitions)]


_ENCODERS: Mapping[type, tuple[Callable[[Any], Message], Callable[[Any], tuple[Message, int]]]] = {
    r.OffsetRecord: (
        lambda o: w.OffsetCommitKey(group=o.group_id, topic=o.topic, partition=o.partition),
        _write_offset,
    ),
    r.GroupRecord: (lambda o: w.GroupMetadataKey(group=o.group_id), _write_generation),
    r.EpochRecord: (
        lambda o: w.ConsumerGroupMetadataKey(group_id=o.group_id),
        lambda v: (w.ConsumerGroupMetadataValue(epoch=v.epoch, metadata_hash=v.metadata_hash), _CONSUMER_VERSION),
    ),
    r.MemberRecord: (
        lambda o: w.ConsumerGroupMemberMetadataKey(group_id=o.group_id, member_id=o.member_id),
        _write_subscription,
    ),
    r.TargetEpochRecord: (
        lambda o: w.ConsumerGroupTargetAssignmentMetadataKey(group_id=o.group_id),
        lambda v: (
            w.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=v.epoch, assignment_timestamp=v.timestamp_ms),
            _CONSUMER_VERSION,
        ),
    ),
    r.TargetRecord: (
        lambda o: w.ConsumerGroupTargetAssignmentMemberKey(group_id=o.group_id, member_id=o.member_id),
        _write_target,
    ),
    r.CurrentRecord: (
        lambda o: w.ConsumerGroupCurrentMemberAssignmentKey(group_id=o.group_id, member_id=o.member_id),
        _write_current,
    ),
    r.PatternRecord: (
        lambda o: w.ConsumerGroupRegularExpressionKey(group_id=o.group_id, regular_expression=o.pattern),
        lambda v: (
            w.ConsumerGroupRegularExpressionValue(topics=list(v.topics), version=v.version, timestamp=v.timestamp_ms),
            _CONSUMER_VERSION,
        ),
    ),
}


def _read_offset(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.OffsetRecord(key.group, key.topic, key.partition, None)
    v = decode_value(value, w.OffsetCommitValue)
    committed = r.CommittedOffset(
        v.offset, v.leader_epoch, v.metadata, v.commit_timestamp, v.expire_timestamp, v.topic_id
    )
    return r.OffsetRecord(key.group, key.topic, key.partition, committed)


def _read_generation(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.GroupRecord(key.group, None)
    v = decode_value(value, w.GroupMetadataValue)
    members = tuple(
        r.GenerationMember(
            m.member_id,
            m.group_instance_id,
            Client(m.client_id, m.client_host),
            m.rebalance_timeout if m.rebalance_timeout >= 0 else m.session_timeout,
            m.session_timeout,
            bytes(m.subscription),
            bytes(m.assignment),
        )
        for m in v.members
    )
    generation = r.Generation(v.protocol_type, v.generation, v.protocol, v.leader, v.current_state_timestamp, members)
    return r.GroupRecord(key.group, generation)


def _read_subscription(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.MemberRecord(key.group_id, key.member_id, None)
    v = decode_value(value, w.ConsumerGroupMemberMetadataValue)
    classic = None
    if v.classic_member_metadata is not None and v.classic_member_metadata.supported_protocols:
        protocols = tuple(Protocol(p.name, bytes(p.metadata)) for p in v.classic_member_metadata.supported_protocols)
        classic = r.ClassicMembership(v.classic_member_metadata.session_timeout_ms, protocols)
    subscription = r.Subscription(
        v.instance_id,
        v.rack_id,
        Client(v.client_id, v.client_host),
        tuple(v.subscribed_topic_names),
        v.subscribed_topic_regex or None,
        v.rebalance_timeout_ms,
        v.server_assignor,
        classic,
    )
    return r.MemberRecord(key.group_id, key.member_id, subscription)


def _read_current(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.CurrentRecord(key.group_id, key.member_id, None)
    v = decode_value(value, w.ConsumerGroupCurrentMemberAssignmentValue)
    assigned, revoking = _partitions(v.assigned_partitions), _partitions(v.partitions_pending_revocation)
    current = r.Current(v.member_epoch, v.previous_member_epoch, v.state, assigned, revoking)
    return r.CurrentRecord(key.group_id, key.member_id, current)


def _read_target(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.TargetRecord(key.group_id, key.member_id, None)
    v = decode_value(value, w.ConsumerGroupTargetAssignmentMemberValue)
    return r.TargetRecord(key.group_id, key.member_id, _partitions(v.topic_partitions))


def _partitions(topics: list[Any]) -> r.Partitions:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _read_epoch(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.EpochRecord(key.group_id, None)
    v = decode_value(value, w.ConsumerGroupMetadataValue)
    return r.EpochRecord(key.group_id, r.Epoch(v.epoch, v.metadata_hash))


def _read_target_epoch(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.TargetEpochRecord(key.group_id, None)
    v = decode_value(value, w.ConsumerGroupTargetAssignmentMetadataValue)
    return r.TargetEpochRecord(key.group_id, r.TargetEpoch(v.assignment_epoch, v.assignment_timestamp))


def _read_pattern(key: Any, value: Any) -> r.Record:
    if value is None:
        return r.PatternRecord(key.group_id, key.regular_expression, None)
    v = decode_value(value, w.ConsumerGroupRegularExpressionValue)
    resolved = r.ResolvedPattern(tuple(v.topics), v.version, v.timestamp)
    return r.PatternRecord(key.group_id, key.regular_expression, resolved)


_DECODERS: Mapping[type, Callable[[Any, Any], r.Record]] = {
    w.LegacyOffsetCommitKey: _read_offset,
    w.OffsetCommitKey: _read_offset,
    w.GroupMetadataKey: _read_generation,
    w.ConsumerGroupMetadataKey: _read_epoch,
    w.ConsumerGroupMemberMetadataKey: _read_subscription,
    w.ConsumerGroupTargetAssignmentMetadataKey: _read_target_epoch,
    w.ConsumerGroupTargetAssignmentMemberKey: _read_target,
    w.ConsumerGroupCurrentMemberAssignmentKey: _read_current,
    w.ConsumerGroupRegularExpressionKey: _read_pattern,
}
