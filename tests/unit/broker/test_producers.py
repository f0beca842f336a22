"""InitProducerId and DescribeProducers; ids come from blocks that the controller gives out."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.broker.api.producers import ProducersApi
from ottla.core.metadata import records as r
from ottla.core.producers.producer import Producer, RememberedBatch
from ottla.runtime.producer_ids import ProducerIds
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.unit.broker.cluster import CoreController, FakeReplicas, FakeTransactions, call, one_node, told

BLOCK = 1000


def api_of(controller: CoreController, replicas: FakeReplicas | None = None) -> ProducersApi:
    return ProducersApi(replicas or FakeReplicas(), FakeTransactions(controller))  # type: ignore[arg-type]


def init(api: ProducersApi, version: int = 5, **fields: Any) -> Any:
    request = InitProducerIdRequest(**{"transaction_timeout_ms": 60_000, **fields})
    return told(asyncio.run(api.init(call(request, version))), version)


@pytest.mark.parametrize("version", range(7))
def test_every_version_gets_a_new_id_with_epoch_0(version: int) -> None:
    controller, _ = one_node()
    api = api_of(controller)
    first = init(api, version)
    assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 0, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5, "producer_epoch": 0}, 0),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "mine"}, 0),
        ({"transactional_id": "mine", "transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "mine", "transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_a_producer_gets_an_id_if_its_question_makes_sense(fields: dict[str, Any], code: int) -> None:
    controller, _ = one_node()
    answer = init(api_of(controller), **fields)
    assert answer.error_code == code
    assert ((answer.producer_id, answer.producer_epoch) == (-1, -1)) == (code != 0)


def test_no_id_is_given_twice_not_even_after_a_restart() -> None:
    controller, _ = one_node()

    async def taken(count: int) -> list[int]:
        ids = ProducerIds(controller, 1)  # type: ignore[arg-type]
        return [await ids.next() for _ in range(count)]

    seen = [*asyncio.run(taken(BLOCK + 10)), *asyncio.run(taken(10))]
    assert len(set(seen)) == len(seen)


def test_the_next_block_is_there_before_the_current_one_is_used_up() -> None:
    controller, _ = one_node()

    async def run() -> None:
        ids = ProducerIds(controller, 1)  # type: ignore[arg-type]
        for _ in range(BLOCK * 9 // 10 - 1):
            await ids.next()
        assert controller.blocks_taken == 1
        await ids.next()
        await asyncio.sleep(0)
        assert controller.blocks_taken == 2
        for _ in range(BLOCK // 10):
            await ids.next()
        controller.refusal = Refused(ErrorCode.NOT_CONTROLLER, "gone")
        assert await ids.next() == BLOCK

    asyncio.run(run())


def test_all_that_wait_for_the_first_block_get_different_ids_out_of_it() -> None:
    controller, _ = one_node()
    controller.delay_seconds = 0.01

    async def run() -> list[int]:
        ids = ProducerIds(controller, 1)  # type: ignore[arg-type]
        return await asyncio.gather(*(ids.next() for _ in range(50)))

    assert sorted(asyncio.run(run())) == list(range(50))
    assert controller.blocks_taken == 1


def test_without_a_controller_clients_are_told_to_ask_again() -> None:
    controller, _ = one_node()
    api = api_of(controller)
    controller.refusal = Refused(ErrorCode.NOT_CONTROLLER, "none yet")
    assert init(api).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    controller.refusal = None
    assert init(api).error_code == 0


def test_a_broker_that_is_not_registered_gives_no_ids() -> None:
    controller, _ = one_node()
    controller.apply(r.UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert init(api_of(controller)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_producers_of_a_partition_are_described_by_its_leader() -> None:
    controller, _ = one_node()
    producer = Producer(12, 1)
    producer.batches.append(RememberedBatch(7, 20, 1, 5))
    producer.last_timestamp = 99
    replicas = FakeReplicas()
    log = SimpleNamespace(producers=[producer])
    replicas.partitions["one", 0] = SimpleNamespace(log=log, led=lambda: None)
    replicas.partitions["one", 1] = SimpleNamespace(log=log, led=_not_leader)
    request = DescribeProducersRequest([TopicRequest("one", [0, 0, 1, 9])])
    answer = told(asyncio.run(api_of(controller, replicas).describe(call(request, 0))), 0)
    led, followed, missing = answer.topics[0].partitions
    assert [one.error_code for one in (led, followed, missing)] == [0, 6, 3]
    (state,) = led.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp) == (12, 1, 7, 99)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)


def _not_leader() -> None:
    raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")
