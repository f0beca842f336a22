"""A cluster whose brokers change their minds: leaders and coordinators move, answers are lost, all is asked again."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster, Coordinator
from ottla.client.failures import BrokerRefused, Fenced, OutcomeUnknown
from ottla.client.fetch import Appetite, Fetched, fetch
from ottla.client.group_commit import GroupCommit, commit_group
from ottla.client.offsets import commit_offsets, latest_offsets
from ottla.client.outbound import NotDelivered
from ottla.client.produce import BatchSender
from ottla.client.settings import ClientSettings
from ottla.client.transactions import Identity, TransactionalProducer
from ottla.wire.batch import ProducerStamp, encode_batch, new_records
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.commit_group import CommitGroupResponse
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import Coordinator as Found
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

from .conftest import Run
from .fake_broker import Asked, FakeBroker, hang_up

TOPIC_ID = b"sixteen bytes id"
PLACE = TopicPartition(TopicName("t"), 0)
BATCH = encode_batch(new_records([(None, b"x")], 0), producer=ProducerStamp(7, 0, 0))


class World:
    """Two brokers; the first says who leads and coordinates, and may change its mind."""

    def __init__(self) -> None:
        self.brokers = [FakeBroker(), FakeBroker()]
        self.leader = self.coordinator = 0

    async def __aenter__(self) -> "World":
        self._stack = AsyncExitStack()
        for broker in self.brokers:
            broker.answers = {ApiKey.METADATA: self._metadata, ApiKey.FIND_COORDINATOR: self._found}
            await self._stack.enter_async_context(broker)
        settings = ClientSettings(bootstrap=(self.brokers[0].address,), backoff_s=0.001, patience_s=5, request_s=1)
        self.cluster = await self._stack.enter_async_context(Cluster(settings))
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    def answer(self, key: ApiKey, *by_broker: Callable[[Asked], Any]) -> None:
        for broker, answer in zip(self.brokers, by_broker, strict=True):
            broker.answers = {**broker.answers, key: answer}

    def count(self, key: ApiKey, broker: int = 0) -> int:
        return sum(1 for asked in self.brokers[broker].asked if asked.key == key)

    def _metadata(self, asked: Asked) -> bytes:
        brokers = [MetadataResponseBroker(at, *broker.address) for at, broker in enumerate(self.brokers)]
        topic = MetadataResponseTopic(0, "t", TOPIC_ID, partitions=[MetadataResponsePartition(0, 0, self.leader)])
        return asked.answer(MetadataResponse(brokers=brokers, topics=[topic]))

    def _found(self, asked: Asked) -> bytes:
        host, port = self.brokers[self.coordinator].address
        return asked.answer(FindCoordinatorResponse(coordinators=[Found("any", self.coordinator, host, port)]))


def in_turn(*answers: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
    """The last of them again and again."""
    rest: Iterator[Callable[[Asked], Any]] = iter(answers)
    last: list[Callable[[Asked], Any]] = []

    def answer(asked: Asked) -> Any:
        last[:] = [next(rest, *last)]
        return last[0](asked)

    return answer


def offset(code: int = 0, value: int = 5) -> Callable[[Asked], bytes]:
    one = ListOffsetsPartitionResponse(0, code, offset=value)
    return lambda asked: asked.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [one])]))


def fetched(code: int = 0) -> Callable[[Asked], bytes]:
    one = PartitionData(0, code, high_watermark=1, records=b"" if code else BATCH)
    return lambda asked: asked.answer(FetchResponse(responses=[FetchableTopicResponse("t", TOPIC_ID, [one])]))


def stored(code: int = 0) -> Callable[[Asked], bytes]:
    one = PartitionProduceResponse(0, code, base_offset=-1 if code else 3)
    return lambda asked: asked.answer(ProduceResponse([TopicProduceResponse("t", TOPIC_ID, [one])]))


def ended(code: int = 0) -> Callable[[Asked], bytes]:
    return lambda asked: asked.answer(EndTxnResponse(error_code=code))


def decided(code: int = 0, why: str | None = None, is_replay: bool = False) -> Callable[[Asked], bytes]:
    return lambda asked: asked.answer(CommitGroupResponse(0, code, why, is_replay))


def silent(asked: Asked) -> None:
    return None


def test_who_does_not_lead_any_more_is_left_for_who_does(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:

            def moved(asked: Asked) -> bytes:
                world.leader = 1
                return offset(ErrorCode.NOT_LEADER_OR_FOLLOWER)(asked)

            world.answer(ApiKey.LIST_OFFSETS, moved, offset())
            assert await latest_offsets(world.cluster, [PLACE]) == {PLACE: 5}
            assert await latest_offsets(world.cluster, [PLACE]) == {PLACE: 5}
            assert (world.count(ApiKey.LIST_OFFSETS, 0), world.count(ApiKey.LIST_OFFSETS, 1)) == (1, 2)

    run(play())


def test_a_leader_that_is_gone_is_looked_for_elsewhere(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:
            world.answer(ApiKey.FETCH, silent, fetched())
            world.leader = 1
            await world.cluster.learn(["t"], world.cluster.deadline())
            world.cluster.view.topics["t"].leaders[0] = 9  # nobody knows this broker
            world.cluster.view.brokers[9] = ("127.0.0.1", 1)
            outcome = (await fetch(world.cluster, {PLACE: 0}, Appetite(wait_ms_max=0)))[PLACE]
            assert isinstance(outcome, Fetched)
            assert bytes(outcome.records) == BATCH

    run(play())


def test_a_refusal_that_does_not_pass_is_told_at_once(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:
            world.answer(ApiKey.FETCH, fetched(ErrorCode.TOPIC_AUTHORIZATION_FAILED), silent)
            outcome = (await fetch(world.cluster, {PLACE: 0}))[PLACE]
            assert isinstance(outcome, BrokerRefused)
            assert outcome.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            world.answer(ApiKey.LIST_OFFSETS, offset(ErrorCode.TOPIC_AUTHORIZATION_FAILED), silent)
            with pytest.raises(BrokerRefused, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
                await latest_offsets(world.cluster, [PLACE])
            assert world.count(ApiKey.LIST_OFFSETS) == 1

    run(play())


def test_a_coordinator_that_moved_is_found_again(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:

            def answer(code: int) -> Callable[[Asked], bytes]:
                topics = [OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, code)])]
                return lambda asked: asked.answer(OffsetCommitResponse(topics=topics))

            def moved(asked: Asked) -> bytes:
                world.coordinator = 1
                return answer(ErrorCode.NOT_COORDINATOR)(asked)

            loading = answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            world.answer(ApiKey.OFFSET_COMMIT, in_turn(loading, hang_up, moved), answer(0))
            await commit_offsets(world.cluster, "g", {PLACE: 1})
            assert (world.count(ApiKey.OFFSET_COMMIT, 0), world.count(ApiKey.OFFSET_COMMIT, 1)) == (3, 1)
            assert world.count(ApiKey.FIND_COORDINATOR) == 3  # at first, after the lost connection, after the move

    run(play())


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ((hang_up, stored()), None),
        ((silent, stored()), None),
        ((stored(ErrorCode.NOT_LEADER_OR_FOLLOWER), stored(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)), None),
        ((stored(ErrorCode.MESSAGE_TOO_LARGE),), NotDelivered),
        ((hang_up, stored(ErrorCode.MESSAGE_TOO_LARGE)), OutcomeUnknown),
        ((hang_up,), OutcomeUnknown),
        ((stored(ErrorCode.NOT_ENOUGH_REPLICAS),), NotDelivered),
        ((stored(ErrorCode.INVALID_PRODUCER_EPOCH),), Fenced),
    ],
)
def test_a_batch_is_sent_until_it_is_stored_or_its_fate_is_told(
    run: Run[None], answers: tuple[Callable[[Asked], Any], ...], verdict: type[Exception] | None
) -> None:
    async def play() -> None:
        async with World() as world:
            world.cluster.settings = replace(world.cluster.settings, patience_s=2.5 if verdict is None else 0.3)
            world.cluster.settings = replace(world.cluster.settings, request_s=0.2)
            world.answer(ApiKey.PRODUCE, in_turn(*answers), silent)
            sender = BatchSender(world.cluster)
            told = await sender.submit(PLACE, BATCH)
            if verdict is None:
                await sender.flush()
                assert told.result() in (3, None)
            else:
                with pytest.raises(verdict):
                    await sender.flush()
                with pytest.raises(verdict):
                    told.result()
                with pytest.raises(Exception, match=r"t-0"):
                    await sender.submit(PLACE, BATCH)
            await sender.close()

    run(play())


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ((hang_up, ended()), None),
        ((ended(ErrorCode.CONCURRENT_TRANSACTIONS), ended()), None),
        ((hang_up, ended(ErrorCode.PRODUCER_FENCED)), OutcomeUnknown),
        ((ended(ErrorCode.PRODUCER_FENCED),), Fenced),
        ((hang_up,), OutcomeUnknown),
        ((ended(ErrorCode.INVALID_TXN_STATE),), BrokerRefused),
    ],
)
def test_a_commit_is_done_refused_or_unknown_and_never_taken_for_another(
    run: Run[None], answers: tuple[Callable[[Asked], Any], ...], verdict: type[Exception] | None
) -> None:
    async def play() -> None:
        async with World() as world:
            made = InitProducerIdResponse(producer_id=7, producer_epoch=0)
            world.answer(ApiKey.INIT_PRODUCER_ID, lambda asked: asked.answer(made), silent)
            world.answer(ApiKey.ADD_OFFSETS_TO_TXN, silent, silent)
            world.answer(ApiKey.END_TXN, in_turn(*answers), silent)
            producer = TransactionalProducer(world.cluster, "mine")
            assert await producer.init() == Identity("mine", 7, 0)
            producer._is_open = True
            if verdict is None:
                await producer.commit(world.cluster.deadline(1))
                assert not producer.is_open
            else:
                with pytest.raises(verdict):
                    await producer.commit(world.cluster.deadline(0.2))

    run(play())


def test_a_sender_whose_cluster_was_closed_says_so(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:
            sender = BatchSender(world.cluster)
            await world.cluster.close()
            told = await sender.submit(PLACE, BATCH)
            with pytest.raises(RuntimeError, match="closed"):
                await sender.flush()
            with pytest.raises(RuntimeError, match="closed"):
                told.result()
            await sender.close()

    run(play())


@pytest.mark.parametrize("answer", [stored(ErrorCode.NOT_ENOUGH_REPLICAS), silent], ids=["not yet", "nothing"])
def test_an_abort_does_not_wait_for_what_cannot_be_stored(run: Run[None], answer: Callable[[Asked], Any]) -> None:
    async def play() -> None:
        async with World() as world:
            world.cluster.settings = replace(world.cluster.settings, patience_s=60, request_s=0.1)
            made = [InitProducerIdResponse(producer_id=7, producer_epoch=epoch) for epoch in range(2)]
            world.answer(ApiKey.INIT_PRODUCER_ID, lambda asked: asked.answer(made.pop(0)), silent)
            world.answer(ApiKey.ADD_PARTITIONS_TO_TXN, _added, silent)
            world.answer(ApiKey.END_TXN, ended(), silent)
            world.answer(ApiKey.PRODUCE, answer, silent)
            producer = TransactionalProducer(world.cluster, "mine")
            await producer.init()
            for _ in range(3):
                stamp = producer.stamp(PLACE, 1)
                await producer.submit(PLACE, encode_batch(new_records([(None, b"x")], 0), producer=stamp))
            await asyncio.wait_for(producer.abort(), 10)
            # The sequences of a classic producer have a gap now, so there must be another epoch (KIP-360).
            assert producer.identity == Identity("mine", 7, 1)
            assert producer.stamp(PLACE, 1).base_sequence == 0

    run(play())


def _added(asked: Asked) -> bytes:
    results = [AddPartitionsToTxnTopicResult("t", [AddPartitionsToTxnPartitionResult(0, 0)])]
    return asked.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def test_a_group_commit_whose_answer_is_lost_is_asked_again_and_is_a_replay(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:
            busy = decided(ErrorCode.CONCURRENT_TRANSACTIONS, "another commit of this query is under way")
            world.answer(ApiKey.COMMIT_GROUP, in_turn(hang_up, busy, decided(is_replay=True)), silent)
            commit = GroupCommit(sink="s", query="q", batch=1, digest=b"d", members=[Identity("mine", 7, 0)])
            assert await commit_group(world.cluster, commit)
            assert world.count(ApiKey.COMMIT_GROUP) == 3

    run(play())


def test_many_who_ask_at_once_share_one_connection_and_one_picture_of_the_cluster(run: Run[None]) -> None:
    async def play() -> None:
        async with World() as world:
            world.answer(ApiKey.LIST_OFFSETS, offset(), silent)
            answers = await asyncio.gather(*(latest_offsets(world.cluster, [PLACE]) for _ in range(20)))
            assert answers == [{PLACE: 5}] * 20
            assert (world.count(ApiKey.METADATA), world.count(ApiKey.API_VERSIONS)) == (1, 1)

    run(play())


def test_a_coordinator_kind_has_the_number_that_kafka_gives_it() -> None:
    assert (Coordinator.GROUP, Coordinator.TRANSACTION) == (0, 1)
