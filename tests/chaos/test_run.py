"""A short run of everything against a real node; `make chaos` is the long one.

`OTTLA_CHAOS_SEED` repeats the choices of one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tools.chaos.__main__ import main
from tools.chaos.checker import check
from tools.chaos.history import read_lines
from tools.chaos.nemesis import FAULTS, Scene
from tools.chaos.payload import seal, unseal
from tools.chaos.report import lines
from tools.chaos.run import Plan, run

SEED = int(os.environ.get("OTTLA_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.timeout(300)
def test_nothing_is_lost_doubled_or_reordered_while_everything_breaks(tmp_path: Path) -> None:
    plan = Plan(SEED, seconds=14, clients=5, ops_per_second=25, partitions=1, fault_every_seconds=1.5, settle_seconds=4)
    outcome = run(plan, tmp_path)
    print("\n".join(lines(outcome)))
    assert outcome.verdict.illegal == {}
    assert outcome.troubles == []
    assert outcome.verdict.figures.acked > 50
    assert sum(outcome.faults.values()) >= 4
    with (tmp_path / "history.jsonl").open() as file:
        stored = check(read_lines(file))
    assert stored.figures == outcome.verdict.figures


@contextmanager
def forgetful_kill(scene: Scene) -> Iterator[float]:
    """What no node may do: come back without the ends of its logs."""
    scene.node.kill()
    for log in scene.node.data_dir.glob("chaos-*/*.log"):
        os.truncate(log, log.stat().st_size // 2)
    try:
        yield 0.0
    finally:
        scene.node.start()


@pytest.mark.timeout(300)
def test_a_node_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "kill", forgetful_kill)
    plan = Plan(SEED, seconds=6, clients=2, ops_per_second=20, partitions=1, faults=("kill",), settle_seconds=1)
    plan = replace(plan, fault_every_seconds=2, final_seconds_max=30)
    outcome = run(plan, tmp_path)
    assert outcome.faults["kill"] >= 1
    assert outcome.verdict.illegal.keys() & {"lost-write", "unseen", "inconsistent-offsets"}


def test_a_stored_history_is_judged_with_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = tmp_path / "history.jsonl"
    sent = '{"op": 0, "event": "invoke", "at_ns": 1, "process": 0, "f": "send", "mops": [["send", "t/0", 0]]}\n'
    acked = '{"op": 0, "event": "ok", "at_ns": 2, "mops": [["send", "t/0", 0, 0, true]]}\n'
    polled = '{"op": 1, "event": "invoke", "at_ns": 3, "process": 1, "f": "poll"}\n'
    seen = '{"op": 1, "event": "ok", "at_ns": 4, "mops": [["poll", {"t/0": [[0, 0]]}]]}\n'
    history.write_text(sent + acked + polled + seen)
    assert main(["--judge", str(history)]) == 0
    history.write_text(sent + acked)
    assert main(["--judge", str(history)]) == 1
    assert "ILLEGAL     unseen: 1" in capsys.readouterr().out


def test_a_damaged_or_foreign_value_is_not_taken_for_one_of_ours() -> None:
    data = seal("t/0", 7, 100)
    assert unseal("t/0", data) == 7
    for found in (data[:-1] + bytes([data[-1] ^ 1]), b"", None, b"t/0|x|", seal("t/1", 7, 100)):
        assert isinstance(unseal("t/0", found), str)


def test_a_role_for_every_function_and_library() -> None:
    """The short run uses the first five roles: assigned, subscribed in both protocols, and all three libraries."""
    from tools.chaos.workload import ROLES

    first = ROLES[:5]
    assert {role.library for role in first} == {"confluent", "kafka-python", "aiokafka"}
    assert {role.protocol for role in first if role.is_subscribing} == {"classic", "consumer"}
