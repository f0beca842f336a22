"""The data source for Spark and the node under test, driven as Spark does but without it; `--peer kafka` for Kafka."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.group_commit import supports_group_commit
from ottla.spark import connections
from ottla.spark.internals import TaskPlace
from ottla.spark.option_words import OptionWords
from ottla.spark.sink.exactly_once import WrongBatch
from ottla.spark.source.batch import RangesToRead
from ottla.spark.source.options import parse_source_options
from ottla.spark.source.stream import StreamReader
from ottla.spark.source.tail import EpochToRead, TailReader
from tests.spark.drivers import Died, Driver
from tests.spark.topics import Topic

from .brokers import Broker, KafkaBroker

pytestmark = pytest.mark.peers


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Topic:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    return Topic(broker.bootstrap, name)


@pytest.fixture(params=["classic", "version 2"])
def driver(request: pytest.FixtureRequest, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """By a group commit where there are such, else by a manifest; with transactions of both generations."""
    if request.param == "classic":
        monkeypatch.setattr("ottla.client.transactions._FEATURE_LEVEL", 99)
    return Driver(topic, tmp_path, monkeypatch, query=f"query-of-{topic.name}")


def options(topic: Topic, **more: str) -> OptionWords:
    return OptionWords({**topic.options, "startingOffsets": "earliest", **more})


def test_rows_are_those_of_other_clients(topic: Topic) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic.produce((f"{codec}-{number}" for number in range(20)), compression_type=codec)
    topic.transact(range(5), is_committed=False)
    topic.transact(range(5), is_committed=True, partition=1)
    reader = StreamReader(parse_source_options(options(topic), is_stream=True))
    start = reader.initialOffset()
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    tasks = [task for task in reader.partitions(start, end) if isinstance(task, RangesToRead)]
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    theirs = [(found.partition(), found.offset(), found.timestamp()[1], found.value()) for found in topic.records()]
    ours = [
        (row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000 + 0.5), row["value"]) for row in rows
    ]
    assert sorted(ours) == theirs and len(ours) == 105


def test_epochs_of_tail_mode_are_repeated_exactly(topic: Topic) -> None:
    reader = TailReader(parse_source_options(options(topic, mode="tail"), is_stream=True))
    topic.produce(range(3))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    counts = []
    for _ in range(2):
        [task] = reader.partitions(start, end)
        assert isinstance(task, EpochToRead)
        counts.append(sum(batch.num_rows for batch in reader.read(task)))
        topic.produce(range(3))
    assert counts == [3, 3]


def test_which_protocol_decides_is_found_out(broker: Broker, topic: Topic) -> None:
    cluster = connections.cluster_at({"bootstrap.servers": topic.bootstrap})
    assert connections.run(supports_group_commit(cluster)) is not isinstance(broker, KafkaBroker)


@pytest.mark.parametrize("seed", range(2))
def test_drivers_that_die_anywhere_write_every_value_once(topic: Topic, driver: Driver, seed: int) -> None:
    random = Random(seed)
    batches = [[f"{number}-{index}" for index in range(random.randint(0, 6))] for number in range(5)]
    deaths_left = 8

    def die_at(number: int, step: str) -> bool:
        nonlocal deaths_left
        is_death = deaths_left > 0 and random.random() < 0.25
        deaths_left -= is_death
        return is_death

    while len(list((driver.checkpoint / "commits").iterdir())) < len(batches):
        with suppress(Died):
            driver.run(batches, random, die_at)
    assert sorted(topic.values()) == sorted(value for batch in batches for value in batch)


def test_of_two_drivers_one_writes_and_an_old_checkpoint_is_refused(topic: Topic, driver: Driver) -> None:
    driver.plan(0, {})
    zombie, successor = driver.writer(), driver.writer()
    late = driver.task(zombie, 0, TaskPlace(0, 0), ["a"])
    successor.commit([driver.task(successor, 0, TaskPlace(0, 0), ["a"])], 0)
    zombie.commit([late], 0)  # decided before
    driver.run_batch(1, ["b"], Random(0))
    (driver.checkpoint / "offsets" / "1").unlink()
    (driver.checkpoint / "commits" / "1").unlink()
    driver.plan(1, {"t": {"0": 99}})
    with pytest.raises(WrongBatch):
        driver.run_batch(1, ["x"], Random(0))
    assert sorted(topic.values()) == ["a", "b"]
