"""A flow from topic to topic, run as users run it until it is told to stop: as a query of their own, or as a project.

Each runs in a process of its own and tells which phases its batches had.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.race.open_loop import percentile

SOURCE, TARGET = "ticks", "tocks"
_LOOK_SECONDS = 0.1
_STOP_SECONDS_MAX = 60.0
_KEPT_REPORTS = 20_000
_SQL = f"""\
CREATE STREAM {SOURCE} FROM TOPIC {SOURCE} WITH (format = 'string');
CREATE FLOW shout AS INSERT INTO TOPIC {TARGET} SELECT upper(value) AS value FROM STREAM({SOURCE});
"""
Phases = Mapping[str, float]


@dataclass(frozen=True)
class Job:
    """What to run, and the directory in which it finds and leaves what belongs to it."""

    bootstrap: str
    mode: str
    directory: Path
    settings: Mapping[str, str]

    @property
    def stop(self) -> Path:
        return self.directory / "stop"

    @property
    def failed(self) -> Path:
        return self.directory / "failed"


def query(job: Job) -> list[Phases]:
    """`writeStream.format("ottla")` in a session of its own."""
    import ottla.spark

    usual = ottla.spark.TAIL_SETTINGS if job.mode == "tail" else {}
    kept = {"spark.sql.streaming.numRecentProgressUpdates": _KEPT_REPORTS}
    spark = ottla.spark.session("bench", config={**usual, **kept, **job.settings})
    try:
        node = {"kafka.bootstrap.servers": job.bootstrap}
        options = {**node, "subscribe": SOURCE, "startingOffsets": "earliest", "mode": job.mode}
        rows = spark.readStream.format("ottla").options(**options).load()
        writer = rows.selectExpr("upper(string(value)) AS value").writeStream.format("ottla")
        writer = writer.options(**node, topic=TARGET).option("checkpointLocation", str(job.directory / "checkpoint"))
        running = writer.start()
        while not job.stop.exists():
            if not running.isActive:
                job.failed.write_text(str(running.exception()))
                break
            time.sleep(_LOOK_SECONDS)
        reports = [json.loads(report.json) for report in running.recentProgress]
        running.stop()
    finally:
        spark.stop()
    return [report["durationMs"] for report in reports if "addBatch" in report["durationMs"]]


def pipeline(job: Job) -> list[Phases]:
    """`ottla pipeline run`. Of its batches those are told that were the last one when somebody looked."""
    (job.directory / "flows.sql").write_text(_SQL)
    settings = {name: str(value) for name, value in job.settings.items()}
    specification = {"name": "bench", "libraries": [{"file": "flows.sql"}], "configuration": settings}
    (job.directory / "pipeline.yml").write_text(json.dumps(specification))
    command = [str(Path(sys.executable).with_name("ottla")), "pipeline", "run", str(job.directory), "--json"]
    running = subprocess.Popen(
        [*command, "--mode", job.mode, "--bootstrap", job.bootstrap], stdout=subprocess.PIPE, text=True
    )
    seen: dict[int, Phases] = {}
    status = job.directory / ".pipeline" / "status.json"
    try:
        while not job.stop.exists():
            if running.poll() is not None:
                job.failed.write_text(running.communicate()[0][-2000:])
                break
            time.sleep(_LOOK_SECONDS)
            if status.exists():
                flow = json.loads(status.read_text())["flows"]["shout"]
                seen[flow["batch"]] = {**flow["phases_ms"], "triggerExecution": flow["trigger_ms"]}
    finally:
        running.terminate()
        try:
            running.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            running.kill()
    return [phases for batch, phases in sorted(seen.items()) if batch >= 0]


PATHS = {"query": query, "pipeline": pipeline}


def medians(batches: Iterable[Phases]) -> dict[str, float]:
    """Of each phase, and how many batches there were."""
    by_name: dict[str, list[Any]] = {}
    for batch in batches:
        for name, milliseconds in batch.items():
            by_name.setdefault(name, []).append(milliseconds)
    found = {name: percentile(sorted(values), 50) for name, values in by_name.items()}
    return {"batches": float(max(map(len, by_name.values()), default=0)), **found}
