"""The pipeline of examples/spark/to_delta, live: topic → Spark → lake table, and Spark is killed in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tools.demo.payments import PAYMENTS, QUIET, TOPIC, WAIT_SECONDS_MAX, NotProven, cents_of, prove, read_all, say

PROJECT = Path(__file__).parents[2] / "examples" / "spark" / "to_delta"
LARGE, DEAD = f"{TOPIC}.large", f"{TOPIC}.dlq"
LARGE_CENTS_MIN = 90_000
NO_PAYMENTS = ["no json", '{"number": 7}', '{"number": 8, "cents": "many"}']
SPARK_SECONDS_MAX = 300.0
"""A quiet machine needs ten seconds to start Spark and a few for the work."""


def why_not() -> str | None:
    """What is missing for this part, in words; None if all is there."""
    from ottla.spark.java import find_java
    from ottla.spark.not_ready import NotReady

    for module, extra in (("pyspark", "spark"), ("deltalake", "lake")):
        if find_spec(module) is None:
            return f"{module} is not installed: pip install 'ottla[{extra}]'"
    try:
        find_java(os.environ)
    except NotReady as missing:
        return str(missing)
    return None


def archive_through_a_crash(bootstrap: str, directory: Path) -> None:
    project = directory / "to_delta"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(".pipeline", "lake"))
    prepare_topics(bootstrap)
    table, began = project / "lake" / "payments", time.monotonic()
    with running_pipeline(project, bootstrap) as pipeline:
        until(lambda: rows_in(table) >= PAYMENTS // 3, pipeline)
    count, seconds = rows_in(table), time.monotonic() - began
    say(f"   {count:,} payments in the table after {seconds:.0f} s, Spark and its workers killed with SIGKILL")
    began = time.monotonic()
    with running_pipeline(project, bootstrap, "--once") as pipeline:
        prove("the pipeline, run again, comes to its end", pipeline.wait(SPARK_SECONDS_MAX), 0)
    say(f"   it took {time.monotonic() - began:.0f} s, the start of Spark among them")
    check_the_table(table)
    check_the_topics(bootstrap)


def prepare_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for created in admin.create_topics([NewTopic(LARGE, 1, 1), NewTopic(DEAD, 1, 1)]).values():
        created.result(WAIT_SECONDS_MAX)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for value in NO_PAYMENTS:
        producer.produce(TOPIC, value)
    prove(f"{len(NO_PAYMENTS)} records that are no payments are among the others", producer.flush(WAIT_SECONDS_MAX), 0)


@contextmanager
def running_pipeline(project: Path, bootstrap: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`ottla pipeline run` with its JVM, as a process group that is killed, whole, at the end of the block."""
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(project), "--bootstrap", bootstrap, *options]
    say(" ".join(["   ottla pipeline run", f"examples/spark/{project.name}", *options]))
    with (project / "run.log").open("ab") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it may have come to its end, and its JVM with it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_SECONDS_MAX)


def until(is_done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SPARK_SECONDS_MAX
    while not is_done():
        if process.poll() is not None:
            raise NotProven(f"the pipeline ended by itself (exit code {process.returncode})")
        if time.monotonic() > deadline:
            raise NotProven(f"the pipeline did not get there within {SPARK_SECONDS_MAX:.0f} s")
        time.sleep(0.1)


def rows_in(table: Path) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(table).count()) if DeltaTable.is_deltatable(str(table)) else 0


def check_the_table(table: Path) -> None:
    from deltalake import DeltaTable

    rows = DeltaTable(table).to_pyarrow_table(columns=["number", "cents"])
    numbers, expected = sorted(rows["number"].to_pylist()), sum(map(cents_of, range(PAYMENTS)))
    prove(f"{PAYMENTS:,} payments are in the table", len(numbers), PAYMENTS)
    prove("none is missing and none is there twice", numbers == list(range(PAYMENTS)), True)
    prove(f"they add up to {expected / 100:,.2f}", sum(rows["cents"].to_pylist()), expected)


def check_the_topics(bootstrap: str) -> None:
    found = sorted(json.loads(message.value() or b"{}")["number"] for message in read_all(bootstrap, LARGE, 1))
    expected = [number for number in range(PAYMENTS) if cents_of(number) >= LARGE_CENTS_MIN]
    prove(f"the topic of large payments has each of the {len(expected):,} once", found == expected, True)
    letters = sorted((message.value() or b"").decode() for message in read_all(bootstrap, DEAD, 1))
    prove("the dead-letter topic has what was no payment, once", letters, sorted(NO_PAYMENTS))
