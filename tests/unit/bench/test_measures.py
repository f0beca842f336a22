from math import inf

import pytest

from bench.race.measures import MEASURES, Better, Verdict, advantage, is_client_bound, judge

BOTH_BOUND = {"ottla": 0.95, "kafka": 1.2}


@pytest.mark.parametrize(
    ("measure", "ratio", "verdict"),
    [
        ("MB/s", 1.0, Verdict.MET),
        ("MB/s", 0.99, Verdict.MISSED),
        ("requests/s", 0.8, Verdict.MET),
        ("requests/s", 0.79, Verdict.MISSED),
        ("broker cpu s/GB", 1.0, Verdict.MET),
        ("broker cpu s/GB", 1.01, Verdict.MISSED),
        ("p99 ms", 0.7, Verdict.MET),
        ("p99 ms", 0.71, Verdict.MISSED),
        ("first ack s", 0.2, Verdict.MET),
        ("first ack s", 0.21, Verdict.MISSED),
        ("idle memory MB", 0.15, Verdict.MET),
        ("idle memory MB", 0.16, Verdict.MISSED),
        ("peak memory MB", 0.3, Verdict.MET),
        ("peak memory MB", 0.31, Verdict.MISSED),
        ("restart s", 0.5, Verdict.MET),
        ("restart s", 0.51, Verdict.MISSED),
        ("idle cpu %", 0.5, Verdict.MET),
        ("idle cpu %", 0.51, Verdict.MISSED),
        ("restart after kill s", 1.0, Verdict.MET),
        ("restart after kill s", 1.01, Verdict.MISSED),
        ("rows/s", 1.5, Verdict.MET),
        ("rows/s", 1.49, Verdict.MISSED),
        ("rows copied/s", 0.5, Verdict.NO_GOAL),
        ("p50 ms", 9.0, Verdict.NO_GOAL),
        ("client cores", 9.0, Verdict.NO_GOAL),
        ("MB/s", None, Verdict.UNKNOWN),
    ],
)
def test_goals_are_judged(measure: str, ratio: float | None, verdict: Verdict) -> None:
    assert judge(MEASURES[measure], ratio, {}) is verdict


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_a_rate_that_the_client_bounds_is_neither_won_nor_lost(ratio: float) -> None:
    assert judge(MEASURES["MB/s"], ratio, BOTH_BOUND) is Verdict.CLIENT_BOUND


def test_what_a_gb_costs_is_judged_all_the_same() -> None:
    assert judge(MEASURES["broker cpu s/GB"], 1.5, BOTH_BOUND) is Verdict.MISSED


def test_a_client_at_its_limit_on_one_side_excuses_nothing() -> None:
    assert not is_client_bound({"ottla": 0.5, "kafka": 1.0})
    assert not is_client_bound({"ottla": 1.0})
    assert judge(MEASURES["MB/s"], 0.5, {"ottla": 0.5, "kafka": 1.0}) is Verdict.MISSED


def test_better_points_the_same_way_for_all_measures() -> None:
    assert advantage(MEASURES["MB/s"], 2.0) == 2.0
    assert advantage(MEASURES["p99 ms"], 0.5) == 2.0
    assert advantage(MEASURES["idle cpu %"], 0.0) == inf
    assert advantage(MEASURES["client cores"], 2.0) is None


def test_what_has_a_goal_has_a_direction() -> None:
    assert [name for name, one in MEASURES.items() if one.goal is not None and one.better is Better.NEITHER] == []
