"""Spark Connect and Spark's Declarative Pipelines find the data source by themselves, as every session does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.topics import Topic

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

PIPELINE = """
name: demo
libraries: [{{glob: {{include: transformations/**}}}}]
storage: file://{storage}
"""
FLOWS = """
from pyspark import pipelines as dp
NODE = {{"kafka.bootstrap.servers": "{bootstrap}"}}
@dp.temporary_view
def raw():
    return spark.readStream.format("ottla").options(**NODE, subscribe="{source}", startingOffsets="earliest").load()
dp.create_sink("out", "ottla", {{**NODE, "topic": "{target}"}})
@dp.append_flow(target="out")
def to_topic():
    return spark.readStream.table("raw").selectExpr("upper(string(value)) AS value")
"""
CONNECTED = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
node = {{"kafka.bootstrap.servers": "{bootstrap}"}}
assert spark.read.format("ottla").options(**node, subscribe="{source}").load().where("offset >= 1").count() == 1
rows = spark.readStream.format("ottla").options(**node, subscribe="{source}", startingOffsets="earliest").load()
to_topic = rows.selectExpr("upper(string(value)) AS value").writeStream.format("ottla")
to_topic = to_topic.options(**node, topic="{target}", checkpointLocation="{storage}").trigger(availableNow=True)
assert to_topic.start().awaitTermination(120)
"""


@pytest.fixture(autouse=True)
def needs_grpc() -> None:
    for module in ("grpc", "grpc_status"):
        pytest.importorskip(module, reason="needs pyspark[connect]")


def run(*command: str) -> None:
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=350, check=False)
    assert done.returncode == 0, done.stderr


def test_declarative_pipelines_go_on_where_they_were(topic: Topic, other_topic: Topic, tmp_path: Path) -> None:
    told = {"bootstrap": topic.bootstrap, "source": topic.name, "target": other_topic.name}
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(FLOWS.format(**told))
    specification = tmp_path / "spark-pipeline.yml"
    specification.write_text(PIPELINE.format(storage=tmp_path / "storage"))
    program = Path(sys.executable).with_name("spark-pipelines")
    for round_ in range(2):
        topic.produce([f"a{round_}", f"b{round_}"])
        run(str(program), "run", "--spec", str(specification))
    assert other_topic.values() == ["A0", "B0", "A1", "B1"]


def test_a_connected_session_reads_and_writes(topic: Topic, other_topic: Topic, tmp_path: Path) -> None:
    topic.produce(["a", "b"])
    code = CONNECTED.format(
        bootstrap=topic.bootstrap, source=topic.name, target=other_topic.name, storage=tmp_path / "checkpoint"
    )
    run(sys.executable, "-c", code)
    assert other_topic.values() == ["A", "B"]
