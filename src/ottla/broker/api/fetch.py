"""Fetch: file slices of whole batches, by long poll.

A fetch that finds less than `min_bytes` waits until some high watermark moves, or for `max_wait_ms`. At least one batch
is answered however small the limits are (KIP-74). Fetch sessions (KIP-227) are declined with session id 0. Version 12
reports diverging epochs to followers, version 13 names topics by id.
"""

import asyncio

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import PARTITIONS_PER_REQUEST_MAX
from ottla.base.types import Epoch, Offset
from ottla.broker.route import Call, Route, versions
from ottla.core.replication.epochs import UNDEFINED
from ottla.runtime.partition import Partition, Read
from ottla.runtime.replicas import Replicas
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.index import ApiKey

_TOPIC_ID_VERSION = 13
_READ_COMMITTED = 1
_FINAL_EPOCH = -1


class FetchApi:
    def __init__(self, replicas: Replicas, response_bytes_max: int) -> None:
        self._replicas = replicas
        self._response_bytes_max = response_bytes_max

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.FETCH, versions(4, 18), self.fetch),)

    async def fetch(self, call: Call[FetchRequest]) -> FetchResponse:
        ask = call.request
        refusal = _whole_refusal(ask)
        if refusal is not None:
            return FetchResponse(0, int(refusal))
        reading = _Reading(self._replicas, call, min(ask.max_bytes, self._response_bytes_max))
        response = reading.read()
        if reading.is_enough or ask.max_wait_ms <= 0 or not reading.partitions:
            return response
        return await reading.read_within(ask.max_wait_ms)


def _whole_refusal(ask: FetchRequest) -> ErrorCode | None:
    # Epoch 0 asks for everything anew, whatever session the client had before, perhaps with another node of this id.
    if ask.session_epoch not in (0, _FINAL_EPOCH):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if ask.isolation_level not in (0, _READ_COMMITTED):
        return ErrorCode.INVALID_REQUEST
    if sum([len(topic.partitions) for topic in ask.topics]) > PARTITIONS_PER_REQUEST_MAX:
        return ErrorCode.INVALID_REQUEST
    return None


class _Reading:
    """One Fetch: it may be read several times, until it has found enough or its time is over."""

    __slots__ = (
        "_bytes_left",
        "_bytes_max",
        "_call",
        "_committed_only",
        "_is_follower",
        "_replicas",
        "is_enough",
        "partitions",
    )

    def __init__(self, replicas: Replicas, call: Call[FetchRequest], bytes_max: int) -> None:
        ask = call.request
        self._replicas = replicas
        self._call = call
        self._bytes_max = bytes_max
        self._committed_only = ask.isolation_level == _READ_COMMITTED
        self._is_follower = max(ask.replica_id, ask.replica_state.replica_id) >= 0
        self.is_enough = False
        self.partitions: list[Partition] = []

    def read(self) -> FetchResponse:
        self.partitions.clear()
        self.is_enough = False
        self._bytes_left = self._bytes_max
        response = FetchResponse()
        for topic in self._call.request.topics:
            answer = FetchableTopicResponse(topic.topic, topic.topic_id)
            for ask in topic.partitions:
                result = PartitionData(ask.partition, 0, -1, records=b"")
                answer.partitions.append(result)
                try:
                    self._read_partition(topic, ask, result)
                except Refused as refusal:
                    result.error_code = int(refusal.code)
                    result.aborted_transactions = None
                    self.is_enough = True
            response.responses.append(answer)
        # More than the client takes is never waited for.
        if self._bytes_max - self._bytes_left >= min(self._call.request.min_bytes, self._bytes_max):
            self.is_enough = True
        return response

    async def read_within(self, wait_ms: int) -> FetchResponse:
        """Read again whenever a partition has grown, for as long as the client is willing to wait."""
        loop = asyncio.get_running_loop()
        watched = list(self.partitions)
        grown = loop.create_future()
        is_over = False

        def wake(_: int) -> None:
            if not grown.done():
                grown.set_result(None)

        def expire() -> None:
            # The timer says so itself: a look at the clock may find it a hair early, and no other timer is left.
            nonlocal is_over
            is_over = True
            wake(0)

        for partition in watched:
            partition.watch(wake)
        timer = loop.call_later(wait_ms / 1000, expire)
        try:
            while True:
                await grown
                response = self.read()
                if self.is_enough or is_over:
                    return response
                grown = loop.create_future()
        finally:
            timer.cancel()
            for partition in watched:
                partition.unwatch(wake)

    def _read_partition(self, topic: FetchTopic, ask: FetchPartition, result: PartitionData) -> None:
        if self._call.version >= _TOPIC_ID_VERSION:
            partition = self._replicas.find_by_id(topic.topic_id, ask.partition)
        else:
            partition = self._replicas.find(topic.topic, ask.partition)
        partition.led(ask.current_leader_epoch)
        if self._is_follower:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the asker is no replica of this partition")
        self.partitions.append(partition)
        if ask.last_fetched_epoch >= 0 and self._diverges(partition, ask, result):
            return
        bytes_max = min(ask.partition_max_bytes, self._bytes_left)
        is_first = self._bytes_left == self._bytes_max and bytes_max >= 0
        read = partition.read(ask.fetch_offset, max(bytes_max, 0), self._committed_only, is_first)
        self._fill(result, read)

    def _fill(self, result: PartitionData, read: Read) -> None:
        result.high_watermark = read.high_watermark
        result.last_stable_offset = read.last_stable_offset
        result.log_start_offset = read.log_start_offset
        if not self._committed_only:
            result.aborted_transactions = None
        elif read.aborted:
            result.aborted_transactions = [AbortedTransaction(*one) for one in read.aborted]
        if read.slices:
            result.records = read.slices
            self._bytes_left -= read.slices.size

    def _diverges(self, partition: Partition, ask: FetchPartition, result: PartitionData) -> bool:
        """KIP-595: the asker's log took another turn than ours; tell it where, and send no data."""
        end = partition.log.epochs.end_offset_for(Epoch(ask.last_fetched_epoch), Offset(partition.log.end_offset))
        if end == UNDEFINED:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {ask.last_fetched_epoch} is not known here")
        if end.epoch >= ask.last_fetched_epoch and end.end_offset >= ask.fetch_offset:
            return False
        result.diverging_epoch = EpochEndOffset(end.epoch, end.end_offset)
        result.aborted_transactions = None
        self.is_enough = True
        return True
