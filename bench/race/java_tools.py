"""Loads from Apache Kafka's own tools, kafka-producer-perf-test and kafka-consumer-perf-test, with their stock heap."""

import re
import resource
import subprocess
import time
from dataclasses import dataclass

from bench.race.apart import SECONDS_MAX, Load
from bench.race.contestants import STOCK_JVM
from tests.compat.java import kafka_libs

_TOOL_HEAP = "-Xmx512M"
_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency", re.MULTILINE)


class ToolFailed(RuntimeError):
    """One of Kafka's tools did not say what it measured."""


@dataclass(frozen=True)
class Ended:
    """What a tool said, and what its whole process has cost."""

    text: str
    cpu: float
    seconds: float


def _run(main: str, *arguments: str) -> Ended:
    libs = kafka_libs()
    log4j = f"-Dlog4j2.configurationFile={libs.parent}/log4j2.properties"
    command = ["java", _TOOL_HEAP, *STOCK_JVM, log4j, "-cp", f"{libs}/*", f"org.apache.kafka.tools.{main}", *arguments]
    before, begun = _children_cpu(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise ToolFailed(f"{main} ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    return Ended(done.stdout, _children_cpu() - before, time.monotonic() - begun)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def produce(bootstrap: str, topic: str, count: int, size: int, acks: str, codec: str) -> Load:
    ended = _run(
        "ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(count), "--record-size", str(size)),
        *("--command-property", f"acks={acks}", f"compression.type={codec}"),
    )
    return produced(ended, count)


def produced(ended: Ended, count: int) -> Load:
    """Read the tool's last line: the totals."""
    lines = _PRODUCED.findall(ended.text)
    if not lines or int(lines[-1][0]) != count:
        raise ToolFailed(f"the producer's totals are not there: {ended.text[-300:]}")
    return Load(count, count / float(lines[-1][1]), ended.cpu, process_seconds=ended.seconds)


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> Load:
    ended = _run(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count)),
        *("--hide-header", "--timeout", "60000"),
    )
    return consumed(ended, count)


def consumed(ended: Ended, count: int) -> Load:
    """Start, end, MB, MB/s, records, records/s, time of the rebalance, time of the fetches (ms), …"""
    rows = [line.split(", ") for line in ended.text.splitlines() if line.count(", ") >= 9]
    if not rows or int(rows[-1][4]) < count:
        raise ToolFailed(f"not all {count} records came: {ended.text[-300:]}")
    return Load(int(rows[-1][4]), float(rows[-1][7]) / 1000, ended.cpu, process_seconds=ended.seconds)
