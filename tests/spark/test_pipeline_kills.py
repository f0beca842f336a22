"""`ottla pipeline run` while Spark and the node are killed at random moments: each record arrives once, good or bad.

`OTTLA_PIPELINE_KILLS` makes the run longer, `OTTLA_PIPELINE_SEED` another one.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.node import NodeProcess
from tests.spark.topics import Topic

KILLS = int(os.environ.get("OTTLA_PIPELINE_KILLS", "3"))
SEED = int(os.environ.get("OTTLA_PIPELINE_SEED", "5"))
SECONDS_MAX = 240
"""On a machine that is busy with other things Spark needs minutes to start."""
FAR_MS_MAX = 1_500
BAD_EVERY = 20

SPECIFICATION = """\
name: killed
configuration: {spark.driver.memory: 512m, spark.sql.shuffle.partitions: "1"}
"""
SQL = """\
CREATE STREAM numbers (id BIGINT NOT NULL)
FROM TOPIC numbers WITH (format = 'json', maxOffsetsPerTrigger = 2000, group = 'progress');
CREATE FLOW good AS INSERT INTO TOPIC good WITH (key = id) SELECT id FROM numbers;
"""


@dataclass
class Feeder:
    """A hundred numbers a second, a record among them that is none, for as long as the killing goes on."""

    bootstrap: str
    count: int = 0
    refused: list[str] = field(default_factory=list)
    is_over: Event = field(default_factory=Event)

    def run(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**settings, "error_cb": lambda error: None, "reconnect.backoff.max.ms": 200})
        while not self.is_over.wait(0.1):
            for _ in range(10):
                producer.produce("numbers", value_of(self.count), partition=self.count % 2, on_delivery=self._told)
                self.count += 1
            producer.poll(0)
        if producer.flush(SECONDS_MAX):
            self.refused.append("some were never answered")

    def _told(self, error: object, message: object) -> None:
        if error is not None:
            self.refused.append(str(error))


def value_of(number: int) -> str:
    return f"bad {number}" if number % BAD_EVERY == 0 else json.dumps({"id": number})


@contextmanager
def running(project: Path, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline with its JVM and workers, in a process group that does not outlive this block."""
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(project), "--json", "--bootstrap", bootstrap]
    with (project / "told").open("ab") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it may have ended with all its children
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(is_done: Callable[[], bool], process: subprocess.Popen[bytes], project: Path) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not is_done():
        told = (project / "told").read_text()[-4000:]
        assert process.poll() is None, f"the pipeline ended by itself: {told}"
        assert time.monotonic() < until, f"it does not come to it: {told}"
        time.sleep(0.1)


def kill_through(node: NodeProcess, project: Path, victims: list[str], random: Random) -> None:
    """Each kill comes at some moment after the pipeline has been seen to write."""
    good = Topic(node.bootstrap, "good")

    def written() -> int:
        return sum(good.ends().values())

    while victims:
        with running(project, node.bootstrap) as process:
            while victims:
                before = written()
                wait_until(lambda before=before: written() > before, process, project)  # type: ignore[misc]
                time.sleep(random.randrange(FAR_MS_MAX) / 1000)
                if victims.pop(0) == "driver":
                    break
                node.kill()
                node.start()


@pytest.mark.timeout(900 + 60 * KILLS)
def test_each_record_arrives_once_whoever_is_killed(tmp_path: Path) -> None:
    random = Random(SEED)
    victims = ["node", "driver", *random.choices(["node", "driver"], k=KILLS)][:KILLS]
    project = tmp_path / "killed"
    (project / "transformations").mkdir(parents=True)
    (project / "pipeline.yml").write_text(SPECIFICATION)
    (project / "transformations" / "numbers.sql").write_text(SQL)
    node = NodeProcess(tmp_path / "node")
    node.start()
    feeder = Feeder(node.bootstrap)
    feeding = Thread(target=feeder.run)
    try:
        make_topics(node.bootstrap)
        feeding.start()
        kill_through(node, project, victims, random)
        feeder.is_over.set()
        feeding.join(SECONDS_MAX)
        check(node.bootstrap, project, feeder)
    finally:
        feeder.is_over.set()
        node.kill()


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # whoever drops it cancels what it was asked
    topics = [NewTopic("numbers", 2, 1), NewTopic("good", 2, 1), NewTopic("numbers.dlq", 1, 1)]
    for created in admin.create_topics(topics).values():
        created.result(10)


def check(bootstrap: str, project: Path, feeder: Feeder) -> None:
    numbers, good, bad = (Topic(bootstrap, name) for name in ("numbers", "good", "numbers.dlq"))
    assert feeder.refused == []
    with running(project, bootstrap) as last:
        wait_until(lambda: numbers.progress_of("progress") == numbers.ends(), last, project)
        last.send_signal(signal.SIGTERM)
        assert last.wait(SECONDS_MAX) == 0
    assert Counter(bad.values()) == Counter(value_of(n) for n in range(0, feeder.count, BAD_EVERY))
    assert Counter(good.values()) == Counter(
        json.dumps({"id": n}, separators=(",", ":")) for n in range(feeder.count) if n % BAD_EVERY
    )
