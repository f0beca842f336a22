"""A transactional producer, of both generations: classic, and version 2, where batches join by themselves (KIP-890).

It stamps and sends; the bytes of the batches are their maker's business. Ending its transaction can be left to
somebody else (`group_commit.py`, two-phase commit), to whom `identity` is what to name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ottla.base.types import Offset, TopicName, TopicPartition
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.deadline import Deadline
from ottla.client.failures import FENCING, BrokerRefused, ClientFailure, ConnectionLost, Fenced, OutcomeUnknown
from ottla.client.metadata import by_topic
from ottla.client.produce import BatchSender, Manner
from ottla.client.versions import ANY, Span, Versions
from ottla.wire.batch import ProducerStamp
from ottla.wire.batch_header import SEQUENCE_MAX, Bytes, read_header
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")
TIMEOUT_MS = 60_000
_TWO_PHASE, _EXPECTING = Span(6), Span(3)
_BY_THEMSELVES = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}
"""From these versions on, by which a client says that it means transactions of version 2."""
_ADDING = Span(at_most=3)
"""Later versions of AddPartitionsToTxn are for brokers."""
_FEATURE, _FEATURE_LEVEL = "transaction.version", 2


class Identity(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class Membership(NamedTuple):
    """Of the consumer whose offsets are sent, so that a deposed one is refused (KIP-447)."""

    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None


NO_MEMBER = Membership()


class TransactionalProducer:
    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int = TIMEOUT_MS,
        is_two_phase: bool = False,
    ) -> None:
        self.identity = Identity(transactional_id, -1, -1)
        self.kept: Identity | None = None
        """The transaction that was open and has been kept so; only its end may follow."""
        self.joins_by_itself = False
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._is_two_phase = is_two_phase
        self._sender = BatchSender(cluster)
        self._sequences: dict[TopicPartition, int] = {}
        self._joined: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction may be open at the coordinator."""
        return self._is_open or self.kept is not None

    async def init(self, keep_prepared: bool = False, deadline: Deadline | None = None) -> Identity:
        """Fence earlier producers of this id; abort what they left open, or keep it for its verdict (KIP-939)."""
        deadline = deadline or self._cluster.deadline()
        span = _TWO_PHASE if self._is_two_phase or keep_prepared else ANY
        request = InitProducerIdRequest(
            self._id, self._timeout_ms, enable2_pc=self._is_two_phase, keep_prepared_txn=keep_prepared
        )
        answer = await self._insist_on_init(request, deadline, span)
        self.kept = None
        if answer.ongoing_txn_producer_id >= 0:
            self.kept = Identity(self._id, answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        await self._choose_generation(deadline)
        self._begin_anew(answer.producer_id, answer.producer_epoch)
        return self.identity

    def stamp(self, place: TopicPartition, record_count: int) -> ProducerStamp:
        """For the next batch to this partition; batches are submitted in the order of their stamps."""
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + record_count) & SEQUENCE_MAX
        return ProducerStamp(self.identity.producer_id, self.identity.epoch, sequence, True)

    async def submit(self, place: TopicPartition, records: Bytes) -> asyncio.Future[Offset | None]:
        """On its way; `flush` tells whether it arrived, and the future where."""
        header = read_header(records)
        if (header.producer_id, header.producer_epoch) != self.identity[1:] or not header.is_transactional:
            raise ValueError(f"this batch to {place} does not bear the stamp of {self.identity}")
        if self.kept is not None:
            raise RuntimeError("a transaction was kept open: end it first")
        self._is_open = True
        if not self.joins_by_itself and place not in self._joined:
            await self._add_partition(place)
        self._joined.add(place)
        return await self._sender.submit(place, records)

    async def flush(self) -> None:
        await self._sender.flush()

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        member: Membership = NO_MEMBER,
        deadline: Deadline | None = None,
    ) -> None:
        """They count when the transaction is committed."""
        deadline = deadline or self._cluster.deadline()
        self._is_open = True
        if not self.joins_by_itself and group_id not in self._groups:
            await self._ask(AddOffsetsToTxnRequest(*self.identity, group_id), deadline)
            self._groups.add(group_id)
        _, producer_id, epoch = self.identity
        topics = [
            TxnOffsetCommitRequestTopic(
                name,
                [
                    TxnOffsetCommitRequestPartition(index, offsets[TopicPartition(TopicName(name), index)])
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ]
        request = TxnOffsetCommitRequest(self._id, group_id, producer_id, epoch, *member, topics)

        async def ask() -> None:
            answer = await self._cluster.ask_coordinator(
                Coordinator.GROUP, group_id, request, deadline, self._span(ApiKey.TXN_OFFSET_COMMIT)
            )
            for topic in answer.topics:
                for one in topic.partitions:
                    self._cluster.heed(Coordinator.GROUP, group_id, one.error_code)

        await _fenced_or(self._cluster.patiently(ask, deadline))

    async def commit(self, deadline: Deadline | None = None) -> None:
        """All of it counts, or `OutcomeUnknown`, or none of it does (any other failure; then `abort`)."""
        await self.flush()
        await self._end(True, deadline or self._cluster.deadline())

    async def abort(self, deadline: Deadline | None = None) -> None:
        """Nothing of it counts."""
        deadline = deadline or self._cluster.deadline()
        self._sender.give_up()
        with suppress(ClientFailure):
            await self.flush()
        has_gaps = self._sender.has_gaps
        await self._end(False, deadline)
        if has_gaps and not self.joins_by_itself:
            # A classic transaction leaves the epoch as it is, in which the sequences have gaps now (KIP-360).
            _, producer_id, epoch = self.identity
            answer = await self._insist_on_init(
                InitProducerIdRequest(self._id, self._timeout_ms, producer_id, epoch), deadline, _EXPECTING
            )
            self._begin_anew(answer.producer_id, answer.producer_epoch)

    async def close(self) -> None:
        """What is open stays open: others may decide about it, or its timeout does."""
        await self._sender.close()

    # The coordinator

    async def _insist_on_init(
        self, request: InitProducerIdRequest, deadline: Deadline, span: Span
    ) -> InitProducerIdResponse:
        """Asked again it is a new epoch, so there is no harm in it."""

        async def ask() -> InitProducerIdResponse:
            answer: InitProducerIdResponse = await self._cluster.ask_coordinator(
                Coordinator.TRANSACTION, self._id, request, deadline, span
            )
            self._cluster.heed(Coordinator.TRANSACTION, self._id, answer.error_code)
            return answer

        return await _fenced_or(self._cluster.patiently(ask, deadline))

    async def _choose_generation(self, deadline: Deadline) -> None:
        async def look() -> Versions:
            return (await self._cluster.coordinator(Coordinator.TRANSACTION, self._id, deadline)).versions

        theirs = await self._cluster.patiently(look, deadline)
        serves_all = all(theirs.serves(key, Span(first)) for key, first in _BY_THEMSELVES.items())
        self.joins_by_itself = serves_all and theirs.features.get(_FEATURE, 0) >= _FEATURE_LEVEL
        self._sender.manner = Manner(transactional_id=self._id, span=self._span(ApiKey.PRODUCE))

    def _span(self, key: ApiKey) -> Span:
        first = _BY_THEMSELVES[key]
        return Span(first) if self.joins_by_itself else Span(at_most=first - 1)

    async def _add_partition(self, place: TopicPartition) -> None:
        deadline = self._cluster.deadline()
        topics = [AddPartitionsToTxnTopic(place.topic, [place.partition])]
        request = AddPartitionsToTxnRequest(*self.identity, topics)

        async def ask() -> None:
            answer = await self._cluster.ask_coordinator(Coordinator.TRANSACTION, self._id, request, deadline, _ADDING)
            for topic in answer.results_by_topic_v3_and_below:
                for one in topic.results_by_partition:
                    self._cluster.heed(Coordinator.TRANSACTION, self._id, one.partition_error_code, about=str(place))

        await _fenced_or(self._cluster.patiently(ask, deadline))

    async def _ask(self, request: AddOffsetsToTxnRequest, deadline: Deadline) -> None:
        async def ask() -> None:
            answer = await self._cluster.ask_coordinator(Coordinator.TRANSACTION, self._id, request, deadline)
            self._cluster.heed(Coordinator.TRANSACTION, self._id, answer.error_code)

        await _fenced_or(self._cluster.patiently(ask, deadline))

    async def _end(self, is_commit: bool, deadline: Deadline) -> None:
        if not self.is_open:
            return  # no coordinator has heard of it
        request = EndTxnRequest(*self.identity, is_commit)
        is_uncertain = False

        async def ask() -> tuple[int, int]:
            nonlocal is_uncertain
            try:
                answer = await self._cluster.ask_coordinator(
                    Coordinator.TRANSACTION, self._id, request, deadline, self._span(ApiKey.END_TXN)
                )
            except ConnectionLost as lost:
                is_uncertain |= lost.was_sent
                raise
            self._cluster.heed(Coordinator.TRANSACTION, self._id, answer.error_code)
            return answer.producer_id, answer.producer_epoch

        try:
            producer_id, epoch = await _fenced_or(self._cluster.patiently(ask, deadline))
        except ClientFailure as failure:
            if is_uncertain and is_commit:
                raise OutcomeUnknown(f"the transaction of {self._id} may have been committed: {failure}") from failure
            raise
        self._is_open, self.kept = False, None
        if producer_id >= 0:
            self._begin_anew(producer_id, epoch)
        else:
            self._joined.clear()
            self._groups.clear()

    def _begin_anew(self, producer_id: int, epoch: int) -> None:
        self.identity = Identity(self._id, producer_id, epoch)
        self._is_open = False
        self._sequences.clear()
        self._joined.clear()
        self._groups.clear()
        self._sender.begin_anew()


async def _fenced_or(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except BrokerRefused as refused:
        if refused.code in FENCING:
            raise Fenced(str(refused)) from None
        raise
