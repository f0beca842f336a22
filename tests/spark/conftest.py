"""One Spark session and one node for all tests of this room: a JVM takes seconds to start."""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla.testing import Broker
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    config = {"spark.driver.memory": "1g", "spark.sql.warehouse.dir": warehouse, "spark.sql.shuffle.partitions": 1}
    session = ottla.spark.session("tests", config=config)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def node() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(node: Broker) -> Topic:
    """A topic of two partitions that only this test uses."""
    return a_topic(node)


@pytest.fixture
def other_topic(node: Broker) -> Topic:
    return a_topic(node)


def a_topic(node: Broker) -> Topic:
    name = f"topic-{next(_numbers)}"
    node.create_topic(name, 2)
    return Topic(node.bootstrap, name)
