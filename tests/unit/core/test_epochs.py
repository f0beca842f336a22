from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import Epoch, Offset
from ottla.core.replication.epochs import UNDEFINED, EpochCache, EpochEnd, EpochEntry


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries)


def end_of(known: EpochCache, epoch: int, log_end: int = 100) -> tuple[int, int]:
    return known.end_offset_for(Epoch(epoch), Offset(log_end))


def test_the_current_epoch_ends_where_the_log_ends() -> None:
    assert end_of(cache((1, 0), (4, 30)), 4) == (4, 100)


def test_an_older_epoch_ends_where_the_next_begins() -> None:
    assert end_of(cache((1, 0), (4, 30)), 1) == (1, 30)


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before() -> None:
    assert end_of(cache((1, 0), (4, 30)), 3) == (1, 30)


def test_an_epoch_before_all_known_ends_where_the_first_known_begins() -> None:
    assert end_of(cache((4, 30)), 2) == EpochEnd(Epoch(2), Offset(30))


def test_an_epoch_after_all_known_is_undefined() -> None:
    assert end_of(cache((4, 30)), 5) == UNDEFINED
    assert end_of(cache(), 0) == UNDEFINED
    assert end_of(cache((4, 30)), -1) == UNDEFINED


def test_assigning_the_same_epoch_later_in_the_log_changes_nothing() -> None:
    known = cache((4, 30))
    assert not known.assign(Epoch(4), Offset(50))
    assert known.entries == [(4, 30)]


def test_assigning_drops_what_contradicts_it() -> None:
    known = cache((1, 0), (4, 30), (6, 50))
    assert known.assign(Epoch(5), Offset(40))
    assert known.entries == [(1, 0), (4, 30), (5, 40)]
    assert known.assign(Epoch(7), Offset(30))
    assert known.entries == [(1, 0), (7, 30)]


def test_truncating_the_end_drops_epochs_that_begin_there() -> None:
    known = cache((1, 0), (4, 30), (6, 50))
    assert known.truncate_from(Offset(30))
    assert (known.entries, known.latest) == ([(1, 0)], 1)
    assert not known.truncate_from(Offset(30))


def test_truncating_the_start_keeps_the_epoch_that_the_start_lies_in() -> None:
    known = cache((1, 0), (4, 30), (6, 50))
    assert known.truncate_to_start(Offset(40))
    assert known.entries == [(4, 40), (6, 50)]
    assert not known.truncate_to_start(Offset(40))
    assert known.truncate_to_start(Offset(50))
    assert known.entries == [(6, 50)]


def test_an_offset_knows_its_epoch() -> None:
    known = cache((1, 10), (4, 30))
    assert [known.epoch_at(Offset(offset)) for offset in (9, 10, 29, 30, 99)] == [-1, 1, 1, 4, 4]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30))), st.integers(0, 30), st.integers(0, 30))
def test_entries_rise_whatever_happens(assigned: list[tuple[int, int]], end: int, start: int) -> None:
    known = cache(*assigned)
    known.truncate_from(Offset(end))
    known.truncate_to_start(Offset(start))
    entries = known.entries
    assert entries == sorted(set(entries))
    assert len({e.epoch for e in entries}) == len({e.start_offset for e in entries}) == len(entries)
    assert known.latest == (entries[-1].epoch if entries else -1)
