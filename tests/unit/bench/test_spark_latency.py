"""Timing a pipeline, with something in its place that only copies: what is counted, and what is told."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.race.open_loop import MILLISECOND
from bench.spark_flows import PATHS, SOURCE, TARGET, Job, Phases, medians
from bench.spark_latency import MODES, RATES, RESULT, Run, goal_missed, kept, measure
from bench.spark_load import Arrivals, due_of, value_of

_QUICK = Run("query", "micro", 200)


def copy(job: Job) -> list[Phases]:
    """Hands records on, one batch after the other, until it is told to stop."""
    from confluent_kafka import Consumer, Producer

    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "copy", "auto.offset.reset": "earliest"})
    consumer.subscribe([SOURCE])
    producer = Producer({"bootstrap.servers": job.bootstrap, "linger.ms": 0})
    batches: list[Phases] = []
    while not job.stop.exists():
        for message in consumer.consume(100, timeout=0.01):
            producer.produce(TARGET, message.value().upper())
        producer.flush(10)
        batches.append({"addBatch": len(batches)})
    consumer.close()
    return batches


def fail(job: Job) -> list[Phases]:
    job.failed.write_text("no Java")
    return []


def test_what_goes_through_is_timed() -> None:
    figures = measure(_QUICK, warm_up=0.5, seconds=1.0, flow=copy)
    for reader in ("read_uncommitted", "read_committed"):
        assert 0 < figures[reader]["p50"] <= figures[reader]["p99"] <= figures[reader]["max"] < 60_000
    assert figures["phases"]["batches"] > 0
    assert figures["around"]["sender late p99"] >= 0


def test_a_pipeline_that_does_not_run_says_why() -> None:
    with pytest.raises(RuntimeError, match="no Java"):
        measure(_QUICK, warm_up=0.5, seconds=1.0, flow=fail)


@given(st.integers(0, 2**62), st.integers(20, 200))
def test_a_value_says_when_it_was_due_whatever_its_letters(due_ns: int, size: int) -> None:
    value = value_of(due_ns, size)
    assert len(value) == size
    assert due_of(value.upper()) == due_ns


def test_figures_are_milliseconds() -> None:
    found = Arrivals([number * MILLISECOND for number in range(1, 101)]).figures()
    assert found == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}


def test_phases_are_medians_over_the_batches_that_had_them() -> None:
    batches: list[Phases] = [{"addBatch": 5, "walCommit": 1}, {"addBatch": 9}, {"addBatch": 7, "walCommit": 3}]
    assert medians(batches) == {"batches": 3.0, "addBatch": 7.0, "walCommit": 1.0}
    assert medians([]) == {"batches": 0.0}


def test_each_mode_is_held_against_its_own_goals() -> None:
    slow = {"p50": 100.0, "p90": 200.0, "p99": 300.0, "max": 300.0}
    assert goal_missed(Run("query", "micro", 1000), {"read_committed": slow}) == []
    assert goal_missed(Run("query", "tail", 1000), {"read_uncommitted": slow}) == ["p50 100 > 10", "p99 300 > 250"]


def test_figures_of_other_runs_are_kept(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps(kept(result, {"a": {"around": {"load": 1.04}}, "b": {"around": {"load": 2.0}}})))
    assert kept(result, {"b": {"around": {"load": 3.0}}})["runs"] == {
        "a": {"around": {"load": 1.0}},
        "b": {"around": {"load": 3.0}},
    }


def test_the_schedule_counts_what_is_due_after_the_warm_up() -> None:
    schedule = Run("query", "tail", 1000).schedule(time.monotonic_ns(), 2.0, 3.0)
    assert (schedule.count, schedule.warm_up) == (5000, 2000)


def test_the_result_that_was_kept_is_of_runs_that_can_be_made_again() -> None:
    possible = {Run(path, mode, rate).name for path in PATHS for mode in MODES for rate in RATES}
    assert possible >= set(json.loads(RESULT.read_text())["runs"]) > set()
