"""The judge finds what is planted, and nothing where nothing is."""

from __future__ import annotations

import pytest

from tests.chaos.telling import FAIL, INFO, KEY, Tale
from tools.chaos.checker import Promises, Verdict, check
from tools.chaos.history import Poll, Send


@pytest.fixture
def tale() -> Tale:
    return Tale()


def found(tale: Tale, promises: Promises | None = None) -> set[str]:
    return set(check(tale.ops, promises).illegal)


def verdict(tale: Tale) -> Verdict:
    return check(tale.ops)


def test_a_history_in_which_all_is_well_has_no_anomaly(tale: Tale) -> None:
    tale.assign({KEY: 0}, process=1)
    tale.send((0, 0), (1, 1))
    tale.send((2, 3))
    tale.poll((0, 0), (1, 1), process=1)
    tale.poll((3, 2), process=1)
    assert verdict(tale).anomalies == {}


def test_an_empty_history_is_valid() -> None:
    assert check([]).is_valid


# --- what lies where


def test_two_values_at_one_offset_are_inconsistent(tale: Tale) -> None:
    tale.send((0, 0))
    tale.send((1, 0))
    tale.poll((0, 0), process=1)
    tale.poll((0, 1), process=2)
    assert "inconsistent-offsets" in found(tale)


def test_an_offset_acknowledged_for_two_values_is_inconsistent_before_anybody_reads(tale: Tale) -> None:
    tale.send((0, 0))
    tale.send((1, 0), process=1)
    assert "inconsistent-offsets" in found(tale)


def test_what_was_seen_above_the_high_watermark_and_replaced_is_inconsistent(tale: Tale) -> None:
    tale.send((0, None), outcome=INFO)
    tale.poll((0, 0), process=1, outcome=INFO)
    tale.send((1, 0), process=2)
    tale.poll((0, 1), process=3)
    assert "inconsistent-offsets" in found(tale)


def test_the_offset_of_a_failed_send_proves_nothing(tale: Tale) -> None:
    tale.send((0, 0), outcome=FAIL)
    tale.send((1, 0))
    tale.poll((0, 1), process=1)
    assert found(tale) == set()


def test_a_value_at_two_offsets_is_a_duplicate_if_producers_are_idempotent(tale: Tale) -> None:
    tale.send((0, 0))
    tale.poll((0, 0), (1, 0), process=1)
    assert found(tale) == {"duplicate"}
    assert found(tale, Promises(is_idempotent=False)) == set()


def test_a_value_that_nobody_sent_is_noticed(tale: Tale) -> None:
    tale.poll((0, 7))
    tale.poll((1, "b'garbage'"))
    assert len(verdict(tale).illegal["never-written"]) == 2


def test_a_history_with_a_value_sent_twice_is_refused(tale: Tale) -> None:
    tale.send((0, 0))
    tale.send((0, 1))
    assert "written-twice" in found(tale)


# --- what is read


def test_an_aborted_value_must_not_be_read(tale: Tale) -> None:
    tale.txn(Send(KEY, 0), outcome=FAIL)
    tale.poll((0, 0), process=1)
    assert found(tale) == {"G1a"}
    assert found(tale, Promises(reads_committed=False)) == set()


def test_an_unknown_send_may_be_read_or_not(tale: Tale) -> None:
    tale.send((0, None), outcome=INFO)
    tale.send((1, None), outcome=INFO)
    tale.poll((0, 1), process=1)
    assert found(tale) == set()


def test_a_transaction_does_not_read_what_it_has_sent_itself(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0, True), Poll({KEY: ((0, 0),)}))
    assert "precommitted-read" in found(tale)


def test_an_acknowledged_value_before_one_that_was_read_is_lost(tale: Tale) -> None:
    tale.send((0, 0))
    tale.send((1, 1))
    tale.poll((1, 1), process=1)
    assert found(tale) == {"lost-write", "unseen"}
    assert found(tale, Promises(is_durable=False)) == set()


def test_an_acknowledged_part_of_an_unknown_operation_can_be_lost(tale: Tale) -> None:
    tale.send((0, 0), (1, None), outcome=INFO)
    tale.send((2, 2))
    tale.poll((2, 2), process=1)
    assert [case["value"] for case in verdict(tale).illegal["lost-write"]] == [0]


def test_the_end_of_a_log_that_nobody_read_is_unseen_but_not_lost(tale: Tale) -> None:
    tale.send((0, 0), (1, 1))
    tale.poll((0, 0), process=1)
    assert found(tale) == {"unseen"}


def test_an_acknowledgement_without_an_offset_counts(tale: Tale) -> None:
    tale.send((0, None))
    assert found(tale) == {"unseen"}


def test_one_part_of_an_unknown_transaction_proves_the_others(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0), Send("t/1", 0, 0), outcome=INFO)
    tale.send((1, 1), key="t/1")
    tale.poll((0, 0), process=1)
    tale.poll((1, 1), key="t/1", process=1)
    assert found(tale) == {"lost-write", "torn"}
    tale.ops[0].f = tale.ops[1].f
    assert found(tale) == set()


# --- steps


