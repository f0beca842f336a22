"""The race itself, with hardly anything to carry: that it runs to its end, and what it then says."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.race import asking, compacting, living, moving, pipelines
from bench.race.arena import Arena, Row, Workload
from bench.race.chart import draw
from bench.race.contestants import prepare_peer
from bench.race.moving import Way
from bench.race.result import Result
from bench.race.run import Options, race
from bench.race.table import markdown
from bench.report import told
from tests.compat.java import Missing, connector_jars

NATIVE, JAVA = Way("librdkafka", 1000, "all", 16, "zstd"), Way("perf-test", 100, "1", 1)


def produce_both_ways(arena: Arena) -> Iterator[Row]:
    return moving.produce(arena, (NATIVE, JAVA))


def produce_natively(arena: Arena) -> Iterator[Row]:
    return moving.produce(arena, (NATIVE,))


def run(directory: Path, contestants: tuple[str, ...], *work: Workload) -> Result:
    options = Options(runs=1, scale=0.0005, contestants=contestants, directory=directory)
    result = race(work, options, print)
    assert result.failures == []
    assert list(directory.iterdir()) == []
    return result


def test_ottla_runs_its_half_of_the_race(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        ("ottla",),
        Workload("start", "", living.start, ""),
        Workload("produce", "", produce_natively, ""),
        Workload("1,000 connections", "", asking.many_connections, ""),
        Workload("compaction", "", compacting.compaction, ""),
    )
    found = {(workload, measure): runs["ottla"][0] for (workload, _, measure), runs in result.figures.items()}
    assert 0 < found["start", "first ack s"] < 60
    assert found["produce", "MB/s"] > 0
    assert found["produce", "peak memory MB"] > 10
    assert found["1,000 connections", "requests/s"] > 0
    assert found["compaction", "MB/s"] > 0
    assert "| start |" not in markdown(result) and "first ack s" in markdown(result)


@pytest.mark.timeout(600)
def test_ottla_runs_its_half_of_what_spark_does(tmp_path: Path) -> None:
    result = run(tmp_path, ("ottla",), Workload("spark source", "", pipelines.spark_source, ""))
    rates = [runs["ottla"][0] for (_, _, measure), runs in result.figures.items() if measure.startswith("rows")]
    assert len(rates) == 4 and all(rate > 0 for rate in rates)


def test_a_workload_whose_peer_cannot_be_had_is_left_out(tmp_path: Path) -> None:
    def fetch() -> None:
        raise Missing("no Maven")

    lacking = Workload("lacking", "", living.start, "", fetch=fetch)
    result = race([lacking], Options(1, 0.001, contestants=("ottla", "kafka"), directory=tmp_path), lambda _: None)
    assert result.absent == {"lacking": "no Maven"} and not result.figures


@pytest.mark.peers
@pytest.mark.timeout(600)
def test_both_run_the_race(tmp_path: Path) -> None:
    try:
        prepare_peer()
        connector_jars()
    except Missing as missing:
        pytest.skip(str(missing))
    result = run(
        tmp_path,
        ("ottla", "kafka"),
        Workload("start", "", living.start, ""),
        Workload("produce", "", produce_both_ways, ""),
        Workload("latency", "", asking.latency, ""),
        Workload("restart after kill", "", living.restart_after_kill, ""),
        Workload("spark source", "", pipelines.spark_source, ""),
    )
    lines = list(result.lines())
    assert all(line.ours is not None and line.theirs is not None for line in lines)
    assert {line.row for line in lines if line.workload == "produce"} == {NATIVE.name, JAVA.name}
    assert ElementTree.fromstring(draw(result)).tag.endswith("svg")
    assert "-Xmx1G -Xms1G" in told(result)
