"""A topic and the table that archives it, read as one: every row is there once, on whichever side of the seam it is."""

from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

from ottla.spark.not_ready import NotReady
from ottla.spark.option_words import BadOption
from ottla.spark.source.topics import DataLoss
from tests.spark.archiving import KINDS, Archiver, all_of, rows_read, source_options, table_of
from tests.spark.topics import Topic


@pytest.fixture(params=KINDS)
def archiver(request: pytest.FixtureRequest, topic: Topic, tmp_path: Path) -> Archiver:
    return Archiver(topic, request.param, tmp_path)


def test_what_the_log_has_forgotten_comes_from_the_table_and_the_rest_from_the_log(archiver: Archiver) -> None:
    topic = archiver.topic
    for partition in (0, 1):
        topic.produce(range(20), partition)
    archiver.run({0: 5, 1: 0})
    archiver.run({0: 15, 1: 3})
    assert rows_read(archiver.options) == all_of(p0=20, p1=20)
    archiver.forget()
    assert rows_read(archiver.options) == all_of(p0=20, p1=20)
    archiver.run()
    archiver.forget()
    assert rows_read(archiver.options) == all_of(p0=20, p1=20)


def test_rows_are_the_same_from_the_table_as_from_the_log(archiver: Archiver) -> None:
    producer = archiver.topic.producer()
    producer.produce(archiver.topic.name, b"v", b"k", 1, timestamp=1_700_000_000_123)
    producer.produce(archiver.topic.name, None, None, 1, timestamp=1_700_000_000_124)
    producer.flush()

    from_log = table_of(archiver.topic.options)
    archiver.run()
    archiver.forget()
    assert table_of(archiver.options) == from_log and from_log.num_rows == 2


def test_markers_and_aborted_records_behind_the_last_row_are_no_loss(archiver: Archiver) -> None:
    archiver.topic.transact(range(5), is_committed=True)
    archiver.run()
    archiver.topic.transact(range(5), is_committed=False)
    archiver.run()  # not a row in it
    archiver.forget()
    assert rows_read(archiver.options) == all_of(p0=5)
    archiver.topic.transact(range(2), is_committed=True)
    assert rows_read(archiver.options) == [*all_of(p0=5), (0, 12), (0, 13)]


def test_every_read_is_whole_while_records_are_written_archived_and_removed(archiver: Archiver) -> None:
    topic, is_over = archiver.topic, Event()
    topic.produce(range(10), 0)
    archiver.run()

    def write() -> None:
        while not is_over.wait(0.01):
            for partition in (0, 1):
                topic.produce(range(7), partition)

    def archive() -> None:
        while not is_over.wait(0.02):
            archiver.run()

    workers = [Thread(target=work) for work in (write, archive)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(8):
            found = rows_read(archiver.options)
            counts = {partition: sum(place[0] == partition for place in found) for partition in (0, 1)}
            assert found == all_of(p0=counts[0], p1=counts[1])
            archiver.forget()
    finally:
        is_over.set()
        for worker in workers:
            worker.join(30)
    ends = topic.ends()
    assert rows_read(archiver.options) == all_of(p0=ends[0], p1=ends[1])
    assert archiver.batch > 1


def test_records_that_were_removed_before_they_were_archived_are_an_error_unless_that_is_allowed(
    archiver: Archiver,
) -> None:
    archiver.topic.produce(range(10))
    archiver.run({0: 4})
    archiver.topic.delete_records({0: 6})
    with pytest.raises(DataLoss, match=r"archived up to offset 4, and its log begins at offset 6.*failOnDataLoss"):
        rows_read(archiver.options)
    allowed = {**archiver.options, "failOnDataLoss": "false"}
    assert rows_read(allowed) == [(0, offset) for offset in range(10) if offset not in (4, 5)]


def test_partitions_that_came_later_are_read_from_their_beginning(archiver: Archiver) -> None:
    archiver.topic.produce(range(3))
    archiver.run()
    archiver.forget()
    archiver.topic.add_partitions(3)
    archiver.topic.produce(range(2), 2)
    assert rows_read(archiver.options) == all_of(p0=3, p2=2)
    archiver.topic.delete_records({2: 1})
    with pytest.raises(DataLoss, match="archived up to offset 0"):
        rows_read(archiver.options)


def test_a_table_with_nothing_of_the_topic_changes_nothing(archiver: Archiver, other_topic: Topic) -> None:
    other_topic.produce(range(3))
    Archiver(other_topic, archiver.kind, archiver.directory).run()
    archiver.topic.produce(range(5))
    archiver.topic.delete_records({0: 2})
    assert rows_read(archiver.options) == [(0, 2), (0, 3), (0, 4)]


def test_one_table_may_archive_several_topics(archiver: Archiver, other_topic: Topic) -> None:
    other = Archiver(other_topic, archiver.kind, archiver.directory)
    other_topic.produce(range(2), 1)
    archiver.topic.produce(range(4))
    for one in (archiver, other):
        one.run()
        one.forget()
    assert rows_read(archiver.options) == all_of(p0=4)
    both = {**archiver.options, "subscribe": f"{archiver.topic.name},{other_topic.name}"}
    assert rows_read(both) == all_of(p0=4, p1=2)


def test_without_a_note_the_highest_row_of_each_partition_decides(topic: Topic, tmp_path: Path) -> None:
    archiver = Archiver(topic, "delta", tmp_path, is_noting=False)
    for partition, count in ((0, 30), (1, 4)):
        topic.produce(range(count), partition)
    for up_to in ({0: 10, 1: 0}, {0: 20, 1: 3}, {0: 25, 1: 3}):
        archiver.run(up_to)
    archiver.forget()
    assert rows_read(archiver.options) == all_of(p0=30, p1=4)


def test_rows_that_somebody_added_beyond_the_note_are_not_there_twice(archiver: Archiver) -> None:
    archiver.topic.produce(range(10))
    archiver.run({0: 4})
    ends = archiver.ends
    Archiver(archiver.topic, archiver.kind, archiver.directory, is_noting=False, ends=ends, batch=archiver.batch).run()
    assert rows_read(archiver.options) == all_of(p0=10)


def test_filters_are_applied_to_both_sides(archiver: Archiver) -> None:
    for partition in (0, 1):
        archiver.topic.produce(range(20), partition)
    archiver.run({0: 10, 1: 10})
    archiver.forget()
    near_the_seam = [EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 8), LessThan(("offset",), 12)]
    assert rows_read(archiver.options, near_the_seam) == [(1, 8), (1, 9), (1, 10), (1, 11)]
    assert rows_read(archiver.options, [EqualTo(("topic",), "another")]) == []
    assigned = {key: value for key, value in archiver.options.items() if key != "subscribe"}
    assigned["assign"] = f'{{"{archiver.topic.name}":[0]}}'
    assert rows_read(assigned) == all_of(p0=20)