def three(tale: Tale) -> None:
    for value in range(3):
        tale.send((value, value), process=9)
    tale.poll((0, 0), (1, 1), (2, 2), process=8)


def test_a_poll_may_not_leave_out_what_lies_between(tale: Tale) -> None:
    three(tale)
    tale.poll((0, 0), process=1)
    tale.poll((2, 2), process=1)
    assert found(tale) == {"poll-skip"}
    assert found(tale, Promises(is_steady=False)) == set()


@pytest.mark.parametrize("again", [0, 1])
def test_a_poll_may_not_go_back_nor_stand_still(tale: Tale, again: int) -> None:
    three(tale)
    tale.poll((0, 0), (1, 1), process=1)
    tale.poll((again, again), process=1)
    assert found(tale) == {"nonmonotonic-poll"}


def test_holes_in_the_offsets_are_no_gap(tale: Tale) -> None:
    tale.send((0, 0))
    tale.send((1, 5))
    tale.poll((0, 0), process=1)
    tale.poll((5, 1), process=1)
    assert found(tale) == set()


def test_whoever_was_assigned_anew_may_begin_anywhere(tale: Tale) -> None:
    three(tale)
    tale.poll((0, 0), (1, 1), process=1)
    tale.assign({}, process=1)
    tale.assign({KEY: 0}, process=1)
    tale.poll((0, 0), process=1)
    assert found(tale) == set()


def test_what_lies_between_the_assigned_offset_and_the_first_record_read_was_left_out(tale: Tale) -> None:
    three(tale)
    tale.poll((0, 0), (1, 1), (2, 2), process=1)
    tale.assign({KEY: 0}, process=2)
    tale.poll((1, 1), process=2)
    assert found(tale) == {"poll-skip"}


def test_an_assigned_offset_may_lie_in_a_hole(tale: Tale) -> None:
    tale.send((0, 0), (1, 5), (2, 6))
    tale.poll((0, 0), (5, 1), process=1)
    for begin in (1, 5):
        tale.assign({KEY: begin}, process=2 + begin)
        tale.poll((5, 1), (6, 2), process=2 + begin)
    assert found(tale) == set()


def test_a_key_whose_assignment_names_no_offset_may_begin_anywhere(tale: Tale) -> None:
    three(tale)
    tale.assign({KEY: None}, process=2)
    tale.poll((0, 0), (1, 1), (2, 2), process=1)
    tale.poll((2, 2), process=2)
    assert found(tale) == set()


def test_an_assignment_that_keeps_a_key_keeps_its_position(tale: Tale) -> None:
    three(tale)
    tale.poll((0, 0), (1, 1), process=1)
    tale.assign({KEY: 0, "t/1": 0}, process=1)
    tale.poll((0, 0), process=1)
    assert found(tale) == {"nonmonotonic-poll"}


def test_a_rebalance_excuses_its_keys_alone(tale: Tale) -> None:
    three(tale)
    tale.send((0, 0), (1, 1), key="t/1", process=9)
    tale.poll((0, 0), (1, 1), process=1)
    tale.poll((0, 0), process=1, rebalanced=frozenset([KEY]))
    tale.poll((0, 0), (1, 1), key="t/1", process=1)
    assert found(tale) == set()
    tale.poll((1, 1), key="t/1", process=1, rebalanced=frozenset([KEY]))
    assert found(tale) == {"nonmonotonic-poll"}


def test_one_poll_has_no_gaps_and_goes_forward(tale: Tale) -> None:
    three(tale)
    tale.poll((0, 0), (2, 2), process=1)
    assert found(tale) == {"int-poll-skip"}
    tale.poll((1, 1), (0, 0), process=2)
    assert found(tale) == {"int-poll-skip", "int-nonmonotonic-poll"}


def test_what_one_process_sends_later_lies_behind(tale: Tale) -> None:
    tale.send((0, 1))
    tale.send((1, 0))
    tale.poll((0, 1), (1, 0), process=1)
    assert found(tale) == {"nonmonotonic-send", "late-append"}
    assert found(tale, Promises(is_idempotent=False)) == {"late-append"}


def test_an_unknown_send_that_was_read_has_its_place_too(tale: Tale) -> None:
    tale.send((0, None), outcome=INFO)
    tale.send((1, 0))
    tale.poll((0, 1), (1, 0), process=1)
    assert found(tale) == {"nonmonotonic-send"}


def test_what_one_operation_sends_later_lies_behind_with_others_between(tale: Tale) -> None:
    tale.send((0, 0), (1, 2), invoked_ns=1, ended_ns=4)
    tale.send((2, 1), process=1, invoked_ns=2, ended_ns=3)
    tale.poll((0, 0), (1, 2), (2, 1), process=2)
    assert found(tale) == set()
    assert "int-send-skip" in verdict(tale).anomalies
    tale.send((4, 4), (3, 3))
    tale.poll((3, 3), (4, 4), process=2)
    assert found(tale) == {"int-nonmonotonic-send"}


def test_what_is_sent_later_by_anybody_lies_behind_what_was_known(tale: Tale) -> None:
    tale.send((0, 1), process=0)
    tale.send((1, 0), process=1)
    tale.poll((0, 1), (1, 0), process=2)
    assert found(tale, Promises(is_idempotent=False)) == {"late-append"}


