"""`python -m bench.spark_latency`: how long a record takes through a pipeline, from topic to topic, each record once.

Records are due at fixed moments, at two rates; the flow is run in the modes micro and tail, as a query of its own and
by `ottla pipeline run`. Timed is when a record can be read: by anybody, and by those who read what is committed. Needs
what the extra `spark` installs, a Java, and a quiet machine: what else runs there is in the figures. `--write` keeps
what was measured in `bench/spark_latency.json`.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.__main__ import machine
from bench.node import TICKS, running
from bench.race.apart import Apart
from bench.race.open_loop import Schedule
from bench.rawclient import RawClient
from bench.spark_flows import PATHS, SOURCE, TARGET, Job, Phases, medians
from bench.spark_load import receive, send, send_first, wait_for_first

RESULT = Path(__file__).with_name("spark_latency.json")
RATES = (1_000, 20_000)
MODES = ("micro", "tail")
GOALS = {("micro", "p50"): 200.0, ("tail", "p50"): 10.0, ("tail", "p99"): 250.0}
"""Milliseconds: in the mode micro for those who read what is committed, in the mode tail for anybody."""
RECORD_BYTES = 100
FAST_TAIL = {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}
"""At 20,000 records a second one by one is too much for Spark; twenty take a millisecond to come together."""
_START_SECONDS_MAX = 180.0
_LEAD_NS = 1_000_000_000
_READERS = {"micro": ("read_uncommitted", "read_committed"), "tail": ("read_uncommitted",)}
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Run:
    path: str
    mode: str
    rate: int
    tried: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.mode}, {self.path}, {self.rate:,} records/s"

    @property
    def settings(self) -> Mapping[str, str]:
        usual = FAST_TAIL if self.mode == "tail" and self.rate > 10_000 else {}
        return {**usual, **self.tried}

    def schedule(self, begin_ns: int, warm_up: float, seconds: float) -> Schedule:
        return Schedule(begin_ns, self.rate, int(self.rate * (warm_up + seconds)), int(self.rate * warm_up))


def measure(run: Run, warm_up: float, seconds: float, flow: Callable[[Job], list[Phases]] | None = None) -> Figures:
    """Latencies by reader and the phases of batches, in milliseconds."""
    with running() as node, tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        client = RawClient(node.port)
        for topic in (SOURCE, TARGET):
            client.create_topic(topic)
        client.close()
        job = Job(node.bootstrap, run.mode, Path(directory), run.settings)
        work = Apart(flow or PATHS[run.path], job)
        try:
            send_first(node.bootstrap, SOURCE, RECORD_BYTES)
            wait_for_first(node.bootstrap, TARGET, _START_SECONDS_MAX, job.failed)
            schedule = run.schedule(time.monotonic_ns() + _LEAD_NS, warm_up, seconds)
            readers = {name: Apart(receive, node.bootstrap, TARGET, name, schedule) for name in _READERS[run.mode]}
            before, begun = cpu_seconds_below(work.pid), time.monotonic()
            late_ms = Apart(send, node.bootstrap, SOURCE, RECORD_BYTES, schedule).result()
            cores = (cpu_seconds_below(work.pid) - before) / (time.monotonic() - begun)
            figures = {name: reader.result().figures() for name, reader in readers.items()}
        finally:
            job.stop.touch()
        phases = medians(work.result())
    around = {"sender late p99": late_ms, "cores": cores, "load": os.getloadavg()[0]}
    return {**figures, "phases": phases, "around": around}


def cpu_seconds_below(pid: int) -> float:
    """What a process has used and all it has started, those included that have ended: Spark is many processes."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
            used[int(stat.parent.name)] = sum(map(int, fields[11:15])) / TICKS
    found, below = 0.0, [pid]
    while below:
        one = below.pop()
        found += used.get(one, 0.0)
        below += children.get(one, [])
    return found


def goal_missed(run: Run, figures: Figures) -> list[str]:
    reader = "read_committed" if run.mode == "micro" else "read_uncommitted"
    return [
        f"{rank} {figures[reader][rank]:.0f} > {goal:.0f}"
        for (mode, rank), goal in GOALS.items()
        if mode == run.mode and figures[reader][rank] > goal
    ]


def show(run: Run, figures: Figures) -> None:
    missed = goal_missed(run, figures)
    print(f"\n{run.name}{': missed ' + ', '.join(missed) if missed else ''}")
    for name, values in figures.items():
        print(f"  {name:17}", "  ".join(f"{key} {value:,.1f}" for key, value in values.items()), flush=True)


def kept(result: Path, measured: Mapping[str, Figures]) -> dict[str, Any]:
    """What was measured before and not now stays as it was."""
    before = json.loads(result.read_text())["runs"] if result.exists() else {}
    rounded = {
        name: {part: {key: round(value, 1) for key, value in values.items()} for part, values in figures.items()}
        for name, figures in measured.items()
    }
    return {"machine": machine(), "unit": "milliseconds", "runs": {**before, **rounded}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spark_latency", description=__doc__)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--path", choices=tuple(PATHS), action="append")
    parser.add_argument("--rate", type=int, action="append", help="records a second; repeatable")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds at full rate that do not count")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark, to try it"
    )
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULT.name}")
    given = parser.parse_args()
    tried = dict(setting.split("=", 1) for setting in given.set)
    measured: dict[str, Figures] = {}
    for mode in given.mode or MODES:
        for path in given.path or PATHS:
            for rate in given.rate or RATES:
                run = Run(path, mode, rate, tried)
                measured[run.name] = measure(run, given.warm_up, given.seconds)
                show(run, measured[run.name])
                if given.write:
                    RESULT.write_text(json.dumps(kept(RESULT, measured), indent=1) + "\n")


if __name__ == "__main__":
    main()
