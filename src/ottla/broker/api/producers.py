"""InitProducerId and DescribeProducers: who may produce idempotently, and who does."""

import asyncio

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.broker.route import Call, Route, answering, versions
from ottla.core.metadata.asks import ProducerIdBlock
from ottla.runtime.controller import Controller
from ottla.runtime.replicas import Replicas
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = structlog.get_logger(__name__)

_NOBODY = -1
_PREFETCH_AT = 0.1
"""The part of a block that is left when the next one is asked for."""


class ProducersApi:
    def __init__(self, controller: Controller, replicas: Replicas, config: BrokerConfig) -> None:
        self._replicas = replicas
        self._ids = ProducerIds(controller, int(config.node_id))

    def routes(self) -> tuple[Route, ...]:
        return (
            # Version 6 (two-phase commit, KIP-939) is not settled, and Kafka does not advertise it.
            Route(ApiKey.INIT_PRODUCER_ID, versions(0, 5), self.init),
            Route(ApiKey.DESCRIBE_PRODUCERS, versions(0, 0), self.describe),
        )

    async def init(self, call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
        """InitProducerId: a new id for an idempotent producer. v3 may name an old id and epoch together (KIP-360)."""
        ask = call.request
        response = InitProducerIdResponse(producer_id=_NOBODY, producer_epoch=_NOBODY)
        with answering(response):
            if ask.transactional_id == "":
                raise Refused(ErrorCode.INVALID_REQUEST, "an empty transactional id")
            if (ask.producer_id == _NOBODY) != (ask.producer_epoch == _NOBODY):
                raise Refused(ErrorCode.INVALID_REQUEST, "a producer id without an epoch, or an epoch without an id")
            if ask.transactional_id is not None:
                # A code that clients take for final: a retriable one would have them wait for what does not come.
                raise Refused(ErrorCode.UNSUPPORTED_VERSION, "transactions are not served yet")
            response.producer_id = await self._ids.next()
            response.producer_epoch = 0
        return response

    async def describe(self, call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
        """DescribeProducers: the producers that a partition's leader remembers (KIP-664)."""
        response = DescribeProducersResponse()
        for topic, indexes in {each.name: each.partition_indexes for each in call.request.topics}.items():
            answer = TopicResponse(topic)
            response.topics.append(answer)
            for index in dict.fromkeys(indexes):
                result = PartitionResponse(index)
                answer.partitions.append(result)
                with answering(result):
                    result.active_producers = self._active(topic, index)
        return response

    def _active(self, topic: str, index: int) -> list[ProducerState]:
        partition = self._replicas.find(topic, index)
        partition.led()
        return [
            ProducerState(
                producer.producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
            for producer in partition.log.producers
        ]


class ProducerIds:
    """Ids out of blocks that belong to this broker alone. The next block comes before the current one is used up."""

    def __init__(self, controller: Controller, me: int) -> None:
        self._controller = controller
        self._me = me
        self._next = self._end = 0
        self._prefetch_at = 0
        self._coming: asyncio.Task[ProducerIdBlock] | None = None

    async def next(self) -> int:
        while self._next == self._end:
            await self._take_block()
        taken = self._next
        self._next += 1
        if self._end - self._next <= self._prefetch_at:
            self._fetch()
        return taken

    async def _take_block(self) -> None:
        coming = self._fetch()
        try:
            block = await asyncio.shield(coming)
        except Refused as refusal:
            # Clients ask again after this code, and there may be a controller by then.
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refusal.why) from None
        finally:
            if self._coming is coming and coming.done():
                self._coming = None
        if self._next == self._end and block.first >= self._end:
            # Of all that waited for this block only the first takes it over.
            self._next, self._end = block.first, block.first + block.count
            self._prefetch_at = int(block.count * _PREFETCH_AT)

    def _fetch(self) -> asyncio.Task[ProducerIdBlock]:
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(self._allocate(), name="producer ids")
            self._coming.add_done_callback(_report)
        return self._coming

    async def _allocate(self) -> ProducerIdBlock:
        broker = self._controller.image.brokers.get(self._me)
        if broker is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, "this broker is not registered yet")
        return await self._controller.allocate_producer_ids(self._me, broker.epoch)


def _report(task: asyncio.Task[ProducerIdBlock]) -> None:
    if not task.cancelled() and isinstance(task.exception(), Refused):
        log.warning("producer ids not allocated", reason=str(task.exception()))
