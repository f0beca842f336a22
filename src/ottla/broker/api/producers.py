"""InitProducerId and DescribeProducers: who may produce idempotently or in transactions, and who does."""

from ottla.base.errors import ErrorCode, Refused
from ottla.broker.route import Call, Route, answering, versions
from ottla.core.metadata.topics import check_topic_name
from ottla.core.transactions.asks import Decision, InitProducerId, InitProducerIdReply
from ottla.core.transactions.shard import TransactionShard
from ottla.runtime.replicas import Replicas
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NOBODY = -1
_KNOWS_FENCED_VERSION = 4


class ProducersApi:
    def __init__(self, replicas: Replicas, transactions: TransactionCoordinator) -> None:
        self._replicas = replicas
        self._transactions = transactions

    def routes(self) -> tuple[Route, ...]:
        return (
            # Version 6 (two-phase commit, KIP-939) is not settled, and Kafka does not advertise it.
            Route(ApiKey.INIT_PRODUCER_ID, versions(0, 6, advertised_last=5), self.init),
            Route(ApiKey.DESCRIBE_PRODUCERS, versions(0, 0), self.describe),
        )

    async def init(self, call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
        """InitProducerId: who the producer is. v3 may name an old id and epoch together (KIP-360), v6 asks for
        two-phase commit (KIP-939)."""
        ask = call.request
        response = InitProducerIdResponse(producer_id=_NOBODY, producer_epoch=_NOBODY)
        with answering(response):
            if ask.transactional_id == "":
                raise Refused(ErrorCode.INVALID_REQUEST, "an empty transactional id")
            if (ask.producer_id == _NOBODY) != (ask.producer_epoch == _NOBODY):
                raise Refused(ErrorCode.INVALID_REQUEST, "a producer id without an epoch, or an epoch without an id")
            if ask.transactional_id is None:
                response.producer_id = await self._transactions.ids.next()
                response.producer_epoch = 0
            else:
                await self._init_transactional(ask.transactional_id, ask, response)
        if response.error_code == ErrorCode.PRODUCER_FENCED and call.version < _KNOWS_FENCED_VERSION:
            response.error_code = int(ErrorCode.INVALID_PRODUCER_EPOCH)
        return response

    async def _init_transactional(
        self, transactional_id: str, ask: InitProducerIdRequest, response: InitProducerIdResponse
    ) -> None:
        def decide(core: TransactionShard, now_ms: int, new_producer_id: int) -> Decision:
            init = InitProducerId(
                transactional_id=transactional_id,
                timeout_ms=ask.transaction_timeout_ms,
                producer_id=ask.producer_id,
                producer_epoch=ask.producer_epoch,
                enable_two_phase_commit=ask.enable2_pc,
                keep_prepared=ask.keep_prepared_txn,
                new_producer_id=new_producer_id,
            )
            return core.init_producer_id(init, now_ms)

        reply: InitProducerIdReply = await self._transactions.ask_with_id(transactional_id, decide)
        response.error_code = int(reply.error)
        response.producer_id, response.producer_epoch = reply.producer_id, reply.producer_epoch
        response.ongoing_txn_producer_id = reply.ongoing_producer_id
        response.ongoing_txn_producer_epoch = reply.ongoing_producer_epoch

    async def describe(self, call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
        """DescribeProducers: the producers that a partition's leader remembers (KIP-664).

        Each partition is answered once, however often it is named: an answer may be long.
        """
        response = DescribeProducersResponse()
        wanted: dict[str, dict[int, None]] = {}
        for asked in call.request.topics:
            wanted.setdefault(asked.name, {}).update(dict.fromkeys(asked.partition_indexes))
        for topic, indexes in wanted.items():
            answer = TopicResponse(topic)
            response.topics.append(answer)
            for index in indexes:
                result = PartitionResponse(index)
                answer.partitions.append(result)
                with answering(result):
                    check_topic_name(topic)
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
