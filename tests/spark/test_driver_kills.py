"""The whole driver group is killed amid its batches and started again: nothing is lost and nothing is there twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.spark import killed_driver
from tests.spark.topics import Topic

KILLS = 1
"""A driver needs ten seconds to start; what dies at each step is tried without one, in `test_exactly_once.py`."""
AT_FIRST, IN_A_PORTION, PORTIONS = 2000, 50, 40
SECONDS_MAX = 240
"""On a machine that is busy with other things Spark needs minutes to start."""


@contextmanager
def driver(source: Topic, target: Topic, checkpoint: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with its JVM and workers, in a process group that does not outlive this block."""
    arguments = [source.bootstrap, source.name, target.name, str(checkpoint), mode]
    command = [sys.executable, killed_driver.__file__, *arguments]
    with (checkpoint.parent / "stderr").open("ab") as said:
        process = subprocess.Popen(command, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(is_done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not is_done():
        assert process.poll() is None, "the driver ended by itself"
        assert time.monotonic() < until, "it does not come to it"
        time.sleep(0.05)


def feed(topic: Topic) -> None:
    """For two seconds, so that the driver is killed while there is something to do."""
    for _ in range(PORTIONS):
        for partition in (0, 1):
            topic.produce(range(IN_A_PORTION), partition)
        time.sleep(0.05)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["micro", "tail"])
def test_a_driver_group_that_is_killed_writes_every_record_once(
    topic: Topic, other_topic: Topic, tmp_path: Path, mode: str
) -> None:
    random = Random(int.from_bytes(os.urandom(4), "big"))
    checkpoint = tmp_path / "checkpoint"
    for partition in (0, 1):
        topic.produce(range(AT_FIRST), partition, linger_ms=5)
    feeding = Thread(target=feed, args=[topic])
    for _ in range(KILLS):
        with driver(topic, other_topic, checkpoint, mode) as running:
            before = sum(other_topic.ends().values())
            wait_until(lambda begin=before: sum(other_topic.ends().values()) > begin, running)  # type: ignore[misc]
            if not feeding.ident:
                feeding.start()
            time.sleep(random.uniform(0, 1.2))  # somewhere within a batch
    feeding.join()
    count = AT_FIRST + PORTIONS * IN_A_PORTION
    expected = Counter(f"{partition}-{offset}" for partition in (0, 1) for offset in range(count))
    with driver(topic, other_topic, checkpoint, mode) as last:
        wait_until(lambda: len(other_topic.values()) >= expected.total(), last)
        time.sleep(0.5)  # what is there twice may come later
    assert Counter(other_topic.values()) == expected
