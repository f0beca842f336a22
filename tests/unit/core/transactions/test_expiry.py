"""Transactional ids that nobody uses any more."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.core.transactions.records import Status, Transaction, TransactionRecord
from tests.unit.core.transactions.driving import ID, START_MS, Coordinator

WEEK_MS = 7 * 24 * 3_600_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize("status", [Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT])
def test_an_idle_id_is_forgotten_after_a_week_and_begins_with_a_new_producer_id(status: Status) -> None:
    coordinator = Coordinator()
    coordinator.put(status=status)
    coordinator.pass_time(WEEK_MS - HOUR_MS)
    producer = coordinator.state()
    coordinator.pass_time(2 * HOUR_MS)
    assert coordinator.error("describe_transaction", ID) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert coordinator.log[-1][1] is None
    coordinator.restart()
    asked = coordinator.end_of(coordinator.init())
    assert asked.producer_id != producer.producer_id


def test_a_transaction_that_waits_for_a_verdict_is_not_forgotten() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    producer = coordinator.init(enable_two_phase_commit=True)
    coordinator.add(producer)
    coordinator.pass_time(3 * WEEK_MS)
    assert coordinator.status() is Status.ONGOING


def test_a_transaction_whose_markers_do_not_stand_is_not_forgotten() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer)
    coordinator.end(producer)
    coordinator.pass_time(WEEK_MS + HOUR_MS)
    assert coordinator.status() is Status.PREPARE_COMMIT


def test_an_id_that_is_used_lives_on() -> None:
    coordinator = Coordinator()
    coordinator.init()
    for _ in range(3):
        coordinator.pass_time(WEEK_MS - HOUR_MS)
        coordinator.init()
    assert coordinator.status() is Status.EMPTY


def test_very_many_idle_ids_are_forgotten_a_part_at_a_time() -> None:
    coordinator = Coordinator(id_expiration_ms=10, id_expiration_check_interval_ms=HOUR_MS)
    idle = Transaction(7, 0, 1_000, updated_ms=START_MS)
    for number in range(2_500):
        coordinator.apply(TransactionRecord(f"id-{number}", idle))
    coordinator.pass_time(HOUR_MS)
    assert 0 < len(dict(coordinator.shard.transactions())) < 2_500
    coordinator.pass_time(10_000)
    assert not dict(coordinator.shard.transactions())
