"""Runs that take turns: for every run, every workload, first the one contestant, then the other."""

import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import libversion
from confluent_kafka import version as confluent_version

from bench.race.arena import Arena, Workload
from bench.race.contestants import described
from bench.race.result import Result
from tests.compat.java import Missing, connector_version

DISK_RESERVE_GB = 2.0
FAILURES = (RuntimeError, OSError, AssertionError, subprocess.SubprocessError)
"""What makes a turn count for nothing without ending the race; anything else is a bug of the race itself."""


@dataclass(frozen=True)
class Options:
    runs: int = 5
    scale: float = 1.0
    only: str = ""
    is_full: bool = False
    contestants: tuple[str, ...] = ("ottla", "kafka")
    directory: Path | None = None


def chosen(workloads: Sequence[Workload], options: Options) -> list[Workload]:
    return [one for one in workloads if options.only in one.name]


def missing_disk(workload: Workload, options: Options, directory: Path) -> str:
    """Why this workload does not fit onto the disk; empty if it does."""
    needed = workload.disk_gb * options.scale * 1.2 + DISK_RESERVE_GB
    free = shutil.disk_usage(directory).free / 1e9
    return "" if free >= needed else f"it needs {needed:.1f} GB on the disk, {free:.1f} GB are free"


def missing_peer(workload: Workload, options: Options) -> str:
    try:
        if "kafka" in options.contestants:
            workload.fetch()
    except Missing as missing:
        return str(missing)
    return ""


def race(workloads: Sequence[Workload], options: Options, say: Callable[[str], None] = print) -> Result:
    """Every chosen workload; what had come in when somebody pressed Ctrl-C is the result then."""
    result = Result()
    with tempfile.TemporaryDirectory(prefix="ottla-race-", dir=options.directory) as name:
        directory = Path(name)
        result.facts = facts(options, directory)
        able = []
        for workload in chosen(workloads, options):
            reason = workload.absent or missing_disk(workload, options, directory) or missing_peer(workload, options)
            if reason:
                result.absent[workload.name] = reason
            else:
                able.append(workload)
        try:
            for run in range(options.runs):
                for workload in able:
                    if run < workload.runs_max:
                        _turns(workload, run, options, directory, result, say)
        except KeyboardInterrupt:
            result.failures.append("ended before all runs were done")
    return result


def _turns(
    workload: Workload, run: int, options: Options, directory: Path, result: Result, say: Callable[[str], None]
) -> None:
    for contestant in options.contestants:
        arena = Arena(contestant, directory, options.scale, options.is_full)
        begun = time.monotonic()
        said = ""
        try:
            for row in workload.work(arena):
                result.add(workload.name, contestant, row)
        except FAILURES as problem:
            said = f": {type(problem).__name__} {str(problem)[:300]}"
            result.failures.append(f"{workload.name}, {contestant}, run {run + 1}{said}")
        say(f"run {run + 1}/{options.runs}: {workload.name}, {contestant}, {time.monotonic() - begun:.0f} s{said}")


def facts(options: Options, directory: Path) -> dict[str, object]:
    return {
        "finished": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "memory GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "system": f"{platform.system()} {platform.release()}",
            "file system": _file_system(directory),
        },
        "options": {"runs": options.runs, "scale": options.scale, "full": options.is_full, "only": options.only},
        "clients": {
            "librdkafka": libversion()[0],
            "confluent-kafka": confluent_version()[0],
            "PySpark": version("pyspark"),
            "Spark's Kafka connector": connector_version(),
        },
        "contestants": {name: described(name, directory) for name in options.contestants},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """What the data directories lie on: in memory, for one, an fsync would cost nothing."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if directory.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1]
