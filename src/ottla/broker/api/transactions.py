"""Transactions as producers speak of them: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. Offsets: `txn_offsets.py`."""

from collections.abc import Iterable, Iterator, Sequence

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import INTERNAL_TOPICS
from ottla.broker.route import Call, Route, answering, versions
from ottla.core.groups.placement import partition_for
from ottla.core.transactions import asks
from ottla.core.transactions.records import TopicPartition
from ottla.runtime.controller import Controller
from ottla.runtime.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.index import ApiKey

_KNOWS_FENCED_VERSION = 2
_BATCHED_ADD_VERSION = 4
_BUMPS_EPOCH_VERSION = 5


class TransactionsApi:
    def __init__(self, transactions: TransactionCoordinator, groups: GroupCoordinator, controller: Controller) -> None:
        self._transactions = transactions
        self._groups = groups
        self._controller = controller

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.ADD_PARTITIONS_TO_TXN, versions(0, 5), self.add_partitions),
            Route(ApiKey.ADD_OFFSETS_TO_TXN, versions(0, 4), self.add_offsets),
            Route(ApiKey.END_TXN, versions(0, 5), self.end),
        )

    async def add_partitions(self, call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
        """AddPartitionsToTxn. From v4 on brokers ask, for several transactions at once, or only verify (KIP-890)."""
        ask = call.request
        if call.version >= _BATCHED_ADD_VERSION:
            results = [
                AddPartitionsToTxnResult(one.transactional_id, await self._add(one, call.version))
                for one in ask.transactions
            ]
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        one = AddPartitionsToTxnTransaction(
            ask.v3_and_below_transactional_id,
            ask.v3_and_below_producer_id,
            ask.v3_and_below_producer_epoch,
            False,
            ask.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await self._add(one, call.version))

    async def _add(self, ask: AddPartitionsToTxnTransaction, version: int) -> list[AddPartitionsToTxnTopicResult]:
        topics = _merged(ask.topics) if ask.verify_only else ask.topics
        places = tuple(_places(topics))
        unknown = {place for place in places if not self._may_be_added(place, version)}
        if unknown:
            # All or none: those that could be added are told that nobody has tried.
            codes = [_unknown(place) if place in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED for place in places]
            return _results(topics, codes)
        try:
            if ask.verify_only:
                verify = asks.VerifyPartitions(
                    transactional_id=ask.transactional_id,
                    producer_id=ask.producer_id,
                    producer_epoch=ask.producer_epoch,
                    partitions=places,
                )
                verified: asks.VerifyPartitionsReply = await self._transactions.ask(
                    ask.transactional_id, lambda core, now_ms: core.verify_partitions(verify, now_ms)
                )
                return _results(topics, verified.errors)
            add = asks.AddPartitions(
                transactional_id=ask.transactional_id,
                producer_id=ask.producer_id,
                producer_epoch=ask.producer_epoch,
                partitions=frozenset(places),
                transaction_version=2 if version >= _BATCHED_ADD_VERSION else 0,
            )
            reply: asks.AddPartitionsReply = await self._transactions.ask(
                ask.transactional_id, lambda core, now_ms: core.add_partitions(add, now_ms)
            )
        except Refused as refusal:
            return _results(topics, [_known(refusal.code, version)] * len(places))
        return _results(topics, [reply.error] * len(places))

    def _may_be_added(self, place: TopicPartition, version: int) -> bool:
        """Producers write to no internal topic; offsets are added by AddOffsetsToTxn, and by brokers."""
        topic, index = place
        if topic in INTERNAL_TOPICS and (topic != OFFSETS_TOPIC or version < _BATCHED_ADD_VERSION):
            return False
        return self._controller.image.partition(topic, index) is not None

    async def add_offsets(self, call: Call[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse:
        """AddOffsetsToTxn: the partition of `__consumer_offsets` that belongs to the group joins the transaction."""
        ask = call.request
        response = AddOffsetsToTxnResponse()
        with answering(response):
            await self._groups.node_of(ask.group_id)
            count = len(self._controller.image.topics_by_name[OFFSETS_TOPIC].partitions)
            add = asks.AddPartitions(
                transactional_id=ask.transactional_id,
                producer_id=ask.producer_id,
                producer_epoch=ask.producer_epoch,
                partitions=frozenset(((OFFSETS_TOPIC, partition_for(ask.group_id, count)),)),
            )
            await self._transactions.ask(ask.transactional_id, lambda core, now_ms: core.add_partitions(add, now_ms))
        response.error_code = int(_known(ErrorCode(response.error_code), call.version))
        return response

    async def end(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        """EndTxn. v5 begins a new epoch, or a new producer id where there are no more (KIP-890)."""
        ask = call.request
        version = 2 if call.version >= _BUMPS_EPOCH_VERSION else 0
        response = EndTxnResponse(producer_id=-1, producer_epoch=-1)
        with answering(response):
            reply: asks.EndTransactionReply = await self._transactions.ask_with_id(
                ask.transactional_id,
                lambda core, now_ms, new_producer_id: core.end(
                    asks.EndTransaction(
                        transactional_id=ask.transactional_id,
                        producer_id=ask.producer_id,
                        producer_epoch=ask.producer_epoch,
                        committed=ask.committed,
                        transaction_version=version,
                        new_producer_id=new_producer_id,
                    ),
                    now_ms,
                ),
            )
            response.producer_id, response.producer_epoch = reply.producer_id, reply.producer_epoch
        response.error_code = int(_known(ErrorCode(response.error_code), call.version))
        return response


def _places(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterator[TopicPartition]:
    for topic in topics:
        for index in topic.partitions:
            yield topic.name, index


def _merged(topics: Iterable[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    """Each partition once, and no topic without any: so Kafka answers those who verify."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in topics:
        for index in topic.partitions:
            indexes.setdefault(topic.name, {})[index] = None
    return [AddPartitionsToTxnTopic(name, [*of_topic]) for name, of_topic in indexes.items()]


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Sequence[ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """One code per partition, in the order of the request."""
    rest = iter(codes)
    return [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, int(next(rest))) for index in topic.partitions]
        )
        for topic in topics
    ]


def _unknown(place: TopicPartition) -> ErrorCode:
    if place[0] in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _known(code: ErrorCode, version: int) -> ErrorCode:
    """The code, in words that clients of this version know."""
    if code is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED_VERSION:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
