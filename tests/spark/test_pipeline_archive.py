"""A topic archived by one pipeline and read, with its archive, by another; and all this through Spark itself."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.pipeline_runs import Run, received, sent
from tests.spark.streams import rows_of, run_over_what_is_there
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Broker

ARCHIVING = """
CREATE STREAM {topic}_rows FROM TOPIC {topic} WITH (format = raw, includeHeaders = true, maxOffsetsPerTrigger = 4);
CREATE TABLE {topic}_archive USING {format} WITH ({options}) AS SELECT * FROM {topic}_rows;
"""
READING = """
CREATE STREAM {topic} (id BIGINT NOT NULL) FROM TOPIC {topic}
WITH (format = 'json', archive = '{archive}', archive.format = {format});
INSERT INTO TOPIC {topic}_all WITH (key = id) SELECT id FROM {topic};
"""
LAKES = {
    "delta": ("path = 'lake/kept'", "lake/kept"),
    "iceberg": ("table = 'shop.kept'", "shop.kept"),
    "parquet": ("path = 'lake/files', partition.by = topic", "lake/files"),
}


def ids(*numbers: int) -> list[str]:
    return [f'{{"id": {number}}}' for number in numbers]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("format_", LAKES)
def test_a_stream_begins_with_what_another_run_has_archived(run: Run, format_: str, broker: "Broker") -> None:
    options, archive = LAKES[format_]
    name = f"kept_{format_}"
    for topic in (name, f"{name}_all", f"{name}.dlq"):
        broker.create_topic(topic)
    words = {"topic": name, "format": format_, "options": options, "archive": archive}
    sent(broker, name, *ids(0, 1, 2), "no json", *ids(3, 4))
    run(archive_sql=ARCHIVING.format(**words))
    Topic(broker.bootstrap, name).delete_records({0: 6})
    sent(broker, name, *ids(5, 6))
    run(archive_sql="-- later", reading_sql=READING.format(**words))
    sent(broker, name, *ids(7))
    run(archive_sql=ARCHIVING.format(**words), reading_sql=READING.format(**words))
    found = [int(message.key() or b"") for message in received(broker, f"{name}_all")]
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 6, 7]
    [letter] = received(broker, f"{name}.dlq")
    assert letter.value() == b"no json" and dict(letter.headers() or [])["ottla.dlq.offset"] == b"3"


@pytest.mark.timeout(300)
def test_dataframes_of_topic_and_archive(run: Run, spark: "SparkSession", broker: "Broker", tmp_path: Path) -> None:
    from deltalake import DeltaTable

    broker.create_topic("framed", 2)
    topic = Topic(broker.bootstrap, "framed")
    for partition in (0, 1):
        topic.produce(range(6), partition)
    run(a_sql=ARCHIVING.format(topic="framed", format="delta", options="path = 'lake/framed'"))
    noted = DeltaTable(tmp_path / "lake" / "framed")
    assert [noted.transaction_version(f"ottla.end.framed-{partition}") for partition in (0, 1)] == [6, 6]
    topic.delete_records({0: 6, 1: 6})
    topic.produce(range(3), 1)
    options = {**topic.options, "archive": str(tmp_path / "lake" / "framed")}
    expected = [*((0, offset) for offset in range(6)), *((1, offset) for offset in range(9))]
    frame = spark.read.format("ottla").options(**options).load()
    assert sorted((row["partition"], row["offset"]) for row in frame.collect()) == expected
    few = frame.where("partition = 1 AND offset >= 5 AND offset < 7").select("offset", "value").collect()
    assert sorted((row["offset"], bytes(row["value"])) for row in few) == [(5, b"5"), (6, b"0")]
    batches = run_over_what_is_there(spark, {**options, "maxOffsetsPerTrigger": 5}, tmp_path / "checkpoint")
    assert rows_of(batches) == expected and len(batches) > 3
    topic.produce(range(1), 0)
    later = run_over_what_is_there(spark, {**options, "maxOffsetsPerTrigger": 5}, tmp_path / "checkpoint")
    assert rows_of(later) == [(0, 6)]
