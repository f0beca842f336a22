import json

import pytest

from bench.race.arena import Row
from bench.race.measures import Verdict
from bench.race.result import Line, Result

from .race_results import race_of_three


def line_of(result: Result, row: str, measure: str) -> Line:
    return next(line for line in result.lines() if (line.row, line.measure) == (row, measure))


def test_medians_ratios_and_verdicts_follow_from_the_runs() -> None:
    line = line_of(race_of_three(), "1 kB", "MB/s")
    assert line.ours is not None and line.theirs is not None
    assert (line.ours.median, line.theirs.median, line.ratio) == (300.0, 150.0, 2.0)
    assert line.verdict is Verdict.MET


def test_a_miss_is_a_miss() -> None:
    assert line_of(race_of_three(), "1,000 records/s", "p99 ms").verdict is Verdict.MISSED


def test_only_rows_whose_client_is_at_its_limit_on_both_sides_are_excused() -> None:
    result = race_of_three()
    assert result.client_bound_rows() == {("produce", "100 B")}
    assert line_of(result, "100 B", "MB/s").verdict is Verdict.CLIENT_BOUND


def test_a_result_comes_back_from_its_file() -> None:
    result = race_of_three()
    again = Result.from_json(result.to_json())
    assert (again.facts, again.notes, again.absent) == (result.facts, result.notes, result.absent)
    assert again.to_json() == result.to_json()


def test_the_file_says_medians_ratios_goals_and_verdicts() -> None:
    figure = json.loads(race_of_three().to_json())["workloads"]["produce"]["1 kB"]["figures"]["MB/s"]
    assert figure["ottla"] == {"median": 300.0, "runs": [300.0, 310.0, 290.0]}
    assert (figure["ratio"], figure["goal"], figure["verdict"]) == (2.0, 1.0, "met")


def test_a_verdict_in_the_file_is_not_believed() -> None:
    whole = json.loads(race_of_three().to_json())
    whole["workloads"]["latency"]["1,000 records/s"]["figures"]["p99 ms"]["verdict"] = "met"
    again = Result.from_json(json.dumps(whole))
    assert line_of(again, "1,000 records/s", "p99 ms").verdict is Verdict.MISSED


def test_a_note_is_said_once() -> None:
    assert race_of_three().notes == {("produce", "100 B"): ["kafka: odd"]}


def test_a_figure_that_nobody_declared_is_noticed() -> None:
    result = Result()
    result.add("produce", "ottla", Row("1 kB", {"furlongs": 1.0}))
    with pytest.raises(KeyError):
        result.to_json()


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format"):
        Result.from_json('{"format": 0}')
