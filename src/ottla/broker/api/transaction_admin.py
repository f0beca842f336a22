"""Looking after transactions: list, describe, and the markers that end them."""

import asyncio
from collections.abc import Callable

from ottla.broker.route import Call, Route, answering, versions
from ottla.core.groups.patterns import compiled
from ottla.core.transactions import asks
from ottla.core.transactions.administration import unknown_states
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.wire.control import EndTxnMarker
from ottla.wire.messages import describe_transactions as describe
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class TransactionAdminApi:
    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.LIST_TRANSACTIONS, versions(0, 2), self.list_transactions),
            Route(ApiKey.DESCRIBE_TRANSACTIONS, versions(0, 0), self.describe_transactions),
            Route(ApiKey.WRITE_TXN_MARKERS, versions(1, 2), self.write_markers),
        )

    async def list_transactions(self, call: Call[ListTransactionsRequest]) -> ListTransactionsResponse:
        """ListTransactions. v1 filters by duration, v2 by a pattern over transactional ids (KIP-1152)."""
        ask = call.request
        unknown = unknown_states(ask.state_filters)
        response = ListTransactionsResponse(unknown_state_filters=list(unknown))
        states = frozenset(ask.state_filters) - set(unknown)
        if unknown and not states:
            return response
        with answering(response):
            wanted = asks.ListTransactions(
                states, frozenset(ask.producer_id_filters), ask.duration_filter, _filter(ask.transactional_id_pattern)
            )
            listed = await self._transactions.ask_all(lambda core, now_ms: core.list_transactions(wanted, now_ms))
            response.transaction_states = [
                TransactionState(one.transactional_id, one.producer_id, one.state) for shard in listed for one in shard
            ]
        return response

    async def describe_transactions(
        self, call: Call[describe.DescribeTransactionsRequest]
    ) -> describe.DescribeTransactionsResponse:
        """DescribeTransactions (KIP-664)."""
        names = dict.fromkeys(call.request.transactional_ids)
        return describe.DescribeTransactionsResponse(transaction_states=[await self._describe(name) for name in names])

    async def _describe(self, name: str) -> describe.TransactionState:
        answer = describe.TransactionState(transactional_id=name)
        with answering(answer):
            found: asks.DescribedTransaction = await self._transactions.ask(
                name, lambda core, now_ms: core.describe_transaction(name, now_ms)
            )
            answer.transaction_state = found.state
            answer.transaction_timeout_ms = found.timeout_ms
            answer.transaction_start_time_ms = found.started_ms
            answer.producer_id = found.producer_id
            answer.producer_epoch = found.producer_epoch
            topics: dict[str, list[int]] = {}
            for topic, index in found.partitions:
                topics.setdefault(topic, []).append(index)
            answer.topics = [describe.TopicData(topic, indexes) for topic, indexes in topics.items()]
        return answer

    async def write_markers(self, call: Call[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
        """WriteTxnMarkers: for coordinators elsewhere, and for operators who end what hangs. v2 tells the version."""
        return WriteTxnMarkersResponse([await self._write(one) for one in call.request.markers if one.topics])

    async def _write(self, ask: WritableTxnMarker) -> WritableTxnMarkerResult:
        marker = EndTxnMarker(
            ask.producer_id, ask.producer_epoch, ask.transaction_result, coordinator_epoch=ask.coordinator_epoch
        )
        answer = WritableTxnMarkerResult(ask.producer_id)
        for topic in ask.topics:
            writing = (
                self._write_one(topic.name, index, marker, ask.transaction_version) for index in topic.partition_indexes
            )
            answer.topics.append(WritableTxnMarkerTopicResult(topic.name, await asyncio.gather(*writing)))
        return answer

    async def _write_one(
        self, topic: str, index: int, marker: EndTxnMarker, version: int
    ) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(index)
        with answering(result):
            await self._transactions.markers.write_and_wait(topic, index, marker, version)
        return result


def _filter(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda transactional_id: True
    matches = compiled(pattern, "TransactionalIdPattern").fullmatch
    return lambda transactional_id: matches(transactional_id) is not None
