import re
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bench.race.chart import Axis, draw, strips, times
from bench.race.result import Result
from bench.race.table import markdown, number, show

from .race_results import race_of_three

SVG = "{http://www.w3.org/2000/svg}"


def shown(result: Result, published: Result | None = None) -> str:
    out = StringIO()
    show(result, published, Console(file=out, width=160))
    return out.getvalue()


def test_the_table_shows_medians_spreads_ratios_goals_and_verdicts() -> None:
    text = shown(race_of_three())
    row = next(line for line in text.splitlines() if "MB/s" in line)
    for part in ("300 (290–310)", "150 (100–200)", "2.00× (1.45–3.00)", "≥ 1×", "met"):
        assert part in row
    assert "missed" in text


def test_the_table_says_what_was_not_measured_and_where_the_client_is_the_bottleneck() -> None:
    result = race_of_three()
    result.failures.append("start, kafka, run 1: no port")
    text = shown(result)
    assert "replication: not run, no cluster yet" in text
    assert "produce, 100 B: the client is the bottleneck on both sides" in text
    assert "failed: start, kafka, run 1: no port" in text


def test_the_table_stands_beside_what_was_published() -> None:
    text = shown(race_of_three(), race_of_three())
    assert "published" in text
    row = next(line for line in text.splitlines() if "MB/s" in line)
    assert row.count("2.00×") == 2


def test_a_race_of_one_is_shown_without_ratios() -> None:
    result = race_of_three()
    for runs in result.figures.values():
        del runs["kafka"]
    assert "not measured" in shown(result)
    assert "missed" not in shown(result)
    ElementTree.fromstring(draw(result))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.004, "0.0040"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_numbers_have_about_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_markdown_has_a_table_per_workload_and_prints_misses_in_bold() -> None:
    text = markdown(race_of_three())
    assert text.count("\n|---|") == 2
    assert "| **missed** |" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {8}


def test_the_chart_has_a_dot_for_every_row_that_is_compared() -> None:
    result = race_of_three()
    root = ElementTree.fromstring(draw(result))
    dots = [one for one in root.iter(f"{SVG}circle") if one.find(f"{SVG}title") is not None]
    compared = [line for line in result.lines() if line.advantage is not None]
    assert len(dots) == len(compared) == 5


def test_the_chart_lies_within_its_frame() -> None:
    root = ElementTree.fromstring(draw(race_of_three()))
    width, height = (float(root.get(side) or 0) for side in ("width", "height"))
    for dot in root.iter(f"{SVG}circle"):
        assert 0 < float(dot.get("cx") or 0) < width
        assert 0 < float(dot.get("cy") or 0) < height


def test_misses_have_a_colour_of_their_own() -> None:
    svg = draw(race_of_three())
    missed = re.search(r'fill="(#\w+)"[^>]*><title>1,000 records/s: 1\.1×', svg)
    met = re.search(r'fill="(#\w+)"[^>]*><title>1 kB: 2\.0×', svg)
    assert missed is not None and met is not None
    assert missed[1] != met[1]


def test_the_axis_has_equal_in_the_middle_of_its_ticks_and_keeps_the_boundless_at_its_edge() -> None:
    axis = Axis.over([0.1, float("inf")])
    assert 1.0 in axis.ticks()
    assert axis.at(float("inf")) == axis.at(256.0)
    assert axis.at(0.1) < axis.at(1.0) < axis.at(2.0)
    assert axis.at(2.0) - axis.at(1.0) == pytest.approx(axis.at(4.0) - axis.at(2.0))


def test_a_strip_knows_where_its_goal_lies() -> None:
    goals = {strip.label: strip.goal for strip in strips(race_of_three())}
    assert goals["produce: MB/s"] == 1.0
    assert goals["latency: p99 ms"] == pytest.approx(1 / 0.7)
    assert goals["latency: p50 ms"] is None


def test_times_are_said_shortly() -> None:
    assert [times(value) for value in (0.5, 2.0, 31.4, float("inf"))] == ["0.50×", "2.0×", "31×", "∞"]
