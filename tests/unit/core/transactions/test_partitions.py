"""Partitions, markers, time and recovery, sentence by sentence."""

from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.administration import unknown_states
from ottla.core.transactions.asks import AddPartitionsReply, ListTransactions, VerifyPartitions
from ottla.core.transactions.records import Status
from ottla.core.transactions.settings import TransactionSettings
from tests.unit.core.transactions.driving import ID, P0, P1, START_MS, TIMEOUT_MS, Coordinator, init_of, written

DAY_MS = 24 * 3_600_000


def ending(version: int = 2) -> tuple[Coordinator, Any]:
    """A coordinator that waits for two markers, and the producer as it goes on."""
    coordinator = Coordinator(version)
    producer: Any = coordinator.init()
    coordinator.add(producer, P0, P1)
    ended = coordinator.end(producer)
    return coordinator, ended if version >= 2 else producer


def test_partitions_add_up_and_those_known_are_not_written_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.now_ms += 5
    coordinator.add(producer, P1)
    size = len(coordinator.log)
    assert coordinator.add(producer, P0, P1) == AddPartitionsReply()
    assert len(coordinator.log) == size
    assert coordinator.state().partitions == {P0, P1}
    assert coordinator.state().started_ms == START_MS


def test_verifying_tells_partition_by_partition_and_writes_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    size = len(coordinator.log)
    ask = VerifyPartitions(transactional_id=ID, producer_id=101, producer_epoch=0, partitions=(P1, P0))
    reply = coordinator.ask("verify_partitions", ask)
    assert reply.errors == (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE)
    stranger = VerifyPartitions(transactional_id=ID, producer_id=101, producer_epoch=1, partitions=(P0,))
    assert coordinator.error("verify_partitions", stranger) is ErrorCode.PRODUCER_FENCED
    coordinator.end(producer)
    assert coordinator.error("verify_partitions", stranger) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(coordinator.log) == size + 1


@pytest.mark.parametrize("version", [0, 2])
def test_no_transaction_begins_before_the_last_one_is_over(version: int) -> None:
    coordinator, producer = ending(version)
    assert coordinator.error("add_partitions", coordinator.add_of(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_implicit_partition_waits_for_the_last_transaction_and_is_then_in() -> None:
    coordinator, producer = ending()
    first = coordinator.add(producer, P0, is_implicit=True)
    second = coordinator.add(producer, P1, is_implicit=True)
    assert not coordinator.replies
    coordinator.write_markers()
    assert coordinator.replies == {first: AddPartitionsReply(), second: AddPartitionsReply()}
    assert coordinator.status() is Status.ONGOING
    assert coordinator.state().partitions == {P0, P1}
    coordinator.pass_time(1_000)
    assert len(coordinator.replies) == 2


def test_an_implicit_partition_does_not_wait_for_long() -> None:
    coordinator, producer = ending()
    ticket = coordinator.add(producer, is_implicit=True)
    coordinator.pass_time(99)
    assert not coordinator.replies
    coordinator.pass_time(1)
    assert coordinator.replies == {ticket: AddPartitionsReply(ErrorCode.CONCURRENT_TRANSACTIONS)}
    coordinator.write_markers()
    assert coordinator.status() is Status.COMPLETE_COMMIT


def test_whoever_waits_hears_that_the_coordinator_has_moved() -> None:
    coordinator, producer = ending()
    ticket = coordinator.add(producer, is_implicit=True)
    (reply,) = coordinator.shard.resign()
    assert (reply.ticket, reply.reply.error) == (ticket, ErrorCode.NOT_COORDINATOR)


def test_a_stranger_does_not_wait() -> None:
    coordinator, _ = ending()
    stranger = init_of(producer_id=101, producer_epoch=0)
    ask = coordinator.add_of(stranger, is_implicit=True)
    assert coordinator.error("add_partitions", ask) is ErrorCode.PRODUCER_FENCED


# Markers


def test_a_transaction_is_complete_when_its_last_marker_stands() -> None:
    coordinator, _ = ending()
    (marker,) = coordinator.markers
    coordinator.ask("on_markers", written(marker, P0))
    coordinator.ask("on_markers", written(marker, P0))
    assert coordinator.status() is Status.PREPARE_COMMIT
    coordinator.ask("on_markers", written(marker, P1))
    assert coordinator.status() is Status.COMPLETE_COMMIT
    size = len(coordinator.log)
    coordinator.ask("on_markers", written(marker))
    assert len(coordinator.log) == size


def test_a_late_report_does_not_count_for_the_next_transaction_of_the_same_epoch() -> None:
    coordinator, producer = ending(version=0)
    (first,) = coordinator.markers
    coordinator.write_markers()
    coordinator.add(producer, P0, P1)
    coordinator.end(producer)
    coordinator.ask("on_markers", written(first))
    assert coordinator.status() is Status.PREPARE_COMMIT


def test_markers_nobody_reports_are_asked_for_again() -> None:
    coordinator, _ = ending()
    (marker,) = coordinator.markers
    coordinator.ask("on_markers", written(marker, P0))
    coordinator.markers.clear()
    coordinator.pass_time(TransactionSettings().marker_resend_ms)
    (again,) = coordinator.markers
    assert (again.marker_id, again.partitions) == (marker.marker_id, (P1,))


def test_a_completion_that_could_not_be_written_is_decided_again() -> None:
    coordinator, producer = ending()
    ticket = coordinator.add(producer, is_implicit=True)
    (marker,) = coordinator.markers
    lost = coordinator.shard.on_markers(written(marker), coordinator.now_ms)
    assert lost.records
    coordinator.pass_time(TransactionSettings().marker_resend_ms)
    assert coordinator.status() is Status.COMPLETE_COMMIT
    assert coordinator.replies == {ticket: AddPartitionsReply(ErrorCode.CONCURRENT_TRANSACTIONS)}


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_coordinator_finishes_what_was_prepared(committed: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    coordinator.end(producer, committed)
    coordinator.restart()
    (marker,) = coordinator.markers
    assert (marker.committed, marker.partitions, marker.coordinator_epoch) == (committed, (P0, P1), 2)
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_version) == (101, 1, 2)
    coordinator.write_markers()
    assert coordinator.status() is (Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)


def test_a_new_coordinator_completes_an_end_without_partitions() -> None:
    coordinator = Coordinator()
    coordinator.put(status=Status.PREPARE_ABORT, epoch=1, started_ms=START_MS, client_version=2)
    coordinator.restart()
    assert coordinator.status() is Status.COMPLETE_ABORT


# Time


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_when_its_time_is_up_and_its_producer_fenced(version: int) -> None:
    coordinator = Coordinator(version)
    producer = coordinator.init()
    coordinator.add(producer)
    coordinator.pass_time(TIMEOUT_MS - 1)
    coordinator.add(producer, P1)
    assert coordinator.status() is Status.ONGOING
    coordinator.pass_time(1)
    assert coordinator.status() is Status.PREPARE_ABORT
    assert coordinator.markers[0].producer_epoch == 1
    coordinator.write_markers()
    commit = coordinator.end_of(producer)
    expected = ErrorCode.INVALID_TXN_STATE if version >= 2 else ErrorCode.PRODUCER_FENCED
    assert coordinator.error("end", commit) is expected


def test_time_goes_on_while_nobody_coordinates() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.init())
    coordinator.now_ms += TIMEOUT_MS - 10
    coordinator.restart()
    assert coordinator.status() is Status.ONGOING
    coordinator.pass_time(10)
    assert coordinator.status() is Status.PREPARE_ABORT


def test_an_abort_for_lack_of_time_that_could_not_be_written_is_tried_again() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.init())
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.shard.on_time(coordinator.now_ms).records
    coordinator.pass_time(1_000)
    assert coordinator.status() is Status.PREPARE_ABORT


