"""One Spark session for all tests of this room: a JVM takes seconds to start."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import ottla.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    config = {"spark.driver.memory": "1g", "spark.sql.warehouse.dir": warehouse, "spark.sql.shuffle.partitions": 1}
    session = ottla.spark.session("tests", config=config)
    yield session
    session.stop()
