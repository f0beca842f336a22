"""Whole projects in tests: written, run to their end in the session of all tests, and what their topics have then."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.spark.pipelines.pipeline import Wanted, open_project, prepare
from ottla.spark.pipelines.project import FlowSettings, Mode
from ottla.spark.pipelines.running import PipelineRun
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., PipelineRun]
RESTARTS = 2
"""A worker that does not start within Spark's ten seconds, on a machine that is busy, is no failure of the pipeline."""


@dataclass(frozen=True)
class Project:
    """Runs to its end; run again, it goes on from there. Files are named with an underscore for the dot."""

    directory: Path
    spark: "SparkSession"
    bootstrap: str

    def __call__(self, mode: Mode = Mode.BATCH, stop: threading.Event | None = None, **files: str) -> PipelineRun:
        pipeline, failures = self.attempt(mode, stop, **files)
        assert not failures, failures
        return pipeline

    def attempt(
        self, mode: Mode = Mode.BATCH, stop: threading.Event | None = None, restarts: int = RESTARTS, **files: str
    ) -> tuple[PipelineRun, dict[str, str]]:
        """And why flows were given up, by their names."""
        (self.directory / "transformations").mkdir(exist_ok=True)
        (self.directory / "pipeline.yml").write_text(f"name: shop\nrestarts: {restarts}\n")
        for name, text in files.items():
            (self.directory / "transformations" / name.replace("_", ".")).write_text(text)
        (self.directory / ".pipeline").mkdir(exist_ok=True)
        project = open_project(self.directory, self.bootstrap)
        events: list[dict[str, Any]] = []
        wanted = Wanted(settings=FlowSettings(mode=mode))
        pipeline = prepare(project, wanted, events.append, lambda project, master: self.spark.newSession())
        is_well = pipeline.go(stop or threading.Event())
        given_up = {event["flow"] for event in events if event["event"] == "given up"}
        assert is_well == (not given_up)
        failed = {str(event["flow"]): str(event["text"]) for event in events if event["event"] == "failed"}
        return pipeline, {flow: why for flow, why in failed.items() if flow in given_up}


def sent(broker: Broker, topic: str, *values: str | bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value if isinstance(value, bytes) else value.encode(), key=str(number).encode())
    assert producer.flush(30) == 0


def received(broker: Broker, topic: str) -> list[Any]:
    """All that is committed in the first partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None:
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return found
            found.append(message)
        raise AssertionError("no end in sight")
