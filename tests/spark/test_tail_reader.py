"""Tail mode as Spark drives it, without Spark: an epoch that is repeated reads what it read, whatever came since."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla.client.failures import Fenced
from ottla.spark.option_words import BadOption, OptionWords
from ottla.spark.source.options import parse_source_options
from ottla.spark.source.progress import Json
from ottla.spark.source.tail import EpochToRead, TailReader, WrongEpoch
from ottla.spark.source.topics import DataLoss
from tests.spark.topics import Row, Topic


def a_reader(topic: Topic, **options: object) -> TailReader:
    given = {**topic.options, "mode": "tail", "pollWait": "200ms", "startingOffsets": "earliest"}
    given |= {name: str(value) for name, value in options.items()}
    return TailReader(parse_source_options(OptionWords(given), is_stream=True))


def stored(offsets: Json) -> Json:
    found: Json = json.loads(json.dumps(offsets))
    return found


def next_epoch(reader: TailReader, start: Json) -> Json:
    return stored(reader.latestOffset(start, reader.getDefaultReadLimit()))


def task_of(reader: TailReader, start: Json, end: Json) -> Iterator[pa.RecordBatch]:
    [partition] = reader.partitions(start, end)
    return reader.read(partition)


def rows_in(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())


def test_epochs_follow_each_other(topic: Topic) -> None:
    reader = a_reader(topic)
    at = stored(reader.initialOffset())
    assert next_epoch(reader, at) == at  # there is nothing yet
    seen = []
    for count in (3, 2):
        topic.produce(range(count))
        topic.produce(range(1), 1)
        end = next_epoch(reader, at)
        seen.append(rows_in(task_of(reader, at, end)))
        at = end
    assert seen == [[(0, 0), (0, 1), (0, 2), (1, 0)], [(0, 3), (0, 4), (1, 1)]]
    assert reader.reportLatestOffset() == {topic.name: {"0": 5, "1": 2}}


def test_an_epoch_that_is_repeated_reads_what_it_read(topic: Topic) -> None:
    topic.produce(range(3))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    first = next_epoch(reader, start)
    assert len(rows_in(task_of(reader, start, first))) == 3
    topic.produce(range(2))
    restarted = a_reader(topic)
    again = stored(restarted.initialOffset())  # Spark asks anew for the beginning of a first batch
    assert rows_in(task_of(restarted, again, first)) == [(0, 0), (0, 1), (0, 2)]
    second = next_epoch(restarted, first)
    assert rows_in(task_of(restarted, first, second)) == [(0, 3), (0, 4)]
    assert rows_in(task_of(a_reader(topic), first, second)) == [(0, 3), (0, 4)]


def test_a_first_batch_of_nothing_can_be_repeated(topic: Topic) -> None:
    begin = stored(a_reader(topic).initialOffset())
    restarted = a_reader(topic)
    assert restarted.partitions(stored(restarted.initialOffset()), begin) == []


def test_a_task_hands_on_what_comes_while_it_reads(topic: Topic) -> None:
    topic.produce(range(1))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    end = next_epoch(reader, start)
    task = task_of(reader, start, end)
    assert rows_in(iter([next(task)])) == [(0, 0)]
    assert next(task).num_rows == 0  # which pushes the row out of the worker
    topic.produce(range(2), 1)
    assert rows_in(iter([next(task)]))[0] == (1, 0)


def test_a_task_that_died_is_repeated_and_a_zombie_cannot_write_its_end(topic: Topic) -> None:
    topic.produce(range(3))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    end = next_epoch(reader, start)
    zombie = task_of(reader, start, end)
    next(zombie)
    topic.produce(range(2))
    assert rows_in(task_of(reader, start, end)) == [(0, offset) for offset in range(5)]
    topic.produce(range(2))
    with pytest.raises(Fenced):
        list(zombie)
    assert rows_in(task_of(reader, start, end)) == [(0, offset) for offset in range(5)]


def test_an_epoch_ends_in_time_even_if_records_never_do(topic: Topic) -> None:
    topic.produce(range(2000), linger_ms=0)
    reader = a_reader(topic, epoch="0ms")
    start = stored(reader.initialOffset())
    assert rows_in(task_of(reader, start, next_epoch(reader, start))) == []


def test_new_partitions_are_followed(topic: Topic) -> None:
    topic.produce(range(1))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    end = next_epoch(reader, start)
    rows_in(task_of(reader, start, end))
    topic.add_partitions(3)
    topic.produce(range(2), 2)
    assert rows_in(task_of(reader, end, next_epoch(reader, end))) == [(2, 0), (2, 1)]


def test_a_checkpoint_that_was_set_back_is_refused(topic: Topic) -> None:
    reader = a_reader(topic)
    ends = [stored(reader.initialOffset())]
    for _ in range(3):
        topic.produce(range(1))
        ends.append(next_epoch(reader, ends[-1]))
        rows_in(task_of(reader, *ends[-2:]))
    with pytest.raises(WrongEpoch, match="set back"):
        next_epoch(reader, ends[1])


def test_what_retention_took_is_data_loss(topic: Topic) -> None:
    topic.produce(range(5))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    end = next_epoch(reader, start)
    topic.delete_records({0: 3})
    with pytest.raises(DataLoss, match="begins at offset 3 now"):
        rows_in(task_of(reader, start, end))
    assert rows_in(task_of(a_reader(topic, failOnDataLoss="false"), start, end)) == [(0, 3), (0, 4)]


def test_options_that_contradict_the_mode_are_refused(topic: Topic) -> None:
    with pytest.raises(BadOption, match="maxOffsetsPerTrigger"):
        a_reader(topic, maxOffsetsPerTrigger=5)
    with pytest.raises(BadOption, match="availableNow"):
        a_reader(topic).prepareForTriggerAvailableNow()
    with pytest.raises(BadOption, match="cannot be changed"):
        next_epoch(a_reader(topic), {topic.name: {"0": 3}})


def test_an_epoch_that_another_driver_has_read_is_read_as_it_was(topic: Topic) -> None:
    """The plan of an epoch says up to where the register is known; what was written since is looked for."""
    topic.produce(range(3))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    first = next_epoch(reader, start)
    rows_in(task_of(reader, start, first))
    topic.produce(range(2))
    second = next_epoch(reader, first)
    [waiting] = reader.partitions(first, second)
    assert isinstance(waiting, EpochToRead) and waiting.begin.known_to is not None
    assert rows_in(task_of(a_reader(topic), first, second)) == [(0, 3), (0, 4)]
    topic.produce(range(1))
    assert rows_in(reader.read(waiting)) == [(0, 3), (0, 4)]


def test_a_reader_that_is_asked_about_an_epoch_before_the_last_looks_again(topic: Topic) -> None:
    topic.produce(range(1))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    first = next_epoch(reader, start)
    rows_in(task_of(reader, start, first))
    topic.produce(range(1))
    second = next_epoch(reader, first)
    rows_in(task_of(reader, first, second))
    topic.produce(range(1))
    assert next_epoch(reader, second) == next_epoch(a_reader(topic), second)
    assert rows_in(task_of(reader, first, second)) == [(0, 1)]
    assert rows_in(task_of(reader, second, next_epoch(reader, second))) == [(0, 2)]
