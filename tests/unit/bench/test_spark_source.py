"""What the comparison with Spark's connector says of its runs; the runs themselves are those of the race."""

from pathlib import Path

import pytest

from bench.race.contestants import prepare_peer
from bench.spark_source import Options, measure, parse, told
from bench.spark_work import COPYING, READINGS, THROWN_AWAY
from tests.compat.java import Missing, _artifact, connector_jars

FIRST = READINGS[0].name


def test_figures_are_medians_and_ratios_those_of_neighbours() -> None:
    [line] = told({("ottla", FIRST, "rows/s"): {"ottla": [3.0, 4.0, 8.0], "kafka": [1.0, 2.0, 2.0]}})
    assert line["ottla"]["median"] == 4 and line["kafka"]["runs"] == [1, 2, 2]
    assert (line["ratio"], line["ratios"], line["missed"]) == (2.0, [3.0, 2.0, 4.0], [])


def test_what_is_missed_is_said() -> None:
    lines = told(
        {
            ("kafka", FIRST, "rows/s"): {"ottla": [149.0], "kafka": [100.0]},
            ("ottla", THROWN_AWAY.name, "rows/s"): {"ottla": [1.9e6], "kafka": [1e6]},
            ("ottla", COPYING, "rows/s"): {"ottla": [3e5], "kafka": [9e5]},
            ("kafka", COPYING, "rows/s"): {"ottla": [1e5], "kafka": [9e5]},
        }
    )
    assert [line["missed"] for line in lines] == [["ratio ≥ 1.5"], ["≥ 2,000,000 rows/s"], [], []]


def test_one_side_alone_has_no_ratio() -> None:
    [line] = told({("ottla", FIRST, "rows/s"): {"ottla": [1.0]}})
    assert "ratio" not in line and "kafka" not in line and line["missed"] == []


def test_the_command_says_what_is_run() -> None:
    options, given = parse(["--quick", "--broker", "ottla", "--alone", "--only", "1 kB"])
    assert (options.runs, options.brokers, options.formats) == (2, ("ottla",), ("ottla",))
    assert [(way.size, count) for way, count in options.ways] == [(1000, 30_000)] * 2
    assert given.write is None and parse([])[0].runs == 5


@pytest.mark.parametrize(
    ("jar", "artifact"),
    [
        ("kafka-clients-3.9.1.jar", "kafka-clients"),
        ("scala-parallel-collections_2.13-1.2.0.jar", "scala-parallel-collections_2.13"),
        ("commons-pool2-2.12.1.jar", "commons-pool2"),
    ],
)
def test_a_jar_that_spark_brings_is_known_by_its_name(jar: str, artifact: str) -> None:
    assert _artifact(Path(jar)) == artifact


@pytest.mark.peers
@pytest.mark.timeout(900)
def test_both_sources_are_measured_at_both_brokers(tmp_path: Path) -> None:
    try:
        prepare_peer()
        connector_jars()
    except Missing as missing:
        pytest.skip(str(missing))
    runs = measure(Options(runs=1, scale=0.001, repeats=1), tmp_path)
    assert len(runs) == 2 * 2 * (len(READINGS) + 2)
    assert all(sorted(rates) == ["kafka", "ottla"] for rates in runs.values())
    assert list(tmp_path.iterdir()) == []
