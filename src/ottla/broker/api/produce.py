"""Produce: batches go from the request's memory into the log, unopened.

The appends of all partitions happen in the first step, while the request's memory is valid; only acknowledgements are
waited for. Version 13 names topics by id; versions below 3 carry formats that ended with Kafka 4.0, and are advertised
only because older librdkafka compresses nothing unless it sees version 0 (KAFKA-18659).
"""

import asyncio
from collections.abc import Callable

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import INTERNAL_TOPICS
from ottla.broker.route import Call, Route, answering, versions
from ottla.net.connection import Hangup
from ottla.runtime.partition import BadRecords, Partition
from ottla.runtime.replicas import Replicas
from ottla.wire.batch_header import CODEC_MASK, TRANSACTIONAL
from ottla.wire.compression import Codec
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_ADMIN_CLIENT = "__admin_client"
"""The name under which Kafka's own tools may write to internal topics."""
_ACKS = (-1, 0, 1)
_TOPIC_ID_VERSION = 13
_ZSTD_VERSION = 7
_ATTRIBUTES_AT = 22
"""The low byte of a batch's attributes."""


class _Waiting:
    """An answer that is complete once its batch is as safe as the producer asked for."""

    __slots__ = ("future", "partition", "result")

    def __init__(self, result: PartitionProduceResponse, partition: Partition, future: asyncio.Future[None]) -> None:
        self.result = result
        self.partition = partition
        self.future = future


class ProduceApi:
    def __init__(self, replicas: Replicas, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._now_ms = now_ms

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.PRODUCE, versions(3, 13, advertised_first=0), self.produce),)

    async def produce(self, call: Call[ProduceRequest]) -> ProduceResponse | None:
        ask = call.request
        now_ms = self._now_ms()
        waiting: list[_Waiting] = []
        response = ProduceResponse()
        for topic in ask.topic_data:
            answer = TopicProduceResponse(topic.name, topic.topic_id)
            for data in topic.partition_data:
                result = PartitionProduceResponse(data.index, 0, -1, -1, -1)
                answer.partition_responses.append(result)
                try:
                    self._append(call, topic, data, result, now_ms, waiting)
                except Refused as refusal:
                    _refuse(result, refusal)
            response.responses.append(answer)
        if ask.acks == 0:
            _hang_up_on_failure(response)
            return None
        if waiting:
            await _acknowledge(waiting, ask.timeout_ms)
        return response

    def _append(
        self,
        call: Call[ProduceRequest],
        topic: TopicProduceData,
        data: PartitionProduceData,
        result: PartitionProduceResponse,
        now_ms: int,
        waiting: list[_Waiting],
    ) -> None:
        acks = call.request.acks
        if acks not in _ACKS:
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {acks}")
        if call.version >= _TOPIC_ID_VERSION:
            partition = self._replicas.find_by_id(topic.topic_id, data.index)
        else:
            partition = self._replicas.find(topic.name, data.index)
        if partition.key.topic in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only coordinators write to {partition.key.topic}")
        records = data.records
        assert records is None or isinstance(records, memoryview)
        if records is not None and len(records) > _ATTRIBUTES_AT:
            _check_attributes(records[_ATTRIBUTES_AT], call)
        result.log_start_offset = partition.log.start_offset
        appended = partition.append(records, acks, now_ms)
        result.base_offset = appended.base_offset
        result.log_append_time_ms = appended.log_append_time_ms
        result.log_start_offset = appended.log_start_offset
        future = partition.acknowledged(appended.end_offset, acks)
        if future is not None:
            waiting.append(_Waiting(result, partition, future))


def _check_attributes(attributes: int, call: Call[ProduceRequest]) -> None:
    """What the request around a batch says about it."""
    if attributes & TRANSACTIONAL and call.request.transactional_id is None:
        raise Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without a transactional id",
        )
    if call.version < _ZSTD_VERSION and attributes & CODEC_MASK == Codec.ZSTD:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce v{_ZSTD_VERSION} or later (KIP-110)")


def _refuse(result: PartitionProduceResponse, refusal: Refused) -> None:
    result.error_code = int(refusal.code)
    result.error_message = refusal.why
    result.base_offset = -1
    if isinstance(refusal, BadRecords):
        result.record_errors = [BatchIndexAndErrorMessage(index, why) for index, why in refusal.records]


def _hang_up_on_failure(response: ProduceResponse) -> None:
    """acks=0 is never answered; the only way to report a failure is to hang up, and the client then looks again."""
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code:
                raise Hangup(f"a Produce with acks=0 failed: {result.error_message}")


async def _acknowledge(waiting: list[_Waiting], timeout_ms: int) -> None:
    pending = [one.future for one in waiting if not one.future.done()]
    if pending:
        await asyncio.wait(pending, timeout=max(timeout_ms, 0) / 1000)
    for one in waiting:
        with answering(one.result):
            if not one.future.done():
                raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"not acknowledged within {timeout_ms} ms")
            one.future.result()
            leader = one.partition.leader
            if leader is not None and not leader.has_enough_in_sync:
                raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "too few replicas are in sync")
