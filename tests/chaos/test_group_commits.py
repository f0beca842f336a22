"""Group commits under SIGKILL of drivers, tasks and the node; a short run, the long one is `make chaos`.

`OTTLA_CHAOS_SEED` repeats the fates of one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.chaos.group_commits.__main__ import lines
from tools.chaos.group_commits.checkpoint import Checkpoint, digest_of
from tools.chaos.group_commits.judge import Found, judge
from tools.chaos.group_commits.reading import Row
from tools.chaos.group_commits.run import Plan, run
from tools.chaos.group_commits.setting import NEW_QUERY, OFFSETS_APART, ONE_BY_ONE

SEED = int(os.environ.get("OTTLA_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.timeout(180)
def test_nothing_is_lost_or_doubled_wherever_a_driver_a_task_or_the_node_is_killed(tmp_path: Path) -> None:
    outcome = run(Plan(SEED, seconds=22), tmp_path)
    print("\n".join(lines(outcome)))
    assert outcome.verdict.anomalies == {}
    assert outcome.troubles == []
    assert outcome.verdict.source_rows > 50
    assert outcome.verdict.batches > 10
    assert outcome.events["restored"] >= 1
    assert outcome.verdict.refusals >= outcome.events["restored"]
    assert len(outcome.fates) >= 8


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("crime", "fates"),
    [
        (OFFSETS_APART, ("driver answered",)),
        (ONE_BY_ONE, ("driver asked",)),
        (NEW_QUERY, ("driver answered", "driver marked")),
    ],
)
def test_a_sink_that_does_it_otherwise_is_found_out(tmp_path: Path, crime: str, fates: tuple[str, ...]) -> None:
    plan = Plan(SEED, seconds=5, rows_per_second=200, node_dies_every_seconds=60, crime=crime, fates=fates)
    outcome = run(plan, tmp_path)
    print("\n".join(lines(outcome)))
    assert outcome.verdict.anomalies.keys() & {"doubled", "lost"}


# The judge, by itself

SOURCE = [Row(partition, offset, b"row") for partition in (0, 1) for offset in range(4)]
RANGES = ({0: (0, 2), 1: (0, 3)}, {0: (2, 4), 1: (3, 4)})


def output(batch: int) -> list[Row]:
    values = [
        b"%d|%d|%d|row" % (batch, partition, offset)
        for partition, (start, end) in RANGES[batch].items()
        for offset in range(start, end)
    ]
    return [Row(0, at, value) for at, value in enumerate(values)]


def answered(batch: int, driver: str = "main", is_replay: bool = False) -> dict[str, Any]:
    ranges = {str(partition): list(ends) for partition, ends in RANGES[batch].items()}
    return {"event": "answered", "batch": batch, "ranges": ranges, "is_replay": is_replay, "driver": driver}


SOUND = Found(SOURCE, [*output(0), *output(1)], {0: 4, 1: 4}, [answered(0), answered(0, is_replay=True), answered(1)])
RESTORED = {"event": "restored", "planned": 0, "last": 5}
REFUSED = {"event": "refused", "driver": "main", "why": "set back"}
DOUBLE = {"event": "double", "driver": "double-1", "of_its_own": False}


def test_what_is_sound_is_good() -> None:
    verdict = judge(SOUND)
    assert verdict.is_good
    assert (verdict.source_rows, verdict.batches, verdict.replays, verdict.refusals) == (8, 2, 1, 0)


@pytest.mark.parametrize(
    ("changes", "anomalies"),
    [
        ({"output": [*output(0), *output(1)][1:]}, {"lost", "torn"}),
        ({"output": [*output(0), *output(1), output(1)[0]]}, {"doubled"}),
        ({"output": [*output(0), *output(1)[:-1], Row(0, 9, b"1|1|3|other")]}, {"foreign"}),
        ({"output": output(0)}, {"lost", "torn", "offsets"}),
        ({"offsets": {0: 2, 1: 4}}, {"offsets"}),
        ({"offsets": {}}, {"offsets"}),
        ({"diary": [REFUSED]}, {"refused without reason"}),
        ({"diary": [RESTORED, answered(1)]}, {"went on from an old checkpoint"}),
        ({"diary": [{"event": "broken", "why": "a bug"}]}, {"broken"}),
        ({"diary": [RESTORED, answered(1, "double-1"), REFUSED, answered(1)]}, set()),
        ({"diary": [DOUBLE, REFUSED]}, set()),
    ],
)
def test_what_is_not_sound_has_a_name(changes: Mapping[str, Any], anomalies: set[str]) -> None:
    assert judge(Found(**{**vars(SOUND), **changes})).anomalies.keys() == anomalies


def test_a_checkpoint_is_what_was_planned_first(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "one")
    assert (checkpoint.last_planned, checkpoint.last_committed) == (-1, -1)
    assert checkpoint.plan(0, {0: (0, 5)}) == {0: (0, 5)}
    assert Checkpoint(tmp_path / "one").plan(0, {0: (0, 9)}) == {0: (0, 5)}
    backup = checkpoint.copy_to(tmp_path / "two")
    checkpoint.mark_committed(0)
    checkpoint.plan(1, {0: (5, 6)})
    assert (checkpoint.last_planned, checkpoint.last_committed) == (1, 0)
    checkpoint.become(backup)
    assert (checkpoint.last_planned, checkpoint.last_committed) == (0, -1)
    checkpoint.begin_after(7, {0: 30})
    assert (checkpoint.last_planned, checkpoint.last_committed, checkpoint.ranges(7)) == (7, 7, {0: (30, 30)})
    assert digest_of({0: (0, 5), 1: (1, 2)}) == digest_of({1: (1, 2), 0: (0, 5)}) != digest_of({0: (0, 6), 1: (1, 2)})
