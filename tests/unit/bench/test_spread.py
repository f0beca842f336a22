import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.race.open_loop import Schedule, percentile
from bench.race.spread import Spread, paired_ratios, ratio

FIGURES = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=20)


def test_one_wild_run_does_not_move_the_median() -> None:
    assert Spread.of([10.0, 11.0, 500.0, 9.0, 10.5]).median == 10.5


def test_nothing_is_no_spread() -> None:
    with pytest.raises(ValueError, match="no runs"):
        Spread.of([])


@given(FIGURES)
def test_the_median_lies_within_the_spread(runs: list[float]) -> None:
    spread = Spread.of(runs)
    assert spread.least <= spread.median <= spread.most


def test_the_ratio_is_that_of_the_medians() -> None:
    assert ratio(Spread.of([1.0, 3.0, 2.0]), Spread.of([8.0, 4.0, 1.0])) == 0.5


def test_there_is_no_ratio_to_nothing() -> None:
    assert ratio(Spread.of([1.0]), Spread.of([0.0])) is None
    assert ratio(Spread.of([1.0]), None) is None
    assert ratio(None, Spread.of([1.0])) is None


def test_neighbours_in_time_are_compared_with_each_other() -> None:
    pairs = paired_ratios(Spread.of([10.0, 20.0, 40.0]), Spread.of([10.0, 10.0, 80.0]))
    assert pairs is not None
    assert pairs.runs == (1.0, 2.0, 0.5)


def test_a_run_that_one_side_lacks_has_no_neighbour() -> None:
    pairs = paired_ratios(Spread.of([10.0, 20.0]), Spread.of([5.0]))
    assert pairs is not None
    assert pairs.runs == (2.0,)


@pytest.mark.parametrize(("rank", "value"), [(50, 50), (99, 99), (99.9, 100), (100, 100), (0, 1)])
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(rank: float, value: int) -> None:
    assert percentile(list(range(1, 101)), rank) == value


def test_a_late_record_is_still_due_when_it_was_due() -> None:
    schedule = Schedule(begin_ns=5, rate=1_000, count=10, warm_up=2)
    assert [schedule.due_ns(number) for number in (0, 1, 9)] == [5, 1_000_005, 9_000_005]
