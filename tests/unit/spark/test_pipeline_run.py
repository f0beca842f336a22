"""A run of flows whose queries only pretend: starts, failures, wishes from outside, and what is written down."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.running import PipelineRun
from ottla.spark.pipelines.state import StateDirectory
from ottla.spark.pipelines.supervision import State


@dataclass
class PretendedQuery:
    failure_text: str | None = None
    active: bool = True
    stopped: bool = False
    batches: list[Mapping[str, Any]] = field(default_factory=list)

    def is_active(self) -> bool:
        return self.active

    def failure(self) -> str | None:
        return self.failure_text

    def reports(self) -> Iterable[Mapping[str, Any]]:
        return self.batches

    def stop(self) -> None:
        self.stopped, self.active = True, False

    def end(self, why: str | None = None) -> None:
        self.active, self.failure_text = False, why


@dataclass
class PretendedFlow:
    name: str
    restarts: int = 1
    mode: str = "micro"
    refuses: str = ""
    scans: tuple[int, ...] = ()
    queries: list[PretendedQuery] = field(default_factory=list)

    def start(self) -> PretendedQuery:
        if self.refuses:
            raise NotReady(self.refuses)
        self.queries.append(PretendedQuery())
        return self.queries[-1]


@dataclass
class World:
    state: StateDirectory
    flows: dict[str, PretendedFlow]
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.run = PipelineRun("shop", list(self.flows.values()), self.state, clock=lambda: self.now_ms)

    def step(self, later_ms: int = 0) -> None:
        self.now_ms += later_ms
        self.run.step()

    def states(self) -> dict[str, str]:
        return {name: flow["state"] for name, flow in self.run.status()["flows"].items()}

    def events(self) -> list[str]:
        return [f"{entry['flow']} {entry['event']}" for entry in self.state.entries() if entry]


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "storage").mkdir()
    return World(StateDirectory(tmp_path / "storage"), {name: PretendedFlow(name) for name in ("a", "b")})


def test_a_flow_that_fails_is_started_again_after_a_pause_and_given_up_in_the_end(world: World) -> None:
    world.step()
    world.flows["a"].queries[0].end("broken")
    world.step()
    assert world.states() == {"a": "waiting", "b": "running"}
    world.step(999)
    assert len(world.flows["a"].queries) == 1
    world.step(1)
    assert len(world.flows["a"].queries) == 2 and world.states()["a"] == "running"
    world.flows["a"].queries[1].end("broken")
    world.step()
    assert world.states() == {"a": "failed", "b": "running"} and not world.flows["b"].queries[0].stopped
    assert world.events() == [
        "a started", "b started", "a failed", "a waiting", "a started", "a failed", "a given up"
    ]  # fmt: skip


def test_a_flow_whose_checkpoint_was_set_back_is_given_up_at_once_with_advice(world: World) -> None:
    world.step()
    world.flows["a"].queries[0].end("WrongBatch: batch 3 of query q is in the table, and batch 2 is to come now")
    world.step(1_000)
    assert world.states() == {"a": "failed", "b": "running"} and world.events()[-2:] == ["a failed", "a given up"]
    [advice] = [entry["text"] for entry in world.state.entries() if entry and entry["event"] == "given up"]
    assert "`ottla pipeline reset a` begins anew" in advice


def test_a_flow_that_cannot_even_start_counts_as_one_that_failed(world: World) -> None:
    world.flows["a"].refuses = "no such catalog"
    world.step()
    world.step(1_000)
    assert world.run.supervisor["a"].state is State.FAILED
    assert world.run.status()["flows"]["a"]["why"] == "no such catalog"


def test_a_run_ends_when_all_flows_have_finished(world: World) -> None:
    ends = threading.Event()
    threading.Timer(0.05, lambda: [flow.queries[0].end() for flow in world.flows.values()]).start()
    assert world.run.go(ends) is True
    assert world.states() == {"a": "finished", "b": "finished"}
    run = world.state.read()
    assert run is not None and run.status["ended"] and run.condition == "stopped"


def test_a_run_with_a_flow_that_was_given_up_ends_badly(world: World) -> None:
    world.run.supervisor["b"].restarts_max = 0
    world.step()
    world.flows["a"].queries[0].end()
    world.flows["b"].queries[0].end("broken")
    assert world.run.go(threading.Event()) is False


def test_a_stop_stops_every_query(world: World) -> None:
    world.step()
    stop = threading.Event()
    stop.set()
    assert world.run.go(stop) is True
    assert all(flow.queries[0].stopped for flow in world.flows.values())
    assert world.states() == {"a": "stopped", "b": "stopped"} and world.events()[-2:] == ["a stopped", "b stopped"]


def test_wishes_from_outside_are_heeded(world: World) -> None:
    world.step()
    world.state.pause("a")
    world.step()
    assert world.states() == {"a": "paused", "b": "running"} and world.flows["a"].queries[0].stopped
    world.state.resume("a")
    world.step()
    assert world.states()["a"] == "running" and len(world.flows["a"].queries) == 2


def test_what_is_paused_stays_so_in_the_next_run(world: World) -> None:
    world.state.pause("a")
    world.step()
    assert world.states() == {"a": "paused", "b": "running"} and world.flows["a"].queries == []


def test_reports_are_counted_also_those_that_came_with_the_end(world: World) -> None:
    world.step()
    report = {"runId": "r", "batchId": 0, "timestamp": "t", "numInputRows": 5, "durationMs": {"addBatch": 1}}
    world.flows["a"].queries[0].batches.append(report)
    world.step()
    world.flows["a"].queries[0].batches.append({**report, "batchId": 1})
    world.flows["a"].queries[0].end()
    world.step()
    assert world.run.status()["flows"]["a"]["read_total"] == 10


def test_the_state_is_written_at_every_event_and_every_second(world: World) -> None:
    world.step()
    path = world.state.path / "status.json"
    path.unlink()
    world.step(500)
    assert not path.exists()
    world.step(500)
    assert path.exists()


# The files


HOLD = (
    "import sys, time; from pathlib import Path; from ottla.spark.pipelines.state import StateDirectory\n"
    "state = StateDirectory(Path(sys.argv[1]))\n"
    "with state.held():\n"
    "    state.write({'ended': False, 'flows': {'a': {'state': 'running'}}}); print('held', flush=True); time.sleep(60)"
)


def test_a_run_that_was_killed_is_known_as_such(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        run = state.read()
        assert run is not None and run.is_alive and run.condition == "running" and run.flow_state("a") == "running"
        with pytest.raises(NotReady, match=f"running already .process {process.pid} "), state.held():
            pass
        process.kill()
        process.wait(10)
    run = state.read()
    assert run is not None and not run.is_alive and run.condition == "killed" and run.flow_state("a") == "stopped"
    with state.held():
        assert state.is_held()


def test_a_run_that_is_silent_is_said_not_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateDirectory(tmp_path)
    with state.held():
        state.write({"ended": False, "flows": {}})
        later = time.time_ns() // 1_000_000 + 45_000
        monkeypatch.setattr("ottla.spark.pipelines.state.now_ms", lambda: later)
        run = state.read()
        assert run is not None and run.condition in ("not answering for 45 s", "not answering for 44 s")


def test_nothing_was_ever_run_in_an_empty_storage(tmp_path: Path) -> None:
    assert StateDirectory(tmp_path / "x").read() is None and not StateDirectory(tmp_path / "x").is_held()


def test_names_of_flows_cannot_lead_out_of_the_storage(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "s")
    state.pause("../../x/ü")
    assert state.paused() == {"../../x/ü"}
    assert state.checkpoint("../../x").parent == tmp_path / "s" / "checkpoints"
    state.resume("../../x/ü")
    assert state.paused() == set()


def test_a_checkpoint_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert state.set_aside("a") is None
    (state.checkpoint("a") / "offsets").mkdir(parents=True)
    aside = state.set_aside("a")
    assert aside is not None and (aside / "offsets").is_dir() and not state.checkpoint("a").exists()


def test_the_log_begins_a_new_file_and_a_reader_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.spark.pipelines.state._LOG_BYTES_MAX", 300)
    state = StateDirectory(tmp_path)
    state.log("a", "one")
    entries = state.entries(follow=True)
    first = next(entries)
    assert first is not None and first["event"] == "one" and next(entries) is None
    seen: list[str] = []
    for number in range(10):
        state.log("a", f"event {number}")
        while (entry := next(entries)) is not None:
            seen.append(entry["event"])
    assert seen == [f"event {number}" for number in range(10)]
    assert (tmp_path / "log.1.jsonl").exists()


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.log("a", "one")
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"time_ms": 5, "fl')
    assert [entry["event"] for entry in state.entries() if entry] == ["one"]
