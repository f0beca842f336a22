"""The whole driver group is killed, again and again, amid its batches; nothing is lost and nothing is there twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.spark import killed_driver
from tests.spark.topics import Topic

KILLS = 2
RECORDS_PER_PARTITION = 4000
SECONDS_MAX = 240
"""Spark starts in some ten seconds, and on a machine that is busy with other things in minutes."""


@contextmanager
def driver(source: Topic, target: Topic, checkpoint: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with its JVM and workers, in a process group that does not outlive this block."""
    script = killed_driver.__file__
    arguments = [source.bootstrap, source.name, target.name, str(checkpoint), mode]
    process = subprocess.Popen([sys.executable, script, *arguments], stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def written(target: Topic) -> int:
    """How far the query has come, by what readers of committed records see."""
    return sum(target.ends().values())


def wait_for_more(process: subprocess.Popen[bytes], target: Topic, before: int) -> None:
    until = time.monotonic() + SECONDS_MAX
    while written(target) <= before:
        assert process.poll() is None, "the driver ended by itself"
        assert time.monotonic() < until, "no batch comes to its end"
        time.sleep(0.02)


@pytest.mark.timeout(900)
def test_a_driver_group_that_is_killed_amid_batches_writes_every_record_once(
    topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    random = Random(int.from_bytes(os.urandom(4), "big"))
    for partition in (0, 1):
        topic.produce(range(RECORDS_PER_PARTITION), partition, linger_ms=5)
    for _ in range(KILLS):
        before = written(other_topic)
        with driver(topic, other_topic, tmp_path, "for ever") as running:
            wait_for_more(running, other_topic, before)
            time.sleep(random.uniform(0, 0.6))  # somewhere within a batch
    with driver(topic, other_topic, tmp_path, "once") as last:
        _, said = last.communicate(timeout=SECONDS_MAX)
        assert last.returncode == 0, said.decode()
    expected = [f"{partition}-{offset}" for partition in (0, 1) for offset in range(RECORDS_PER_PARTITION)]
    counted = Counter(other_topic.values())
    assert sorted(counted) == sorted(expected), "records are lost"
    assert set(counted.values()) == {1}, "records are doubled"
    assert topic.progress_of(f"progress-of-{topic.name}") == dict.fromkeys((0, 1), RECORDS_PER_PARTITION)
