"""One Spark session and one node for all tests of this room: a JVM takes seconds to start."""

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla.spark.pipelines.active import activate
from ottla.testing import Broker
from tests.spark.pipeline_runs import Project
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()
_ROOM = Path(__file__).parent
_TEST_SECONDS_MAX = 300
"""More than elsewhere: what interrupts a call into the JVM leaves a session behind that nobody can use."""
_STOP_SECONDS_MAX = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ROOM in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    config = {"spark.driver.memory": "1g", "spark.sql.warehouse.dir": warehouse, "spark.sql.shuffle.partitions": 1}
    gc.collect()  # closes the files of tests before: Spark's callbacks need a low descriptor
    session = ottla.spark.session("tests", config=config)
    yield session
    _stop(session)


def _stop(session: "SparkSession") -> None:
    """A session that does not stop is ended with its JVM, lest a failed test keep all others waiting."""
    jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    stopping = Thread(target=session.stop, daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS_MAX)
    if stopping.is_alive():
        jvm.kill()
        stopping.join(_STOP_SECONDS_MAX)


@pytest.fixture(scope="session")
def node() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(node: Broker) -> Broker:
    """For pipelines; a module whose topics have names of their own has a node of its own."""
    return node


@pytest.fixture
def run(spark: "SparkSession", broker: Broker, tmp_path: Path) -> Iterator[Project]:
    """Runs a project to its end; run again, it goes on from there."""
    yield Project(tmp_path, spark, broker.bootstrap)
    activate(spark)


@pytest.fixture
def topic(node: Broker) -> Topic:
    """A topic of two partitions that only this test uses."""
    return a_topic(node)


@pytest.fixture
def other_topic(node: Broker) -> Topic:
    return a_topic(node)


def a_topic(node: Broker) -> Topic:
    name = f"topic-{next(_numbers)}"
    node.create_topic(name, 2, {"retention.ms": -1})  # records of long ago stay, however long a test takes
    return Topic(node.bootstrap, name)
