"""How runs take turns, what ends them, and what they leave behind; with workloads that only pretend."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.race import watch
from bench.race.__main__ import parse, place_for
from bench.race.apart import Apart, ClientFailed, apart
from bench.race.arena import Arena, Row, Workload
from bench.race.contestants import STOCK_HEAP, Kafka, described
from bench.race.plan import WORKLOADS
from bench.race.result import RESULT, Result
from bench.race.run import Options, missing_disk, race

TURNS: list[str] = []


def fine(arena: Arena) -> Iterator[Row]:
    TURNS.append(arena.contestant)
    yield Row("row", {"MB/s": 1.0})


def broken(arena: Arena) -> Iterator[Row]:
    yield Row("row", {"MB/s": 1.0})
    if arena.contestant == "kafka":
        raise RuntimeError("no answer")


def interrupted(arena: Arena) -> Iterator[Row]:
    yield Row("row", {"MB/s": 1.0})
    if arena.contestant == "kafka":
        raise KeyboardInterrupt


def leaves_files(arena: Arena) -> Iterator[Row]:
    (arena.directory / "left").write_text("behind")
    yield Row("row", {"MB/s": 1.0})


def run(*workloads: Workload, runs: int = 3, directory: Path | None = None) -> Result:
    options = Options(runs=runs, contestants=("ottla", "kafka"), directory=directory, scale=0.001)
    return race(workloads, options, lambda _: None)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.race.run.described", lambda name, _: {"version": name})


def test_the_contestants_take_turns() -> None:
    TURNS.clear()
    run(Workload("one", "", fine, ""), Workload("two", "", fine, ""))
    assert TURNS == ["ottla", "kafka"] * 6


def test_a_turn_that_fails_is_told_and_the_race_goes_on() -> None:
    result = run(Workload("bad", "", broken, ""), Workload("good", "", fine, ""), runs=2)
    assert [failure.split(":")[0] for failure in result.failures] == ["bad, kafka, run 1", "bad, kafka, run 2"]
    assert result.figures["good", "row", "MB/s"] == {"ottla": [1.0, 1.0], "kafka": [1.0, 1.0]}


def test_ctrl_c_keeps_what_had_come_in_and_says_so() -> None:
    result = run(Workload("long", "", interrupted, ""), Workload("next", "", fine, ""))
    assert result.failures == ["ended before all runs were done"]
    assert [workload for workload, _, _ in result.figures] == ["long"]


def test_what_cannot_be_run_says_why() -> None:
    result = run(Workload("later", "", fine, "", absent="not built yet"), Workload("now", "", fine, ""))
    assert result.absent == {"later": "not built yet"}


def test_a_workload_that_does_not_fit_onto_the_disk_is_not_begun(tmp_path: Path) -> None:
    huge = Workload("huge", "", fine, "", disk_gb=1e9)
    assert "are free" in missing_disk(huge, Options(), tmp_path)
    assert list(run(huge).absent) == ["huge"]


def test_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    run(Workload("untidy", "", leaves_files, ""), Workload("bad", "", broken, ""), directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([], RESULT),
        (["--full"], RESULT),
        (["--quick"], None),
        (["--only", "start"], None),
        (["--alone"], None),
        (["--runs", "2"], None),
        (["--quick", "--write", "here.json"], Path("here.json")),
    ],
)
def test_only_a_whole_race_replaces_the_result(arguments: list[str], place: Path | None) -> None:
    options, given = parse(arguments)
    assert place_for(options, given.write) == place


def test_every_workload_has_a_name_of_its_own_and_says_what_it_is() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    assert all(workload.about and (workload.bound or workload.absent) for workload in WORKLOADS)


def test_kafka_starts_with_the_heap_and_settings_of_its_own_scripts(tmp_path: Path) -> None:
    settings = Kafka(tmp_path)._config_file().read_text()
    assert STOCK_HEAP == ("-Xmx1G", "-Xms1G")
    for tuned in ("num.network.threads", "num.io.threads", "socket.", "log.flush", "segment.bytes"):
        assert tuned not in settings
    assert described("ottla", tmp_path)["settings"] == "none: every setting has its default"


def test_a_client_that_dies_is_noticed() -> None:
    with pytest.raises(ClientFailed, match="ended with 7"):
        apart(os._exit, 7)


def test_a_client_that_fails_says_why() -> None:
    with pytest.raises(ClientFailed, match="ValueError"):
        apart(int, "x")


def test_a_client_that_is_not_waited_for_ends_with_its_block() -> None:
    with Apart(time.sleep, 600) as sleeper:
        pid = sleeper.pid
        assert watch.tree(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_children_count_as_their_parent() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\ninput()"
    script = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {burn!r}], stdin=-1)\n"
    script += "input(); p.communicate(b'x'); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        deadline = time.monotonic() + 30
        while watch.cpu_seconds(parent.pid) < 0.2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(watch.tree(parent.pid)) == 2
        alone_mb = watch._status_mb(parent.pid, "VmRSS")
        assert watch.memory_mb(parent.pid) > 1.5 * alone_mb
        used = watch.cpu_seconds(parent.pid)
        parent.stdin.write("\n")
        parent.stdin.flush()
        while len(watch.tree(parent.pid)) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert watch.cpu_seconds(parent.pid) >= used
        parent.stdin.write("\n")


def test_a_peak_is_that_of_its_window() -> None:
    script = "x = bytearray(200_000_000); del x; print('done', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "done\n"
        assert watch.peak_memory_mb(process.pid) > 150
        with watch.Meter(process.pid) as meter:
            pass
        assert meter.peak_mb < 100
        process.stdin.write("\n")
