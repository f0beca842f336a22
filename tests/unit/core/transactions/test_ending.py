"""EndTxn in both protocols, sentence by sentence."""

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.transactions.asks import EndTransactionReply, ProducerIdNeeded
from ottla.core.transactions.records import LAST_USABLE_EPOCH, Status
from tests.unit.core.transactions.driving import P0, P1, Coordinator, init_of

CLASSIC, BUMPING = 0, 2
OUTCOMES = pytest.mark.parametrize("committed", [True, False])


def complete(version: int, committed: bool) -> tuple[Coordinator, Any]:
    """A coordinator whose producer has ended a transaction, and that producer."""
    coordinator = Coordinator(version)
    producer = coordinator.init()
    coordinator.add(producer)
    coordinator.end(producer, committed)
    coordinator.write_markers()
    return coordinator, producer


@OUTCOMES
def test_the_classic_protocol_keeps_the_epoch(committed: bool) -> None:
    coordinator = Coordinator(CLASSIC)
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    assert coordinator.end(producer, committed) == EndTransactionReply()
    assert coordinator.status() is (Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT)
    (marker,) = coordinator.markers
    assert (marker.committed, marker.producer_epoch, marker.transaction_version) == (committed, 0, 0)
    coordinator.write_markers()
    assert coordinator.status() is (Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)
    assert not coordinator.state().partitions
    coordinator.add(producer, P1)
    assert coordinator.state().partitions == {P1}


@OUTCOMES
def test_version_2_begins_a_new_epoch_with_every_end(committed: bool) -> None:
    coordinator = Coordinator(BUMPING)
    producer = coordinator.init()
    coordinator.add(producer)
    ended = coordinator.end(producer, committed)
    assert (ended.producer_id, ended.producer_epoch) == (101, 1)
    assert coordinator.markers[0].producer_epoch == 1
    assert coordinator.markers[0].transaction_version == 2
    coordinator.write_markers()
    assert coordinator.error("add_partitions", coordinator.add_of(producer)) is ErrorCode.PRODUCER_FENCED
    coordinator.add(ended)


@OUTCOMES
@pytest.mark.parametrize("version", [CLASSIC, BUMPING])
def test_asking_again_is_answered_again(version: int, committed: bool) -> None:
    coordinator = Coordinator(version)
    producer = coordinator.init()
    coordinator.add(producer)
    ended = coordinator.end(producer, committed)
    again, other = coordinator.end_of(producer, committed), coordinator.end_of(producer, not committed)
    assert coordinator.error("end", again) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.error("end", other) is ErrorCode.INVALID_TXN_STATE
    coordinator.write_markers()
    assert coordinator.end(producer, committed) == ended
    assert coordinator.error("end", other) is ErrorCode.INVALID_TXN_STATE
    coordinator.restart()
    assert coordinator.end(producer, committed) == ended


@OUTCOMES
def test_an_end_that_is_late_does_not_touch_the_next_transaction(committed: bool) -> None:
    coordinator, producer = complete(BUMPING, committed=True)
    following = coordinator.end(producer)
    coordinator.add(following, P1)
    late = coordinator.end_of(producer, committed)
    assert coordinator.error("end", late) is ErrorCode.PRODUCER_FENCED
    assert coordinator.status() is Status.ONGOING


@pytest.mark.parametrize("version", [CLASSIC, BUMPING])
def test_committing_nothing_is_refused(version: int) -> None:
    coordinator = Coordinator(version)
    producer = coordinator.init()
    assert coordinator.error("end", coordinator.end_of(producer)) is ErrorCode.INVALID_TXN_STATE


def test_the_classic_protocol_aborts_only_what_is_open() -> None:
    coordinator = Coordinator(CLASSIC)
    producer = coordinator.init()
    error = coordinator.error("end", coordinator.end_of(producer, committed=False))
    assert error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("before", ["empty", "committed", "aborted"])
def test_version_2_aborts_nothing_at_once_and_moves_the_epoch(before: str) -> None:
    coordinator = Coordinator(BUMPING)
    producer: Any = coordinator.init()
    if before != "empty":
        coordinator.add(producer)
        producer = coordinator.end(producer, before == "committed")
        coordinator.write_markers()
    ended = coordinator.end(producer, committed=False)
    assert ended.producer_epoch == producer.producer_epoch + 1
    assert coordinator.status() is Status.COMPLETE_ABORT
    assert not coordinator.markers
    assert coordinator.end(producer, committed=False) == ended


@pytest.mark.parametrize("version", [CLASSIC, BUMPING])
def test_strangers_cannot_end_a_transaction(version: int) -> None:
    coordinator = Coordinator(version)
    producer = coordinator.init()
    coordinator.add(producer)
    for producer_id, epoch, expected in (
        (999, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (101, 1, ErrorCode.PRODUCER_FENCED),
        (101, -1, ErrorCode.PRODUCER_FENCED),
    ):
        stranger = init_of(producer_id=producer_id, producer_epoch=epoch)
        assert coordinator.error("end", coordinator.end_of(stranger)) is expected
    assert coordinator.status() is Status.ONGOING


def test_an_unknown_id_has_no_producer() -> None:
    stranger = init_of(producer_id=1, producer_epoch=0)
    coordinator = Coordinator()
    for method, ask in (
        ("end", coordinator.end_of(stranger)),
        ("add_partitions", coordinator.add_of(stranger)),
    ):
        assert coordinator.error(method, ask) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@OUTCOMES
def test_the_end_of_the_last_epoch_brings_a_new_producer_id(committed: bool) -> None:
    coordinator = Coordinator(BUMPING)
    coordinator.put(epoch=LAST_USABLE_EPOCH)
    producer = init_of(producer_id=7, producer_epoch=LAST_USABLE_EPOCH)
    coordinator.add(producer)
    assert coordinator.ask("end", coordinator.end_of(producer, committed)) == ProducerIdNeeded()
    assert coordinator.status() is Status.ONGOING
    ended = coordinator.end(producer, committed)
    assert (ended.producer_id, ended.producer_epoch) == (101, 0)
    (marker,) = coordinator.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, LAST_USABLE_EPOCH + 1)
    again = coordinator.end_of(producer, committed)
    assert coordinator.error("end", again) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.restart()
    coordinator.write_markers()
    assert coordinator.end(producer, committed) == ended
    coordinator.add(ended)


def test_a_version_2_producer_may_go_back_to_the_classic_protocol() -> None:
    coordinator = Coordinator(BUMPING)
    producer = coordinator.init()
    coordinator.add(producer, transaction_version=CLASSIC)
    assert coordinator.end(producer, transaction_version=CLASSIC) == EndTransactionReply()
    assert coordinator.markers[0].transaction_version == CLASSIC
    coordinator.write_markers()
    coordinator.add(producer)
