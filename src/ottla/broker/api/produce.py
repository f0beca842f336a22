"""Produce: batches go from the request's memory into the log, unopened.

The appends of all partitions happen in the first step, while the request's memory is valid; only acknowledgements are
waited for. The first batch of a transaction is kept until its coordinator has been asked (KIP-890): up to version 11
whether the partition is in the transaction, from version 12 on to put it there. Version 13 names topics by id; versions
below 3 carry formats that ended with Kafka 4.0, and are advertised only because older librdkafka compresses nothing
unless it sees version 0 (KAFKA-18659).
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import INTERNAL_TOPICS
from ottla.broker.route import Call, Route, answering, versions
from ottla.net.connection import Hangup
from ottla.runtime.admission import Admissions, Entrant, Place
from ottla.runtime.partition import NOT_ADMITTED, Admission, BadRecords, Partition
from ottla.runtime.replicas import Replicas
from ottla.wire.batch_header import CODEC_MASK, TRANSACTIONAL, read_header
from ottla.wire.compression import Codec
from ottla.wire.malformed import Malformed
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
_ADDS_PARTITIONS_VERSION = 12
_KNOWS_ABORTABLE_VERSION = 11
_ZSTD_VERSION = 7
_COORDINATION = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)
_NOBODY: Mapping[int, Admission | Refused] = MappingProxyType({})
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
    def __init__(self, replicas: Replicas, admissions: Admissions, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._admissions = admissions
        self._now_ms = now_ms

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.PRODUCE, versions(3, 13, advertised_first=0), self.produce),)

    async def produce(self, call: Call[ProduceRequest]) -> ProduceResponse | None:
        ask = call.request
        admitted = _NOBODY if ask.transactional_id is None else await self._admit(call)
        now_ms = self._now_ms()
        waiting: list[_Waiting] = []
        response = ProduceResponse()
        for topic in ask.topic_data:
            answer = TopicProduceResponse(topic.name, topic.topic_id)
            for data in topic.partition_data:
                result = PartitionProduceResponse(data.index, 0, -1, -1, -1)
                answer.partition_responses.append(result)
                try:
                    admission = admitted.get(id(data), NOT_ADMITTED) if admitted else NOT_ADMITTED
                    if isinstance(admission, Refused):
                        raise admission
                    self._append(call, topic, data, result, admission, now_ms, waiting)
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
        admission: Admission,
        now_ms: int,
        waiting: list[_Waiting],
    ) -> None:
        acks = call.request.acks
        if acks not in _ACKS:
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {acks}")
        partition = self._find(topic, data.index, call.version)
        if partition.key.topic in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only coordinators write to {partition.key.topic}")
        records = data.records
        assert records is None or isinstance(records, memoryview)
        if records is not None and len(records) > _ATTRIBUTES_AT:
            _check_attributes(records[_ATTRIBUTES_AT], call)
        result.log_start_offset = partition.log.start_offset
        appended = partition.append(records, acks, now_ms, admission)
        result.base_offset = appended.base_offset
        result.log_append_time_ms = appended.log_append_time_ms
        result.log_start_offset = appended.log_start_offset
        future = partition.acknowledged(appended.end_offset, acks)
        if future is not None:
            waiting.append(_Waiting(result, partition, future))

    def _find(self, topic: TopicProduceData, index: int, version: int) -> Partition:
        if version >= _TOPIC_ID_VERSION:
            return self._replicas.find_by_id(topic.topic_id, index)
        return self._replicas.find(topic.name, index)

    async def _admit(self, call: Call[ProduceRequest]) -> Mapping[int, Admission | Refused]:
        """What the coordinator says of each transactional batch, by the identity of its place in the request."""
        entering = self._entering(call) if call.request.acks in _ACKS else {}
        if any(
            not partition.log.producers.has_open(entrant.producer_id, entrant.producer_epoch)
            for entrant, places in entering.items()
            for _, (partition, _) in places
        ):
            _keep(call.request)
        admitted: dict[int, Admission | Refused] = {}
        for entrant, places in entering.items():
            answers = await self._admissions.ask(entrant, [place for _, place in places])
            for (data, _), answer in zip(places, answers, strict=True):
                admitted[id(data)] = _to_producer(answer, call.version) if isinstance(answer, Refused) else answer
        return admitted

    def _entering(self, call: Call[ProduceRequest]) -> dict[Entrant, list[tuple[PartitionProduceData, Place]]]:
        """Sound transactional batches for partitions that are here, by producer; the rest is refused later on."""
        ask = call.request
        assert ask.transactional_id is not None
        entering: dict[Entrant, list[tuple[PartitionProduceData, Place]]] = {}
        for topic in ask.topic_data:
            for data in topic.partition_data:
                records = data.records
                assert records is None or isinstance(records, memoryview)
                try:
                    header = read_header(records or b"")
                    partition = self._find(topic, data.index, call.version)
                    partition.led()
                except (Malformed, Refused):
                    continue
                if header.is_transactional and header.producer_id >= 0:
                    is_adding = call.version >= _ADDS_PARTITIONS_VERSION
                    entrant = Entrant(ask.transactional_id, header.producer_id, header.producer_epoch, is_adding)
                    entering.setdefault(entrant, []).append((data, Place(partition, header.base_sequence)))
        return entering


def _keep(ask: ProduceRequest) -> None:
    """Have the batches outlive the first step."""
    for topic in ask.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))


def _to_producer(refusal: Refused, version: int) -> Refused:
    """What the coordinator says, in words that producers of this version know what to do with."""
    code = refusal.code
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE_VERSION:
        code = ErrorCode.INVALID_TXN_STATE
    elif code in _COORDINATION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_PARTITIONS_VERSION):
        # Producers try again after this one, and do not ask for new metadata first.
        return Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified for now: {code.name} ({refusal.why})"
        )
    return Refused(code, refusal.why)


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
