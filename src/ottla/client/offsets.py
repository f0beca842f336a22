"""Offsets: the ends of partitions, where a time begins, and how far groups have come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.base.types import Offset, TopicName, TopicPartition
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.failures import BrokerRefused, ClientFailure
from ottla.client.metadata import by_topic
from ottla.client.spread import insist
from ottla.client.versions import ANY, Span
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LATEST, EARLIEST = -1, -2
"""What is asked for in place of a timestamp; with READ_COMMITTED the latest is the last stable offset."""
_BY_NAME, _BY_NAME_STABLE = Span(2, 9), Span(7, 9)
"""From version 10 on group offsets are kept under topic ids, which brokers before 4.1 do not know."""
_ISOLATED = Span(2)


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Found(NamedTuple):
    """The first record that is not older than what was asked for; offset -1 if there is none."""

    offset: Offset
    timestamp_ms: int


class Committed(NamedTuple):
    offset: Offset
    metadata: str


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, Found]:
    """By partition: EARLIEST, LATEST or a time in milliseconds."""
    deadline = deadline or cluster.deadline()

    async def ask(leader: Connection, places: Sequence[TopicPartition]) -> dict[TopicPartition, Found | ClientFailure]:
        topics = [
            ListOffsetsTopic(name, [_asked(TopicPartition(TopicName(name), index), wanted) for index in indexes])
            for name, indexes in by_topic(places).items()
        ]
        request = ListOffsetsRequest(-1, int(isolation), topics, int(cluster.settings.request_s * 1000))
        response = await leader.ask(request, deadline, _ISOLATED if isolation else ANY)
        return {
            (place := TopicPartition(TopicName(topic.name), one.partition_index)): _found(place, one)
            for topic in response.topics
            for one in topic.partitions
        }

    return await insist(cluster, list(wanted), ask, deadline)


def _asked(place: TopicPartition, wanted: Mapping[TopicPartition, int]) -> ListOffsetsPartition:
    return ListOffsetsPartition(place.partition, timestamp=wanted[place])


def _found(place: TopicPartition, one: ListOffsetsPartitionResponse) -> Found | ClientFailure:
    if one.error_code:
        return BrokerRefused(one.error_code, about=str(place))
    return Found(Offset(one.offset), one.timestamp)


async def earliest_offsets(
    cluster: Cluster, places: Iterable[TopicPartition], deadline: Deadline | None = None
) -> dict[TopicPartition, Offset]:
    found = await list_offsets(cluster, dict.fromkeys(places, EARLIEST), deadline=deadline)
    return {place: one.offset for place, one in found.items()}


async def latest_offsets(
    cluster: Cluster,
    places: Iterable[TopicPartition],
    isolation: Isolation = Isolation.READ_COMMITTED,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, Offset]:
    found = await list_offsets(cluster, dict.fromkeys(places, LATEST), isolation, deadline)
    return {place: one.offset for place, one in found.items()}


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    metadata: str = "",
    deadline: Deadline | None = None,
) -> None:
    """Without membership: a group that has members refuses. All are refused, or none, but for unknown topics."""
    deadline = deadline or cluster.deadline()
    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(
                    index, offsets[TopicPartition(TopicName(name), index)], committed_metadata=metadata
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id, topics=topics)

    async def ask() -> None:
        answer = await cluster.ask_coordinator(Coordinator.GROUP, group_id, request, deadline, _BY_NAME)
        for topic in answer.topics:
            for one in topic.partitions:
                about = f"offset of {topic.name}-{one.partition_index} in {group_id}"
                cluster.heed(Coordinator.GROUP, group_id, one.error_code, about=about)

    await cluster.patiently(ask, deadline)


async def fetch_offsets(
    cluster: Cluster,
    group_id: str,
    places: Iterable[TopicPartition] | None = None,
    is_stable: bool = True,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, Committed]:
    """What a group has committed, of these partitions or of all. `is_stable`: wait for open transactions to end."""
    deadline = deadline or cluster.deadline()
    wanted = None if places is None else by_topic(places).items()
    alone = None if wanted is None else [OffsetFetchRequestTopic(*one) for one in wanted]
    in_group = None if wanted is None else [OffsetFetchRequestTopics(name, partition_indexes=on) for name, on in wanted]
    # From version 8 on several groups may be asked for at once; here it is one, told in both shapes.
    request = OffsetFetchRequest(group_id, alone, [OffsetFetchRequestGroup(group_id, topics=in_group)], is_stable)

    async def ask() -> dict[TopicPartition, Committed]:
        answer = await cluster.ask_coordinator(
            Coordinator.GROUP,
            group_id,
            request,
            deadline,
            _BY_NAME_STABLE if is_stable else _BY_NAME,
        )
        group: Any = answer.groups[0] if answer.groups else answer
        cluster.heed(Coordinator.GROUP, group_id, group.error_code)
        found = {}
        for topic in group.topics:
            for one in topic.partitions:
                place = TopicPartition(TopicName(topic.name), one.partition_index)
                cluster.heed(Coordinator.GROUP, group_id, one.error_code, about=f"offset of {place} in {group_id}")
                if one.committed_offset >= 0:
                    found[place] = Committed(Offset(one.committed_offset), one.metadata or "")
        return found

    return await cluster.patiently(ask, deadline)
