"""What can go wrong around a pipeline: checkpoints set back, a second driver, new partitions, hasty retention."""

import json
import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.cli.main import run as command
from tests.spark.pipeline_runs import Project, received, sent
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Broker

pytestmark = pytest.mark.timeout(300)
SQL = """
CREATE STREAM numbers (id BIGINT NOT NULL) FROM TOPIC {source} WITH (format = 'json', maxOffsetsPerTrigger = 2 {more});
CREATE FLOW good AS INSERT INTO TOPIC {target} WITH (key = id) SELECT id FROM numbers;
CREATE TABLE kept USING delta WITH (path = 'lake/kept') AS SELECT id FROM numbers;
"""
ADVICE = "The checkpoint seems to be older than the output"
_numbers = count()


class Shop:
    """A project of two flows, to a topic and to a table, with topics of its own."""

    def __init__(self, run: Project, broker: "Broker", more: str = "") -> None:
        self.run, self.broker = run, broker
        self.source, self.target = (f"hazard-{next(_numbers)}-{what}" for what in ("in", "out"))
        for name in (self.source, self.target, f"{self.source}.dlq"):
            broker.create_topic(name)
        self.sql = SQL.format(source=self.source, target=self.target, more=more)

    @property
    def checkpoints(self) -> Path:
        return self.run.directory / ".pipeline" / "checkpoints"

    def send(self, *ids: int) -> None:
        sent(self.broker, self.source, *(json.dumps({"id": number}) for number in ids))

    def go(self) -> None:
        self.run(a_sql=self.sql)

    def ids(self) -> tuple[list[int], list[int]]:
        from deltalake import DeltaTable

        topic = sorted(int(message.key()) for message in received(self.broker, self.target))
        return topic, sorted(DeltaTable(self.run.directory / "lake" / "kept").to_pyarrow_table()["id"].to_pylist())


def test_a_checkpoint_that_was_restored_is_refused_with_advice(
    run: Project,
    broker: "Broker",
    tmp_path: Path,
    spark: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = Shop(run, broker)
    shop.send(0, 1)
    shop.go()
    shutil.copytree(shop.checkpoints, tmp_path / "backup")
    shop.send(2, 3, 4)
    shop.go()
    newest = shop.checkpoints.rename(tmp_path / "newest")
    shutil.copytree(tmp_path / "backup", shop.checkpoints)
    shop.send(5)
    monkeypatch.setattr("ottla.spark.pipelines.pipeline.session", lambda *given, **more: spark.newSession())
    capsys.readouterr()
    assert command(["pipeline", "run", str(tmp_path), "--once", "--json", "-b", broker.bootstrap]) == 1
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    failed = {event["flow"]: event["text"] for event in events if event["event"] == "failed"}  # the last of each
    assert sorted(failed) == ["good", "kept"]
    advised = {event["flow"]: event["text"] for event in events if event["event"] == "given up"}
    assert all(f"`ottla pipeline reset {flow}` begins anew" in advised[flow] for flow in failed)
    for text in failed.values():
        assert ADVICE in text and "Restore the newest checkpoint" in text
    assert shop.ids() == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    shutil.rmtree(shop.checkpoints)
    newest.rename(shop.checkpoints)
    shop.go()
    assert shop.ids() == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])


def test_a_driver_that_was_thought_dead_writes_nothing_twice(run: Project, broker: "Broker", tmp_path: Path) -> None:
    """It goes on elsewhere with a copy of the checkpoint, after another has taken over."""
    shop = Shop(run, broker)
    shop.send(0, 1)
    shop.go()
    zombie = Project(tmp_path / "zombie", run.spark, run.bootstrap)
    shutil.copytree(tmp_path, zombie.directory, ignore=shutil.ignore_patterns("zombie", "lake"))
    (zombie.directory / "lake").symlink_to(tmp_path / "lake")
    shop.send(2)
    shop.go()
    same_batch, _ = zombie.attempt(a_sql=shop.sql)
    assert same_batch.status()["flows"]["good"]["state"] == "finished"
    assert shop.ids() == ([0, 1, 2], [0, 1, 2])
    shop.send(3)
    shop.go()
    shop.send(4)
    _, failures = zombie.attempt(a_sql=shop.sql)
    assert len(failures) == 2 and all(ADVICE in text for text in failures.values())
    shop.go()
    assert shop.ids() == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_partitions_that_are_added_are_read_from_their_beginning(run: Project, broker: "Broker") -> None:
    shop = Shop(run, broker)
    topic = Topic(broker.bootstrap, shop.source)
    shop.send(0, 1)
    shop.go()
    topic.add_partitions(3)
    topic.produce(['{"id": 2}'], 2)
    topic.produce(['{"id": 3}'], 1)
    shop.go()
    assert shop.ids() == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.parametrize("is_allowed", [False, True])
def test_retention_that_overtakes_a_flow_fails_it_unless_that_is_allowed(
    run: Project, broker: "Broker", is_allowed: bool
) -> None:
    shop = Shop(run, broker, ", failOnDataLoss = false" if is_allowed else "")
    shop.send(0, 1)
    shop.go()
    shop.send(2, 3, 4)
    Topic(broker.bootstrap, shop.source).delete_records({0: 4})
    _, failures = run.attempt(a_sql=shop.sql, restarts=2 if is_allowed else 0)
    if is_allowed:
        assert failures == {} and shop.ids() == ([0, 1, 4], [0, 1, 4])
        return
    assert len(failures) == 2
    assert all("begins at offset 4 now; wanted is 2" in text and "failOnDataLoss" in text for text in failures.values())
    assert shop.ids() == ([0, 1], [0, 1])
