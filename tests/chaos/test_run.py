"""A short run of everything against a real node; `make chaos` is the long one.

`OTTLA_CHAOS_SEED` repeats the choices of one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import crc32c
import pytest

from tools.chaos.__main__ import main
from tools.chaos.checker import check
from tools.chaos.history import read_lines
from tools.chaos.nemesis import FAULTS, Scene
from tools.chaos.payload import seal, unseal
from tools.chaos.report import lines
from tools.chaos.run import Plan, run
from tools.chaos.workload import ROLES, TRANSACTIONAL_ROLES

# In a batch: the length of what follows it, the CRC and what it is of, the low byte of the attributes; and in a marker
# the low byte of its type.
LENGTH_AT, CRC_AT, CRC_FROM, ATTRIBUTES_AT, MARKER_TYPE_AT = 8, 17, 21, 22, 69
CONTROL = 0x20
SEED = int(os.environ.get("OTTLA_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.timeout(300)
def test_nothing_is_lost_doubled_or_reordered_while_everything_breaks(tmp_path: Path) -> None:
    plan = Plan(SEED, seconds=14, clients=4, transactors=5, ops_per_second=36, partitions=1, settle_seconds=4)
    outcome = run(replace(plan, fault_every_seconds=1.5), tmp_path)
    print("\n".join(lines(outcome)))
    assert outcome.verdict.illegal == {}
    assert outcome.troubles == []
    assert outcome.verdict.figures.acked > 50
    assert outcome.verdict.figures.outcomes["txn"]["ok"] > 20
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


SHORT = Plan(
    SEED,
    seconds=6,
    ops_per_second=20,
    partitions=1,
    faults=("kill",),
    fault_every_seconds=2,
    settle_seconds=1,
    final_seconds_max=12,
)


@pytest.mark.timeout(300)
def test_a_node_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "kill", forgetful_kill)
    outcome = run(replace(SHORT, clients=2, transactors=0), tmp_path)
    assert outcome.faults["kill"] >= 1
    assert outcome.verdict.illegal.keys() & {"lost-write", "unseen", "inconsistent-offsets"}


@contextmanager
def turning_kill(scene: Scene) -> Iterator[float]:
    """What no node may do: come back and take, in one partition, commits for aborts. Not before there are some."""
    [log] = scene.node.data_dir.glob("chaos-plain-0/*.log")
    deadline = time.monotonic() + 30
    while sum(map(is_commit, batches(log.read_bytes()))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    scene.node.kill()
    log.write_bytes(b"".join(turned(batch) if is_commit(batch) else batch for batch in batches(log.read_bytes())))
    try:
        yield 0.0
    finally:
        scene.node.start()


def batches(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + LENGTH_AT + 4 <= len(data):
        end = at + LENGTH_AT + 4 + int.from_bytes(data[at + LENGTH_AT : at + LENGTH_AT + 4])
        yield data[at:end]
        at = end
    yield data[at:]


def is_commit(batch: bytes) -> bool:
    return len(batch) > MARKER_TYPE_AT and bool(batch[ATTRIBUTES_AT] & CONTROL) and batch[MARKER_TYPE_AT] == 1


def turned(batch: bytes) -> bytes:
    """A marker as that of an abort."""
    changed = bytearray(batch)
    changed[MARKER_TYPE_AT] = 0
    changed[CRC_AT:CRC_FROM] = crc32c.crc32c(bytes(changed[CRC_FROM:])).to_bytes(4)
    return bytes(changed)


@pytest.mark.timeout(300)
def test_a_node_that_tears_transactions_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "kill", turning_kill)
    outcome = run(replace(SHORT, clients=1, transactors=3), tmp_path)
    assert outcome.faults["kill"] >= 1
    # What was read in time, before it vanished, is neither lost nor torn; but later readers pass over it.
    assert outcome.verdict.illegal.keys() & {"torn", "lost-write", "unseen", "poll-skip", "int-poll-skip"}


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


def test_the_short_run_has_a_role_for_every_function_and_library() -> None:
    """Assigned, subscribed in both protocols, and all libraries; with transactions, and copying by both ways."""
    plain, transactional = ROLES[:4], TRANSACTIONAL_ROLES[:5]
    assert {role.library for role in transactional} == {"confluent", "kafka-python", "aiokafka", "ottla"}
    assert {role.is_subscribing for role in transactional if role.source} == {True, False}
    assert any(not role.source for role in transactional)
    assert {role.protocol for role in plain if role.is_subscribing} == {"classic", "consumer"}


def test_a_topic_is_copied_by_one_group_alone() -> None:
    groups = {role.source: role.group for role in TRANSACTIONAL_ROLES if role.source}
    assert all(groups[role.source] == role.group for role in TRANSACTIONAL_ROLES if role.source)
    assert len(set(groups.values())) == len(groups)
