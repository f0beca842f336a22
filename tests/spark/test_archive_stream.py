"""A stream that begins with the table: its files, and then the log from the seam on. As Spark drives it."""

import json
from itertools import chain
from pathlib import Path

import pytest

from ottla.spark.not_ready import NotReady
from ottla.spark.source.archived_stream import ArchivedStreamReader
from ottla.spark.source.progress import Json
from ottla.spark.source.topics import DataLoss
from tests.spark.archiving import KINDS, Archiver, all_of, places_in, source_options
from tests.spark.topics import Row, Topic


@pytest.fixture(params=KINDS)
def archiver(request: pytest.FixtureRequest, topic: Topic, tmp_path: Path) -> Archiver:
    """With three files and a rest in the log."""
    archiver = Archiver(topic, request.param, tmp_path)
    for partition in (0, 1):
        topic.produce(range(20), partition)
    for up_to in ({0: 5, 1: 0}, {0: 15, 1: 3}, {0: 16, 1: 16}):
        archiver.run(up_to)
    archiver.forget()
    return archiver


def a_reader(archiver: Archiver, **options: object) -> ArchivedStreamReader:
    given = {**archiver.options, "pollWait": "100ms", **{name: str(value) for name, value in options.items()}}
    return ArchivedStreamReader(source_options(given, is_stream=True))


def stored(offsets: Json) -> Json:
    found: Json = json.loads(json.dumps(offsets))
    return found


def batches_from(reader: ArchivedStreamReader, start: Json) -> tuple[list[list[Row]], Json]:
    """All there are now, and where they end."""
    found = []
    while (end := stored(reader.latestOffset(start, reader.getDefaultReadLimit()))) != start:
        found.append(places_in(reader, reader.partitions(start, end)))
        start = end
    return found, start


def in_order(batches: list[list[Row]]) -> list[Row]:
    return sorted(chain.from_iterable(batches))


def test_the_table_comes_first_in_its_order_and_then_the_log(archiver: Archiver) -> None:
    reader = a_reader(archiver, maxOffsetsPerTrigger=8)
    batches, end = batches_from(reader, stored(reader.initialOffset()))
    assert [len(rows) for rows in batches] == [5, 13, 14, 8]
    assert in_order(batches) == all_of(p0=20, p1=20)
    assert end[archiver.topic.name] == {"0": 20, "1": 20} and "@archive" not in end


def test_a_query_that_is_started_again_goes_on_in_the_table_as_it_was(archiver: Archiver) -> None:
    reader = a_reader(archiver, maxOffsetsPerTrigger=1)
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, reader.getDefaultReadLimit()))
    first = places_in(reader, reader.partitions(start, end))
    archiver.run()
    archiver.topic.produce(range(3), 1)
    again = a_reader(archiver)
    rest, _ = batches_from(again, end)
    assert in_order([first, *rest]) == all_of(p0=20, p1=23)


def test_a_first_batch_that_is_repeated_reads_what_it_read(archiver: Archiver) -> None:
    reader = a_reader(archiver)
    start = stored(reader.initialOffset())
    end = stored(reader.latestOffset(start, reader.getDefaultReadLimit()))
    before = places_in(reader, reader.partitions(start, end))
    archiver.run()
    again = a_reader(archiver)
    assert places_in(again, again.partitions(stored(again.initialOffset()), end)) == before == all_of(p0=16, p1=16)
    after, _ = batches_from(again, end)
    assert after == [[(0, offset) for offset in range(16, 20)] + [(1, offset) for offset in range(16, 20)]]


def test_a_run_over_what_is_there_ends_though_more_is_archived_when_it_begins(archiver: Archiver) -> None:
    reader = a_reader(archiver)
    reader.prepareForTriggerAvailableNow()
    archiver.topic.produce(range(4))
    archiver.run()
    archiver.forget()
    batches, _ = batches_from(reader, stored(reader.initialOffset()))
    assert in_order(batches) == all_of(p0=24, p1=20)


def test_a_log_that_begins_behind_the_table_is_an_error(archiver: Archiver) -> None:
    archiver.topic.delete_records({1: 18})
    with pytest.raises(DataLoss, match="archived up to offset 16, and its log begins at offset 18"):
        a_reader(archiver).initialOffset()
    reader = a_reader(archiver, failOnDataLoss="false")
    batches, _ = batches_from(reader, stored(reader.initialOffset()))
    assert in_order(batches) == [place for place in all_of(p0=20, p1=20) if place not in ((1, 16), (1, 17))]


def test_a_version_of_the_table_that_is_gone_is_told(archiver: Archiver) -> None:
    reader = a_reader(archiver, maxOffsetsPerTrigger=1)
    start = stored(reader.initialOffset())
    start["@archive"]["version"] = "77"
    with pytest.raises(NotReady, match="77"):
        a_reader(archiver).latestOffset(start, reader.getDefaultReadLimit())