def test_a_table_partitioned_by_the_topics_partition_is_read_as_any(topic: Topic, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    for partition in (0, 1):
        topic.produce(range(5), partition)
    archiver = Archiver(topic, "delta", tmp_path)
    write_deltalake(tmp_path / "t", table_of(topic.options), partition_by=["topic", "partition"])
    topic.delete_records({0: 5, 1: 5})
    topic.produce(range(1), 1)
    assert rows_read(archiver.options) == all_of(p0=5, p1=6)


def test_a_table_that_may_have_deletion_vectors_and_has_none_is_read(topic: Topic, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    topic.produce(range(5))
    archiver = Archiver(topic, "delta", tmp_path)
    write_deltalake(tmp_path / "t", table_of(topic.options), configuration={"delta.enableDeletionVectors": "true"})
    topic.delete_records({0: 5})
    assert rows_read(archiver.options) == all_of(p0=5)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"startingOffsets": "{}"}, "read from its beginning"),
        ({"endingTimestamp": "5"}, "cannot be set with an archive"),
        ({"archive.format": "csv"}, "delta, iceberg, parquet"),
        ({"archive": ""}, "path of a table"),
    ],
)
def test_options_that_an_archive_makes_no_sense_with_are_refused(given: dict[str, str], why: str) -> None:
    options = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "archive": "lake/t", **given}
    with pytest.raises(BadOption, match=why):
        source_options(options)


def test_what_is_missing_is_told(topic: Topic, tmp_path: Path) -> None:
    topic.produce(range(1))
    archiver = Archiver(topic, "delta", tmp_path)
    archiver.run()
    with pytest.raises(BadOption, match=r"no column 'headers'.*includeHeaders"):
        rows_read({**archiver.options, "includeHeaders": "true"})
    for kind, why in (("delta", "no Delta table"), ("iceberg", "no Iceberg table"), ("parquet", "_spark_metadata")):
        elsewhere = {"archive": str(tmp_path / "none"), "archive.format": kind, "archive.path": str(tmp_path)}
        with pytest.raises(NotReady, match=why):
            rows_read({**topic.options, **elsewhere, **({"archive": "shop.none"} if kind == "iceberg" else {})})
    with pytest.raises(BadOption, match="says nothing without the option 'archive'"):
        source_options({**topic.options, "archive.format": "delta"})
    with pytest.raises(BadOption, match="mode 'tail'"):
        source_options({**archiver.options, "mode": "tail"}, is_stream=True)
