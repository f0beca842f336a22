"""InitProducerId, sentence by sentence."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.transactions.asks import ProducerIdNeeded
from ottla.core.transactions.records import EPOCH_MAX, LAST_USABLE_EPOCH, NO_TIMEOUT_MS, Status
from tests.unit.core.transactions.driving import ID, P0, P1, TIMEOUT_MS, Coordinator, expecting, init_of


def test_a_new_id_asks_for_a_producer_id_and_begins_at_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.ask("init_producer_id", init_of()) == ProducerIdNeeded()
    assert not coordinator.log
    producer = coordinator.init()
    assert (producer.producer_id, producer.producer_epoch) == (101, 0)
    assert coordinator.status() is Status.EMPTY


def test_each_new_instance_fences_the_one_before() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    second = coordinator.init()
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    assert coordinator.error("add_partitions", coordinator.add_of(first)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_first_and_the_producer_asks_again(version: int) -> None:
    coordinator = Coordinator(version)
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.status() is Status.PREPARE_ABORT
    (marker,) = coordinator.markers
    assert not marker.committed
    assert marker.producer_epoch == 1
    assert marker.partitions == (P0, P1)
    assert coordinator.error("init_producer_id", init_of()) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.init().producer_epoch == 2


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    error = Coordinator().error("init_producer_id", init_of(timeout_ms=timeout_ms))
    assert error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("transactional_id", ["", "x" * 32_768])
def test_ids_that_the_log_cannot_hold_are_refused(transactional_id: str) -> None:
    error = Coordinator().error("init_producer_id", init_of(transactional_id=transactional_id))
    assert error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("half", [{"producer_id": 3}, {"producer_epoch": 3}])
def test_an_identity_comes_whole_or_not_at_all(half: dict[str, int]) -> None:
    assert Coordinator().error("init_producer_id", init_of(**half)) is ErrorCode.INVALID_REQUEST


def test_a_producer_that_expects_to_be_itself_gets_the_next_epoch_and_the_same_answer_again() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    second = coordinator.init(**expecting(first))
    assert second.producer_epoch == 1
    assert coordinator.init(**expecting(first)) == second
    assert coordinator.init(**expecting(first)) == second
    third = coordinator.init(**expecting(second))
    assert third.producer_epoch == 2
    assert coordinator.error("init_producer_id", init_of(**expecting(first))) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_was_replaced_cannot_come_back_by_expecting_itself() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    second = coordinator.init()
    assert coordinator.error("init_producer_id", init_of(**expecting(first))) is ErrorCode.PRODUCER_FENCED
    coordinator.add(second)
    assert coordinator.error("init_producer_id", init_of(**expecting(first))) is ErrorCode.PRODUCER_FENCED
    assert coordinator.status() is Status.ONGOING


def test_another_producer_id_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.init()
    stranger = init_of(producer_id=999, producer_epoch=0)
    assert coordinator.error("init_producer_id", stranger) is ErrorCode.PRODUCER_FENCED


def test_an_unknown_id_takes_a_producer_that_has_been_forgotten() -> None:
    producer = Coordinator().init(producer_id=999, producer_epoch=4)
    assert (producer.producer_id, producer.producer_epoch) == (101, 0)


def test_used_up_epochs_lead_to_a_new_producer_id_and_a_retry_finds_it() -> None:
    coordinator = Coordinator()
    coordinator.put(epoch=LAST_USABLE_EPOCH - 1)
    last = coordinator.init()
    assert (last.producer_id, last.producer_epoch) == (7, LAST_USABLE_EPOCH)
    following = coordinator.init(**expecting(last))
    assert (following.producer_id, following.producer_epoch) == (101, 0)
    assert coordinator.init(**expecting(last)) == following
    assert coordinator.init(**expecting(last)) == following


def test_fencing_the_last_epoch_uses_the_one_kept_in_reserve() -> None:
    coordinator = Coordinator()
    coordinator.put(epoch=LAST_USABLE_EPOCH)
    producer = init_of(producer_id=7, producer_epoch=LAST_USABLE_EPOCH)
    coordinator.add(producer)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.markers[0].producer_epoch == EPOCH_MAX
    coordinator.write_markers()
    abort_again = coordinator.end_of(producer, committed=False)
    assert coordinator.error("end", abort_again) is ErrorCode.PRODUCER_FENCED
    again = coordinator.init()
    assert (again.producer_id, again.producer_epoch) == (101, 0)


def test_the_timeout_is_that_of_the_latest_instance() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.init(timeout_ms=77)
    assert coordinator.state().timeout_ms == 77


# Two-phase commit (KIP-939)


@pytest.mark.parametrize("wish", ["enable_two_phase_commit", "keep_prepared"])
def test_two_phase_commit_has_to_be_enabled(wish: str) -> None:
    error = Coordinator().error("init_producer_id", init_of(**{wish: True}))
    assert error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_two_phase_transaction_has_no_timeout_and_waits_for_its_verdict_across_restarts() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    producer = coordinator.init(enable_two_phase_commit=True)
    assert coordinator.state().timeout_ms == NO_TIMEOUT_MS
    coordinator.add(producer, P0)
    coordinator.pass_time(100 * TIMEOUT_MS)
    coordinator.restart()
    assert coordinator.status() is Status.ONGOING
    kept = coordinator.init(enable_two_phase_commit=True, keep_prepared=True)
    assert (kept.ongoing_producer_id, kept.ongoing_producer_epoch) == (101, 0)
    assert (kept.producer_id, kept.producer_epoch) == (101, 1)
    coordinator.restart()
    assert coordinator.error("end", coordinator.end_of(producer)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.error("add_partitions", coordinator.add_of(kept, P1)) is ErrorCode.INVALID_TXN_STATE
    ended = coordinator.end(kept)
    assert (ended.producer_id, ended.producer_epoch) == (101, 2)
    (marker,) = coordinator.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (101, 2, True)
    coordinator.write_markers()
    assert coordinator.end(kept) == ended
    coordinator.add(ended, P1)


def test_each_recovery_of_a_kept_transaction_fences_the_one_before() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    coordinator.add(coordinator.init(enable_two_phase_commit=True))
    first = coordinator.init(enable_two_phase_commit=True, keep_prepared=True)
    second = coordinator.init(enable_two_phase_commit=True, keep_prepared=True)
    assert (second.producer_epoch, second.ongoing_producer_epoch) == (2, 0)
    assert coordinator.error("end", coordinator.end_of(first)) is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(second, committed=False).producer_epoch == 3


def test_a_kept_transaction_moves_to_a_new_producer_id_when_its_epochs_are_used_up() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    coordinator.put(epoch=LAST_USABLE_EPOCH - 1, timeout_ms=NO_TIMEOUT_MS)
    coordinator.add(init_of(producer_id=7, producer_epoch=LAST_USABLE_EPOCH - 1))
    kept = coordinator.init(keep_prepared=True)
    assert (kept.producer_id, kept.producer_epoch, kept.ongoing_producer_id) == (101, 0, 7)
    ended = coordinator.end(kept)
    assert (ended.producer_id, ended.producer_epoch) == (101, 1)
    (marker,) = coordinator.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, LAST_USABLE_EPOCH)
    coordinator.restart()
    assert coordinator.error("end", coordinator.end_of(kept)) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.end(kept) == ended


def test_coming_back_without_keeping_aborts_what_was_prepared() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    coordinator.add(coordinator.init(enable_two_phase_commit=True))
    coordinator.init(enable_two_phase_commit=True, keep_prepared=True)
    assert coordinator.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = coordinator.markers
    assert (marker.committed, marker.producer_epoch) == (False, 2)
    coordinator.write_markers()
    assert coordinator.init().producer_epoch == 3


def test_nothing_to_keep_is_an_ordinary_beginning() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    coordinator.init()
    kept = coordinator.init(keep_prepared=True)
    assert (kept.producer_epoch, kept.ongoing_producer_id, kept.ongoing_producer_epoch) == (1, -1, -1)
    assert ID in dict(coordinator.shard.transactions())
