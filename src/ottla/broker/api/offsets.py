"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where a log begins and ends, by offset, time and epoch."""

from collections.abc import Awaitable, Callable, Iterable

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import NO_EPOCH, Epoch, Offset
from ottla.broker.route import Call, Route, answering, versions
from ottla.runtime.partition import Partition
from ottla.runtime.replicas import Replicas
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED = 1


class OffsetsApi:
    def __init__(self, replicas: Replicas, keep_start_offsets: Callable[[], Awaitable[None]]) -> None:
        self._replicas = replicas
        self._keep_start_offsets = keep_start_offsets

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.LIST_OFFSETS, versions(1, 11), self.list_offsets),
            Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions(2, 4), self.offset_for_leader_epoch),
            Route(ApiKey.DELETE_RECORDS, versions(0, 2), self.delete_records),
        )

    async def list_offsets(self, call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
        """ListOffsets. v4 adds leader epochs, v7 the largest timestamp, v8, v9 and v11 remote storage."""
        ask = call.request
        twice = _named_twice((topic.name, one.partition_index) for topic in ask.topics for one in topic.partitions)
        refused_twice: set[tuple[str, int]] = set()
        response = ListOffsetsResponse()
        for topic in ask.topics:
            answer = ListOffsetsTopicResponse(topic.name)
            for one in topic.partitions:
                key = (topic.name, one.partition_index)
                if key in refused_twice:
                    continue
                result = ListOffsetsPartitionResponse(one.partition_index)
                answer.partitions.append(result)
                with answering(result):
                    if key in twice:
                        refused_twice.add(key)
                        raise Refused(ErrorCode.INVALID_REQUEST, "the partition is named twice")
                    if ask.isolation_level not in (0, _READ_COMMITTED):
                        raise Refused(ErrorCode.INVALID_REQUEST, f"isolation level {ask.isolation_level}")
                    partition = self._replicas.find(topic.name, one.partition_index)
                    self._list(partition, one, call, result)
            response.topics.append(answer)
        return response

    def _list(
        self,
        partition: Partition,
        one: ListOffsetsPartition,
        call: Call[ListOffsetsRequest],
        result: ListOffsetsPartitionResponse,
    ) -> None:
        leader = partition.led(one.current_leader_epoch)
        asked = one.timestamp
        if asked < EARLIEST_PENDING_UPLOAD or call.version < _SINCE_VERSION.get(asked, 0):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked} in version {call.version}")
        log = partition.log
        committed_only = call.request.isolation_level == _READ_COMMITTED
        limit = partition.last_stable_offset if committed_only else partition.high_watermark
        if asked == LATEST:
            result.offset, result.leader_epoch = limit, leader.term.epoch
        elif asked in (EARLIEST, EARLIEST_LOCAL):
            result.offset = log.start_offset
            result.leader_epoch = log.epochs.epoch_at(Offset(log.start_offset))
        elif asked == MAX_TIMESTAMP or asked >= 0:
            found = log.max_timestamp_offset() if asked == MAX_TIMESTAMP else log.offset_for_timestamp(asked)
            if found is not None and found[1] < limit:
                result.timestamp, result.offset, result.leader_epoch = found

    async def offset_for_leader_epoch(self, call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
        """OffsetForLeaderEpoch: where the largest epoch up to the asked one ends (KIP-320)."""
        response = OffsetForLeaderEpochResponse()
        for topic in call.request.topics:
            answer = OffsetForLeaderTopicResult(topic.topic)
            for one in topic.partitions:
                result = EpochEndOffset(0, one.partition)
                answer.partitions.append(result)
                with answering(result):
                    partition = self._replicas.find(topic.topic, one.partition)
                    partition.led(one.current_leader_epoch)
                    if one.current_leader_epoch < NO_EPOCH:
                        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, "a leader epoch below -1")
                    end_offset = Offset(partition.high_watermark)
                    end = partition.log.epochs.end_offset_for(Epoch(one.leader_epoch), end_offset)
                    result.leader_epoch, result.end_offset = end.epoch, end.end_offset
            response.topics.append(answer)
        return response

    async def delete_records(self, call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
        """DeleteRecords: everything before an offset; -1 is the high watermark (KIP-107).

        Answered once the new starts are on disk: what was said to be deleted does not come back with a crash.
        """
        response = DeleteRecordsResponse()
        for topic in call.request.topics:
            answer = DeleteRecordsTopicResult(topic.name)
            for one in topic.partitions:
                result = DeleteRecordsPartitionResult(one.partition_index, -1)
                answer.partitions.append(result)
                with answering(result):
                    partition = self._replicas.find(topic.name, one.partition_index)
                    result.low_watermark = partition.delete_before(one.offset)
            response.topics.append(answer)
        await self._keep_start_offsets()
        for answer in response.topics:
            for result in answer.partitions:
                with answering(result):
                    if not result.error_code:
                        self._replicas.find(answer.name, result.partition_index)  # its directory may have failed
        return response


def _named_twice(keys: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for key in keys:
        (twice if key in seen else seen).add(key)
    return twice