def test_ids_that_nobody_uses_are_forgotten_but_never_open_ones() -> None:
    coordinator = Coordinator(has_two_phase_commit=True)
    producer = coordinator.init(enable_two_phase_commit=True)
    coordinator.add(producer)
    coordinator.pass_time(8 * DAY_MS)
    assert coordinator.status() is Status.ONGOING
    coordinator.end(producer)
    coordinator.write_markers()
    coordinator.pass_time(7 * DAY_MS - 2 * 3_600_000)
    assert coordinator.status() is Status.COMPLETE_COMMIT
    coordinator.pass_time(3 * 3_600_000)
    assert ID not in dict(coordinator.shard.transactions())
    coordinator.restart()
    assert ID not in dict(coordinator.shard.transactions())


# Administration


def test_transactions_are_listed_by_state_producer_age_and_name() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.init())
    coordinator.now_ms += 50

    def is_listed(**filters: Any) -> bool:
        return bool(coordinator.ask("list_transactions", ListTransactions(**filters)))

    (row,) = coordinator.ask("list_transactions", ListTransactions())
    assert (row.transactional_id, row.producer_id, row.state) == (ID, 101, "Ongoing")
    assert is_listed(states=frozenset({"Ongoing"}))
    assert not is_listed(states=frozenset({"Empty"}))
    assert is_listed(producer_ids=frozenset({101}))
    assert not is_listed(producer_ids=frozenset({102}))
    assert is_listed(duration_ms=49)
    assert not is_listed(duration_ms=50)
    assert not is_listed(is_wanted=lambda transactional_id: transactional_id != ID)
    assert unknown_states(("Ongoing", "PrepareEpochFence", "ongoing", "Odd")) == ("ongoing", "Odd")


def test_a_transaction_is_described_with_its_partitions() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.init(), P1, P0)
    described = coordinator.carry_out(coordinator.shard.describe_transaction(ID, START_MS))
    assert (described.state, described.timeout_ms, described.started_ms) == ("Ongoing", TIMEOUT_MS, START_MS)
    assert described.partitions == (P0, P1)
    with pytest.raises(Refused) as refused:
        coordinator.shard.describe_transaction("nobody", START_MS)
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
