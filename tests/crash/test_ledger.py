"""The judge of the crash tests is judged: each planted fault must be noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.wire.batch import encode_batch, new_records

from .ledger import Ledger, Stamp, Stored, sealed_value, stamp_in, stored_in


def a_ledger(is_compacted: bool = False) -> tuple[Ledger, list[Stored]]:
    """Ten records that were acknowledged and seen, with two keys, and the log that holds them."""
    ledger = Ledger("t-0", is_compacted)
    stored = [Stored(offset, Stamp(1, offset), b"k%d" % (offset % 2)) for offset in range(10)]
    ledger.numbers_sent[1] = 10
    ledger.note_acked(0, [record.stamp for record in stored], [record.key for record in stored])
    ledger.note_seen(stored)
    return ledger, stored


def test_a_log_that_holds_what_was_promised_passes() -> None:
    ledger, stored = a_ledger()
    ledger.check(stored, 0)
    ledger.check(stored[4:], 4)
    assert ledger.start_offset == 4


FAULTS: dict[str, Callable[[list[Stored]], list[Stored]]] = {
    "the last one lost": lambda log: log[:-1],
    "one lost in the middle": lambda log: log[:4] + log[5:],
    "one in the place of another": lambda log: [*log[:9], log[9]._replace(stamp=Stamp(2, 0))],
    "one stored twice": lambda log: [*log, log[9]._replace(offset=10)],
    "an old one stored again": lambda log: [*log, log[3]._replace(offset=10)],
    "two changed places": lambda log: [*log[:8], log[9]._replace(offset=8), log[8]._replace(offset=9)],
    "one that nobody sent": lambda log: [*log, Stored(10, Stamp(1, 10), b"k0")],
    "a hole": lambda log: [*log[:9], log[9]._replace(offset=10)],
    "empty": lambda log: [],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_log_is_noticed(fault: str) -> None:
    ledger, stored = a_ledger()
    with pytest.raises(AssertionError):
        ledger.check(FAULTS[fault](stored), 0)


def test_a_log_start_that_falls_is_noticed() -> None:
    ledger, stored = a_ledger()
    ledger.check(stored[4:], 4)
    with pytest.raises(AssertionError, match="log start"):
        ledger.check(stored, 0)


def test_what_only_a_consumer_saw_must_stay_too() -> None:
    ledger, stored = a_ledger()
    ledger.acked.clear()
    with pytest.raises(AssertionError, match="seen"):
        ledger.check(stored[:-1], 0)


def test_an_offset_given_or_shown_twice_is_noticed() -> None:
    ledger, stored = a_ledger()
    ledger.note_acked(9, [Stamp(2, 0)])
    with pytest.raises(AssertionError, match="acknowledged for"):
        ledger.check(stored, 0)
    ledger, stored = a_ledger()
    ledger.note_seen([Stored(9, Stamp(2, 0), None)])
    with pytest.raises(AssertionError, match="then"):
        ledger.check(stored, 0)


def test_compaction_may_leave_the_last_of_each_key_and_no_less() -> None:
    ledger, stored = a_ledger(is_compacted=True)
    ledger.check(stored[8:], 0)
    for left in (stored[:8], stored[9:], [stored[8], stored[9]._replace(offset=10)], []):
        with pytest.raises(AssertionError):
            ledger.check(left, 0)


def test_a_value_that_was_changed_is_noticed() -> None:
    value = sealed_value(Stamp(3, 7), 100)
    assert stamp_in(value) == Stamp(3, 7)
    for at in range(len(value)):
        with pytest.raises(AssertionError):
            stamp_in(value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])


def test_records_are_found_in_batches_with_their_offsets() -> None:
    values = [(b"k", sealed_value(Stamp(1, number), 30)) for number in range(3)]
    batch = encode_batch(
        [record._replace(offset=record.offset + 5) for record in new_records(values, 0)], base_offset=5
    )
    assert stored_in([batch]) == [Stored(5 + number, Stamp(1, number), b"k") for number in range(3)]
