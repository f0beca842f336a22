"""Batches are written once: whatever dies, whoever repeats them, and never with another batch taken for one of them."""

from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from ottla.client.cluster import Cluster
from ottla.client.group_commit import MembersLost
from ottla.client.transactions import Identity, TransactionalProducer
from ottla.spark.internals import TaskPlace
from ottla.spark.sink import exactly_once, manifests
from ottla.spark.sink.ending import commit_transaction
from ottla.spark.sink.exactly_once import WrongBatch
from tests.spark.drivers import STEPS, Died, Driver
from tests.spark.topics import Topic


@pytest.fixture(params=["group", "manifest"])
def driver(request: pytest.FixtureRequest, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """On a node with group commits; and as on a cluster that has none."""
    monkeypatch.setattr(exactly_once, "_KILLING_SECONDS", 3.0)
    return Driver(topic, tmp_path, monkeypatch, query=f"query-of-{topic.name}", commitProtocol=request.param)


@pytest.mark.parametrize("seed", range(4))
def test_drivers_that_die_anywhere_write_every_value_once(topic: Topic, driver: Driver, seed: int) -> None:
    random = Random(seed)
    batches = [[f"{number}-{index}" for index in range(random.randint(0, 8))] for number in range(6)]
    deaths_left = 12

    def die_at(number: int, step: str) -> bool:
        nonlocal deaths_left
        is_death = deaths_left > 0 and random.random() < 0.25
        deaths_left -= is_death
        return is_death

    while len(list((driver.checkpoint / "commits").iterdir())) < len(batches):
        with suppress(Died):
            driver.run(batches, random, die_at)
    assert sorted(topic.values()) == sorted(value for batch in batches for value in batch)


@pytest.mark.parametrize("step", STEPS)
def test_a_death_at_each_step_is_made_good(topic: Topic, driver: Driver, step: str) -> None:
    with pytest.raises(Died):
        driver.run_batch(0, ["a", "b"], Random(1), lambda _, at: at == step)
    driver.run_batch(0, ["a", "b"], Random(2))
    driver.run_batch(1, ["c"], Random(3))
    assert sorted(topic.values()) == ["a", "b", "c"]


def test_an_abort_after_the_decision_undoes_nothing(topic: Topic, driver: Driver) -> None:
    """Spark aborts when a commit raises, and a commit can raise because its answer was lost."""
    driver.plan(0, {})
    writer = driver.writer()
    message = driver.task(writer, 0, TaskPlace(0, 0), ["a"])
    writer.commit([message], 0)
    writer.abort([message, None], 0)
    assert topic.values() == ["a"]


def test_an_abort_before_the_decision_lets_readers_go_on(topic: Topic, driver: Driver) -> None:
    writer = driver.writer()
    writer.abort([driver.task(writer, 0, TaskPlace(0, 0), ["a"]), None], 0)
    topic.produce(["b"])
    assert topic.values() == ["b"]


def test_a_task_that_begins_while_it_is_being_killed_is_cleared_away(topic: Topic, driver: Driver) -> None:
    writer = driver.writer()
    staged = driver.task(writer, 0, TaskPlace(0, 0), ["early"])
    late = Timer(0.5, driver.task, (writer, 0, TaskPlace(1, 0), ["late"]))
    late.start()
    writer.abort([staged, None], 0)
    late.join()
    topic.produce(["b"], partition=0)
    topic.produce(["c"], partition=1)
    assert topic.values() == ["b", "c"]


def test_what_a_failed_attempt_left_is_cleared_away(topic: Topic, driver: Driver) -> None:
    driver.plan(0, {})
    writer = driver.writer()
    with pytest.raises(Died):
        driver.task(writer, 0, TaskPlace(0, 0), ["a", "b"], is_dying=True)
    writer.commit([driver.task(writer, 0, TaskPlace(0, 1), ["a", "b"])], 0)
    assert sorted(topic.values()) == ["a", "b"]


def test_a_decision_is_carried_out_by_the_next_driver(
    topic: Topic, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody but drivers can: the node itself carries out what it has decided."""

    async def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "commit_transaction", die)
        with suppress(Died):
            driver.run_batch(0, ["a", "b"], Random(1))
    driver.run_batch(0, ["a", "b"], Random(2))
    assert sorted(topic.values()) == ["a", "b"]


def test_rows_that_are_lost_are_told(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of manifests: a transaction that is aborted between the decision and its end."""
    driver = Driver(topic, tmp_path, monkeypatch, query=f"query-of-{topic.name}", commitProtocol="manifest")

    async def end_first(cluster: Cluster, identity: Identity, is_version_2: bool) -> None:
        await TransactionalProducer(cluster, identity.transactional_id).init()
        await commit_transaction(cluster, identity, is_version_2)

    monkeypatch.setattr(manifests, "commit_transaction", end_first)
    with pytest.raises(manifests.RowsLost, match="its rows are lost"):
        driver.run_batch(0, ["a"], Random(0))


def test_of_two_drivers_on_one_checkpoint_one_writes(topic: Topic, driver: Driver) -> None:
    driver.plan(0, {})
    zombie, successor = driver.writer(), driver.writer()
    late = driver.task(zombie, 0, TaskPlace(0, 0), ["a"])
    successor.commit([driver.task(successor, 0, TaskPlace(0, 0), ["a"])], 0)
    zombie.commit([late], 0)  # decided before, and its own transaction is fenced
    assert topic.values() == ["a"]
    driver.plan(1, {})
    late = driver.task(zombie, 1, TaskPlace(0, 0), ["b"])
    driver.task(successor, 1, TaskPlace(0, 0), ["b"])
    with pytest.raises(MembersLost):
        zombie.commit([late], 1)
    assert topic.values() == ["a"]


def test_a_checkpoint_that_was_set_back_is_refused(topic: Topic, driver: Driver) -> None:
    for number in range(3):
        driver.run_batch(number, [str(number)], Random(0))
    for name in ("commits", "offsets"):
        for number in (1, 2):
            (driver.checkpoint / name / str(number)).unlink()
    with pytest.raises(WrongBatch, match="restored from a backup"):
        driver.run_batch(1, ["1", "x"], Random(0))
    driver.plan(1, {})
    with pytest.raises(WrongBatch, match="refused"):
        driver.run_batch(2, ["2", "x"], Random(0))  # the number is right, the offsets are not
    assert topic.values() == ["0", "1", "2"]


def test_a_new_checkpoint_is_a_new_query(
    topic: Topic, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run_batch(0, ["a"], Random(0))
    Driver(topic, tmp_path / "new", monkeypatch, query="another").run_batch(0, ["a"], Random(0))
    assert topic.values() == ["a", "a"]


def test_offsets_of_the_source_are_committed_with_the_batch(topic: Topic, other_topic: Topic, driver: Driver) -> None:
    group = {"name": f"of-{topic.name}", "brokers": topic.bootstrap}
    driver.plan(0, {other_topic.name: {"0": 7, "1": 3}, "@group": group})
    writer = driver.writer()
    writer.commit([driver.task(writer, 0, TaskPlace(0, 0), ["a"])], 0)
    assert other_topic.progress_of(f"of-{topic.name}") == {0: 7, 1: 3}
