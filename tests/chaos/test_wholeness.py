"""The judge finds torn transactions, and copies that disagree with their offsets, and accuses no others."""

from __future__ import annotations

import pytest

from tests.chaos.telling import FAIL, INFO, KEY, Tale
from tools.chaos.checker import check
from tools.chaos.copies import copy_key, copy_value, source_of
from tools.chaos.history import Function, Poll, Send

OTHER = "t/1"
COPY = copy_key(KEY)


@pytest.fixture
def tale() -> Tale:
    return Tale()


def found(tale: Tale) -> set[str]:
    return set(check(tale.ops).illegal)


# --- torn


def test_a_transaction_of_which_one_part_is_there_and_one_is_not_is_torn(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0, True), Send(OTHER, 0, 0, True), outcome=INFO)
    tale.send((1, 2), key=OTHER)
    tale.poll((0, 0), process=1)
    tale.poll((2, 1), key=OTHER, process=1)
    assert "torn" in found(tale)
    [case] = check(tale.ops).illegal["torn"]
    assert case == {"ops": [0], "seen": [[KEY, 0, 0]], "missing": [[OTHER, 0, 0]]}


def test_an_acknowledged_transaction_can_be_torn_too(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0, True), Send(OTHER, 0, 0, True))
    tale.send((1, 2), key=OTHER)
    tale.poll((0, 0), process=1)
    tale.poll((2, 1), key=OTHER, process=1)
    assert found(tale) == {"torn", "lost-write", "unseen"}


def test_a_torn_part_without_an_offset_is_passed_by_what_was_sent_after_the_end(tale: Tale) -> None:
    tale.txn(Send(KEY, 0), Send(OTHER, 0), outcome=INFO)
    tale.poll((0, 0), process=1)
    tale.send((1, 2), key=OTHER, process=2)
    tale.poll((2, 1), key=OTHER, process=1)
    assert found(tale) == {"torn"}


def test_what_was_sent_before_the_end_of_a_transaction_proves_nothing_about_where_it_lies(tale: Tale) -> None:
    tale.txn(Send(KEY, 0), Send(OTHER, 0), outcome=INFO, invoked_ns=1, ended_ns=90)
    tale.send((1, 2), key=OTHER, process=2, invoked_ns=2, ended_ns=3)
    tale.poll((0, 0), process=1, invoked_ns=40, ended_ns=50)
    tale.poll((2, 1), key=OTHER, process=1, invoked_ns=51, ended_ns=60)
    assert found(tale) == set()


def test_a_part_that_nobody_has_come_to_yet_is_not_missing(tale: Tale) -> None:
    tale.send((1, 0), key=OTHER)
    tale.txn(Send(KEY, 0, 0, True), Send(OTHER, 0, 1, True), outcome=INFO)
    tale.poll((0, 0), process=1)
    tale.poll((0, 1), key=OTHER, process=1)
    assert found(tale) == set()


def test_an_unknown_transaction_of_which_nothing_is_there_was_aborted(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0, True), Send(OTHER, 0, 0, True), outcome=INFO)
    tale.send((1, 2))
    tale.send((1, 2), key=OTHER)
    tale.poll((2, 1), process=1)
    tale.poll((2, 1), key=OTHER, process=1)
    assert found(tale) == set()


def test_a_half_of_an_aborted_transaction_is_an_aborted_read(tale: Tale) -> None:
    tale.txn(Send(KEY, 0, 0, True), Send(OTHER, 0, 0, True), outcome=FAIL)
    tale.poll((0, 0), process=1)
    assert found(tale) == {"G1a"}


def test_parts_of_sends_that_are_no_transaction_may_be_lost_alone(tale: Tale) -> None:
    tale.send((0, None), (1, None), outcome=INFO)
    tale.send((2, 2))
    tale.poll((1, 1), (2, 2), process=1)
    assert found(tale) == set()


# --- copies


def copied(tale: Tale, *offsets: int, attempt: int, at: int = 0, **more: object) -> None:
    """A transaction that has copied what lies at these offsets, to offsets from `at` on."""
    pairs = [(at + n, copy_value(offset, attempt)) for n, offset in enumerate(offsets)]
    tale.txn(
        Poll({KEY: tuple((offset, offset) for offset in offsets)}),
        *(Send(COPY, value, place, True) for place, value in pairs),
        attempt=attempt,
        process=5,
        **more,
    )


def committed(tale: Tale, offset: int) -> None:
    tale.add(Function.OFFSETS, (), keys={KEY: offset}, process=9)


def read_copies(tale: Tale, *pairs: tuple[int, int]) -> None:
    """Pairs of the copy's offset and its value."""
    tale.poll(*pairs, key=COPY, process=1)


def three_sent(tale: Tale) -> None:
    tale.send((0, 0), (1, 1), (2, 2))
    tale.poll((0, 0), (1, 1), (2, 2), process=2)


def test_a_copy_names_its_source() -> None:
    assert source_of(copy_key("some-topic/3"), copy_value(77, 123)) == ("some-topic/3", 77)


def test_copies_up_to_the_committed_offset_are_right(tale: Tale) -> None:
    three_sent(tale)
    copied(tale, 0, 1, attempt=1)
    read_copies(tale, (0, copy_value(0, 1)), (1, copy_value(1, 1)))
    committed(tale, 2)
    assert found(tale) == set()


def test_two_copies_of_one_record_are_one_too_many(tale: Tale) -> None:
    three_sent(tale)
    copied(tale, 0, attempt=1)
    copied(tale, 0, attempt=2, at=2)
    read_copies(tale, (0, copy_value(0, 1)), (2, copy_value(0, 2)))
    committed(tale, 1)
    assert "copied-twice" in found(tale)


def test_a_copy_of_an_aborted_attempt_does_not_count(tale: Tale) -> None:
    three_sent(tale)
    copied(tale, 0, attempt=1, outcome=FAIL)
    copied(tale, 0, attempt=2, at=2)
    read_copies(tale, (2, copy_value(0, 2)))
    committed(tale, 1)
    assert found(tale) == set()


def test_offsets_without_copies_are_found(tale: Tale) -> None:
    three_sent(tale)
    copied(tale, 0, attempt=1)
    read_copies(tale, (0, copy_value(0, 1)))
    committed(tale, 3)
    assert check(tale.ops).illegal["not-copied"] == [
        {"key": KEY, "offset": 1, "committed": 3},
        {"key": KEY, "offset": 2, "committed": 3},
    ]


def test_copies_without_their_offset_are_found(tale: Tale) -> None:
    three_sent(tale)
    copied(tale, 0, 1, attempt=1)
    read_copies(tale, (0, copy_value(0, 1)), (1, copy_value(1, 1)))
    committed(tale, 1)
    assert found(tale) == {"copied-without-offset"}


def test_a_client_that_died_over_its_copies_has_written_what_is_read_of_them(tale: Tale) -> None:
    three_sent(tale)
    tale.txn(attempt=1, process=5, outcome=INFO)
    read_copies(tale, (0, copy_value(0, 1)), (1, copy_value(1, 1)))
    committed(tale, 2)
    assert found(tale) == set()


def test_copies_of_an_attempt_that_was_never_made_come_from_nowhere(tale: Tale) -> None:
    three_sent(tale)
    read_copies(tale, (0, copy_value(0, 1)))
    committed(tale, 1)
    assert found(tale) == {"never-written"}
