"""A run seen and steered from another terminal; nothing here starts Spark."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.progress import Progress
from ottla.spark.pipelines.state import StateDirectory
from tests.unit.cli.conftest import Cli


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    (place / "pipeline.yml").write_text("name: shop\nstorage: state\n")
    return place


def status(**states: str) -> dict[str, Any]:
    each = {"mode": "micro", "restarts": 0, "why": "", "start_ms": 0, **Progress().as_json()}
    flows = {name: {**each, "state": state} for name, state in states.items()}
    return {"pipeline": "shop", "started_ms": 1_700_000_000_000, "ended": False, "flows": flows}


@pytest.fixture
def running(project: Path) -> Iterator[StateDirectory]:
    """As if a run held the storage."""
    state = StateDirectory(project / "state")
    with state.held():
        state.write(status(big="running", small="failed"))
        yield state


def test_a_pipeline_that_never_ran_is_said_so(ottla: Cli, project: Path) -> None:
    assert ottla("pipeline", "status", str(project)) == (1, "", "ottla: shop has never been run\n")
    code, out, _ = ottla("pipeline", "ls", str(project.parent), "--json")
    assert code == 0 and json.loads(out)[0]["condition"] == "never run"


def test_status_and_list_tell_a_living_run_from_a_killed_one(ottla: Cli, project: Path) -> None:
    state = StateDirectory(project / "state")
    with state.held():
        state.write(status(big="running"))
        code, out, _ = ottla("pipeline", "status", str(project), "--json")
        assert code == 0 and json.loads(out)["condition"] == "running"
        [one] = json.loads(ottla("pipeline", "ls", str(project.parent), "--json")[1])
        assert (one["condition"], one["flows"], one["running"]) == ("running", 1, 1)
    code, out, _ = ottla("pipeline", "status", str(project))
    assert out.startswith("shop: killed; process ") and "\nbig\tstopped\t" in out
    assert json.loads(ottla("pipeline", "ls", str(project.parent), "--json")[1])[0]["running"] == 0


def test_pause_waits_for_the_run_and_resume_takes_it_back(ottla: Cli, project: Path, running: StateDirectory) -> None:
    threading.Timer(0.2, lambda: running.write(status(big="paused"))).start()
    assert ottla("pipeline", "pause", "big", "-P", str(project)) == (0, "big paused\n", "")
    assert running.paused() == {"big"}
    assert ottla("pipeline", "resume", "big", "-P", str(project), "--json") == (0, '{"resumed": ["big"]}\n', "")
    assert running.paused() == set()


def test_a_flow_that_nobody_knows_is_refused(ottla: Cli, project: Path, running: StateDirectory) -> None:
    code, _, err = ottla("pipeline", "pause", "bik", "-P", str(project))
    assert (code, err) == (1, "ottla: there is no flow bik; there are big, small\n")


def test_a_running_flow_is_not_reset(ottla: Cli, project: Path, running: StateDirectory) -> None:
    code, _, err = ottla("pipeline", "reset", "big", "-P", str(project), "--yes")
    assert code == 1 and "pause it first" in err


def test_reset_explains_and_moves_the_checkpoint(ottla: Cli, project: Path, running: StateDirectory) -> None:
    (running.checkpoint("small") / "offsets").mkdir(parents=True)
    code, out, err = ottla("pipeline", "reset", "small", "-P", str(project), "--yes")
    assert code == 0 and "what it wrote it writes again" in err and out.startswith("small begins anew")
    assert not running.checkpoint("small").exists()


def test_logs_are_the_last_lines_of_one_flow_or_all(ottla: Cli, project: Path, running: StateDirectory) -> None:
    for number in range(5):
        running.log("big" if number % 2 else "small", "failed", f"for the {number}. time")
    code, out, _ = ottla("pipeline", "logs", str(project), "-n", "2")
    assert code == 0 and [line.split(" ", 1)[1] for line in out.splitlines()] == [
        "big failed: for the 3. time",
        "small failed: for the 4. time",
    ]
    _, out, _ = ottla("pipeline", "logs", str(project), "--flow", "big", "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["for the 1. time", "for the 3. time"]


def test_run_names_faults_and_starts_nothing(ottla: Cli, project: Path) -> None:
    (project / "transformations").mkdir()
    (project / "transformations" / "a.sql").write_text("CREATE x;\nDROP y;")
    code, out, err = ottla("pipeline", "run", str(project), "-b", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "ottla: 2 faults; nothing was started"
    assert err.startswith("transformations/a.sql:1:8: ")


def test_run_wants_to_know_the_brokers(ottla: Cli, project: Path) -> None:
    code, _, err = ottla("pipeline", "run", str(project))
    assert code == 1 and "no brokers are named" in err


def test_once_and_another_mode_exclude_each_other(ottla: Cli, project: Path) -> None:
    assert ottla("pipeline", "run", str(project), "--once", "--mode", "micro")[0] == 2


def test_a_second_run_of_a_project_is_refused(ottla: Cli, project: Path, running: StateDirectory) -> None:
    code, _, err = ottla("pipeline", "run", str(project), "-b", "127.0.0.1:1")
    assert code == 1 and "is running already (process" in err
