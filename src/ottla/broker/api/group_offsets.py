"""Offsets of consumer groups: OffsetCommit, OffsetFetch, OffsetDelete. Version 10 names topics by id."""

from collections.abc import Iterable

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import ZERO_UUID
from ottla.broker.route import Call, Route, versions
from ottla.core.groups import asks
from ottla.core.metadata.entries import TopicImage
from ottla.runtime.controller import Controller
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_TOPIC_ID_VERSION = 10
_BATCHED_FETCH = 8
_TOP_LEVEL_ERROR = 2


class GroupOffsetsApi:
    def __init__(self, groups: GroupCoordinator, controller: Controller) -> None:
        self._groups = groups
        self._controller = controller

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.OFFSET_COMMIT, versions(2, 10), self.commit),
            Route(ApiKey.OFFSET_FETCH, versions(1, 10), self.fetch),
            Route(ApiKey.OFFSET_DELETE, versions(0, 0), self.delete),
        )

    async def commit(self, call: Call[OffsetCommitRequest]) -> OffsetCommitResponse:
        """OffsetCommit. Offsets of topics that do not exist are refused one by one, the others are committed."""
        ask = call.request
        response = OffsetCommitResponse()
        wanted: list[asks.OffsetToCommit] = []
        results: list[OffsetCommitResponsePartition] = []
        for topic in ask.topics:
            answer = OffsetCommitResponseTopic(topic.name, topic.topic_id)
            response.topics.append(answer)
            image = self._topic(topic, call.version)
            for one in topic.partitions:
                result = OffsetCommitResponsePartition(one.partition_index)
                answer.partitions.append(result)
                if image is None:
                    result.error_code = int(_unknown(call.version))
                elif not 0 <= one.partition_index < len(image.partitions):
                    result.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted.append(
                        asks.OffsetToCommit(
                            image.name,
                            one.partition_index,
                            one.committed_offset,
                            one.committed_leader_epoch,
                            one.committed_metadata,
                            image.id,
                        )
                    )
                    results.append(result)
        for result, error in zip(results, await self._commit(call, wanted), strict=True):
            result.error_code = int(error)
        return response

    async def _commit(self, call: Call[OffsetCommitRequest], offsets: list[asks.OffsetToCommit]) -> Iterable[ErrorCode]:
        ask = call.request
        commit = asks.OffsetCommit(
            group_id=ask.group_id,
            offsets=tuple(offsets),
            member_id=ask.member_id,
            group_instance_id=ask.group_instance_id,
            generation_id_or_member_epoch=ask.generation_id_or_member_epoch,
            api_version=call.version,
            retention_ms=ask.retention_time_ms,
        )
        try:
            reply: asks.OffsetCommitReply = await self._groups.ask(
                ask.group_id, lambda core, now_ms: core.commit_offsets(commit, now_ms)
            )
        except Refused as refusal:
            return [refusal.code] * len(offsets)
        return reply.errors

    def _topic(self, topic: OffsetCommitRequestTopic, version: int) -> TopicImage | None:
        image = self._controller.image
        if version >= _TOPIC_ID_VERSION:
            return image.topics_by_id.get(topic.topic_id)
        return image.topics_by_name.get(topic.name)

    async def fetch(self, call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
        """OffsetFetch. v7 can ask for stable offsets only, v8 for several groups, v9 tells the member's epoch."""
        ask = call.request
        if call.version >= _BATCHED_FETCH:
            return OffsetFetchResponse(groups=[await self._fetch_group(one, call) for one in ask.groups])
        topics = None
        if ask.topics is not None:
            topics = [OffsetFetchRequestTopics(one.name, ZERO_UUID, one.partition_indexes) for one in ask.topics]
        found = await self._fetch_group(OffsetFetchRequestGroup(ask.group_id, topics=topics), call)
        response = OffsetFetchResponse(error_code=found.error_code)
        if found.error_code and call.version < _TOP_LEVEL_ERROR:
            found.topics = [
                OffsetFetchResponseTopics(
                    one.name,
                    partitions=[
                        OffsetFetchResponsePartitions(index, -1, -1, "", found.error_code)
                        for index in one.partition_indexes
                    ],
                )
                for one in topics or ()
            ]
        for topic in found.topics:
            partitions = [
                OffsetFetchResponsePartition(
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.metadata,
                    one.error_code,
                )
                for one in topic.partitions
            ]
            response.topics.append(OffsetFetchResponseTopic(topic.name, partitions))
        return response

    async def _fetch_group(
        self, group: OffsetFetchRequestGroup, call: Call[OffsetFetchRequest]
    ) -> OffsetFetchResponseGroup:
        answer = OffsetFetchResponseGroup(group.group_id)
        by_id = call.version >= _TOPIC_ID_VERSION
        image = self._controller.image
        topics: list[tuple[str, tuple[int, ...]]] | None = None if group.topics is None else []
        for one in group.topics or ():
            known = image.topics_by_id.get(one.topic_id) if by_id else None
            if by_id and known is None:
                code = int(ErrorCode.UNKNOWN_TOPIC_ID)
                refused = [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in one.partition_indexes]
                answer.topics.append(OffsetFetchResponseTopics("", one.topic_id, refused))
            elif topics is not None:
                topics.append((known.name if known is not None else one.name, tuple(one.partition_indexes)))
        fetch = asks.OffsetFetch(
            group_id=group.group_id,
            topics=None if topics is None else tuple(topics),
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            require_stable=call.request.require_stable,
        )
        try:
            reply: asks.OffsetFetchReply = await self._groups.ask(
                group.group_id, lambda core, now_ms: core.fetch_offsets(fetch, now_ms)
            )
        except Refused as refusal:
            return OffsetFetchResponseGroup(group.group_id, error_code=int(refusal.code))
        for name, offsets in reply.topics:
            topic = image.topics_by_name.get(name)
            if by_id and topic is None:
                continue
            partitions = [
                OffsetFetchResponsePartitions(one.partition, one.offset, one.leader_epoch, one.metadata, int(one.error))
                for one in offsets
            ]
            topic_id = topic.id if topic is not None else ZERO_UUID
            answer.topics.append(OffsetFetchResponseTopics(name, topic_id, partitions))
        return answer

    async def delete(self, call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
        """OffsetDelete: forget offsets of topics that the group is not subscribed to (KIP-496)."""
        ask = call.request
        response = OffsetDeleteResponse()
        wanted: list[tuple[str, int]] = []
        results: list[OffsetDeleteResponsePartition] = []
        for topic in ask.topics:
            answer = OffsetDeleteResponseTopic(topic.name)
            response.topics.append(answer)
            for one in topic.partitions:
                result = OffsetDeleteResponsePartition(one.partition_index)
                answer.partitions.append(result)
                if self._controller.image.partition(topic.name, one.partition_index) is None:
                    result.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted.append((topic.name, one.partition_index))
                    results.append(result)
        delete = asks.OffsetDelete(ask.group_id, tuple(wanted))
        reply: asks.OffsetDeleteReply = await self._groups.ask(
            ask.group_id, lambda core, now_ms: core.delete_offsets(delete, now_ms)
        )
        for result, error in zip(results, reply.errors, strict=True):
            result.error_code = int(error)
        return response


def _unknown(version: int) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_ID_VERSION else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