def test_what_is_sent_later_lies_behind_what_was_read(tale: Tale) -> None:
    tale.send((0, None), outcome=INFO, process=0)
    tale.poll((1, 0), process=1)
    tale.send((1, 0), process=2)
    tale.poll((0, 1), (1, 0), process=3)
    assert found(tale) == {"late-append"}


def test_sends_that_overlap_may_lie_in_any_order(tale: Tale) -> None:
    tale.send((0, 1), process=0, invoked_ns=1, ended_ns=4)
    tale.send((1, 0), process=1, invoked_ns=4, ended_ns=9)
    tale.poll((0, 1), (1, 0), process=2)
    assert found(tale) == set()


# --- cycles


def test_transactions_that_read_each_other_go_round_in_a_circle(tale: Tale) -> None:
    other = "t/1"
    tale.txn(Send(KEY, 0, 0, True), Poll({other: ((0, 0),)}), process=0, invoked_ns=1, ended_ns=9)
    tale.txn(Send(other, 0, 0, True), Poll({KEY: ((0, 0),)}), process=1, invoked_ns=2, ended_ns=9)
    assert found(tale) == {"G1c (no ww)"}
    assert verdict(tale).illegal["G1c (no ww)"] == [{"ops": [1, 0], "edges": ["WR", "WR"]}]


def test_a_circle_of_writes_is_legal_without_isolation_of_writes(tale: Tale) -> None:
    other = "t/1"
    for process, (one, two) in enumerate([(0, 1), (1, 0)]):
        sends = Send(KEY, process, one, True), Send(other, process, two, True)
        tale.txn(*sends, process=process, invoked_ns=1 + process, ended_ns=9)
    tale.poll((0, 0), (1, 1), process=2)
    tale.poll((0, 1), (1, 0), key=other, process=2)
    assert found(tale) == set()
    assert "G0" in verdict(tale).anomalies


def test_a_process_does_not_read_what_follows_from_its_own_next_step(tale: Tale) -> None:
    tale.poll((0, 0), process=0, invoked_ns=1, ended_ns=2)
    tale.send((0, 0), key="t/1", process=0, invoked_ns=3, ended_ns=4)
    tale.poll((0, 0), key="t/1", process=1, invoked_ns=1, ended_ns=5)
    tale.send((0, 0), process=1, invoked_ns=1, ended_ns=9)
    tale.ops[3].invoked_ns = 6
    assert "G1c-process (no ww)" in found(tale)


def test_nobody_reads_what_has_not_been_sent_yet(tale: Tale) -> None:
    tale.poll((0, 0), process=0)
    tale.send((0, 0), process=1)
    assert found(tale) == {"G1c-realtime (no ww)", "late-append"}


def test_operations_that_overlap_have_no_order_in_time(tale: Tale) -> None:
    tale.poll((0, 0), process=0, invoked_ns=1, ended_ns=5)
    tale.send((0, 0), process=1, invoked_ns=5, ended_ns=9)
    assert found(tale) == set()


def test_an_unknown_operation_has_no_end(tale: Tale) -> None:
    tale.send((0, None), process=0, outcome=INFO)
    tale.send((1, 0), process=1)
    tale.poll((0, 1), (1, 0), process=2)
    assert found(tale) == set()


def test_a_long_history_needs_no_deep_stack() -> None:
    tale = Tale()
    for value in range(6_000):
        tale.send((value, value))
    tale.assign({KEY: 0}, process=1)
    tale.poll(*((value, value) for value in range(6_000)), process=1)
    assert found(tale) == set()


# --- figures


def test_figures_count_and_measure(tale: Tale) -> None:
    second = 1_000_000_000
    tale.assign({KEY: 0}, process=1, invoked_ns=1, ended_ns=2)
    tale.send((0, 0), (1, 1), invoked_ns=1 * second, ended_ns=2 * second)
    tale.send((2, None), outcome=INFO, invoked_ns=2 * second, ended_ns=3 * second)
    tale.send((3, 2), invoked_ns=6 * second, ended_ns=7 * second)
    tale.poll((0, 0), process=1, invoked_ns=7 * second, ended_ns=8 * second)
    tale.poll((1, 1), (2, 3), process=1, invoked_ns=11 * second, ended_ns=12 * second)
    figures = verdict(tale).figures
    assert (figures.sent, figures.acked, figures.read) == (4, 3, 3)
    assert figures.ack_stall_seconds == 5
    assert figures.read_stall_seconds == 4
    assert figures.lag_seconds == 5
    assert figures.outcomes["send"] == {"ok": 2, "info": 1}


def test_values_given_twice_to_a_subscriber_are_counted(tale: Tale) -> None:
    three(tale)
    tale.subscribe(KEY, process=1)
    tale.poll((0, 0), (1, 1), process=1)
    tale.poll((1, 1), (2, 2), process=1, rebalanced=frozenset([KEY]))
    assert verdict(tale).figures.read_again == 1
    assert verdict(tale).is_valid
