"""A cluster of Spark's own kind, a master and a worker on loopback, to which the session brings this package."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.spark.java import find_java
from tests.spark.topics import Topic

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

_START_SECONDS_MAX = 60.0
DRIVER = """
import sys
import ottla.spark

master, bootstrap, source, target, storage = sys.argv[1:]
node = {"kafka.bootstrap.servers": bootstrap}
spark = ottla.spark.session("cluster", master=master, config={"spark.cores.max": 2, "spark.executor.memory": "1g"})


def place_of_package(_):
    import ottla
    return ottla.__file__


[place] = spark.sparkContext.parallelize([0], 1).map(place_of_package).distinct().collect()
assert ".zip" in place and place != ottla.__file__, place
assert spark.read.format("ottla").options(**node, subscribe=source).load().count() == 2
rows = spark.readStream.format("ottla").options(**node, subscribe=source, startingOffsets="earliest").load()
to_topic = rows.selectExpr("upper(string(value)) AS value").writeStream.format("ottla")
to_topic = to_topic.options(**node, topic=target, checkpointLocation=storage).trigger(availableNow=True)
assert to_topic.start().awaitTermination(200)
spark.stop()
"""
FLOWS = """
CREATE STREAM orders (id BIGINT) FROM TOPIC {source} WITH (format = 'json', errors = 'drop');
CREATE FLOW copied AS INSERT INTO TOPIC {target} SELECT id FROM STREAM(orders);
"""


@contextmanager
def running(log: Path, environment: dict[str, str], *command: str) -> Iterator[None]:
    origin = find_spec("pyspark")
    assert origin is not None and origin.origin is not None
    program = Path(origin.origin).with_name("bin") / "spark-class"
    with log.open("wb") as output:
        process = subprocess.Popen([program, *command], env=environment, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def said(log: Path, pattern: str) -> str:
    """What a daemon has written to its log, as soon as it has."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


@pytest.fixture
def environment() -> dict[str, str]:
    own = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**os.environ, **own, "SPARK_NO_DAEMONIZE": "1"}


@pytest.fixture
def master(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    log, deploy = tmp_path / "master", "org.apache.spark.deploy"
    with running(log, environment, f"{deploy}.master.Master", *place):
        url = said(log, r"Starting Spark master at (spark://\S+)")
        of_worker = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"), url)
        with running(tmp_path / "worker", environment, f"{deploy}.worker.Worker", *place, *of_worker):
            said(tmp_path / "worker", r"Successfully registered with master (spark://\S+)")
            yield url


def test_a_cluster_reads_and_writes_topics_without_having_the_package_installed(
    master: str, environment: dict[str, str], topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    topic.produce(["a", "b"])
    arguments = (master, topic.bootstrap, topic.name, other_topic.name, str(tmp_path / "checkpoint"))
    run(environment, "-c", DRIVER, *arguments)
    assert other_topic.values() == ["A", "B"]


def test_a_pipeline_runs_on_a_cluster(
    master: str, environment: dict[str, str], topic: Topic, other_topic: Topic, tmp_path: Path
) -> None:
    topic.produce(['{"id": 1}', "no order", '{"id": 2}'])
    (tmp_path / "flows.sql").write_text(FLOWS.format(source=topic.name, target=other_topic.name))
    settings = '{"spark.cores.max": "2", "spark.executor.memory": "1g"}'
    (tmp_path / "pipeline.yml").write_text(f"{{name: c, libraries: [{{file: flows.sql}}], configuration: {settings}}}")
    place = (str(tmp_path), "--once", "--master", master, "--bootstrap", topic.bootstrap)
    run(environment, "-m", "ottla", "pipeline", "run", *place)
    assert other_topic.values() == ['{"id":1}', '{"id":2}']


def run(environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
