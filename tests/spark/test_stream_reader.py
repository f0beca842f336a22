"""The stream reader as Spark drives it, without Spark: offsets go through JSON, readers come and go."""

import json
import threading
import time
from collections.abc import Sequence

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.spark.option_words import OptionWords
from ottla.spark.source.batch import RangesToRead
from ottla.spark.source.options import parse_source_options
from ottla.spark.source.progress import Json
from ottla.spark.source.stream import StreamReader
from ottla.spark.source.topics import DataLoss
from tests.spark.topics import Row, Topic


def a_reader(topic: Topic, **options: object) -> StreamReader:
    given = {**topic.options, "pollWait": "200ms", **{name: str(value) for name, value in options.items()}}
    return StreamReader(parse_source_options(OptionWords(given), is_stream=True))


def stored(offsets: Json) -> Json:
    found: Json = json.loads(json.dumps(offsets))
    return found


def next_end(reader: StreamReader, start: Json) -> Json:
    return stored(reader.latestOffset(start, reader.getDefaultReadLimit()))


def rows_between(reader: StreamReader, start: Json, end: Json) -> list[Row]:
    tasks: Sequence[object] = reader.partitions(start, end)
    batches = [batch for task in tasks if isinstance(task, RangesToRead) for batch in reader.read(task)]
    return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())


def test_a_first_batch_that_is_repeated_begins_where_it_began(topic: Topic) -> None:
    """Though the query starts at the latest offset, which is another one by then."""
    topic.produce(range(5))
    reader = a_reader(topic)
    start = stored(reader.initialOffset())
    topic.produce(range(3))
    end = next_end(reader, start)
    topic.produce(range(2))
    restarted = a_reader(topic)
    assert rows_between(restarted, stored(restarted.initialOffset()), end) == [(0, 5), (0, 6), (0, 7)]
    assert rows_between(restarted, end, next_end(restarted, end)) == [(0, 8), (0, 9)]


def test_offsets_stay_as_they_are_when_there_is_nothing_new(topic: Topic) -> None:
    topic.produce(range(5))
    reader = a_reader(topic, startingOffsets="earliest", group="g")
    start = stored(reader.initialOffset())
    end = next_end(reader, start)
    group = {"name": "g", "brokers": topic.bootstrap}
    assert end == {topic.name: {"0": 5, "1": 0}, "@start": {topic.name: {"0": 0, "1": 0}}, "@group": group}
    asked = time.monotonic()
    assert next_end(reader, end) == end
    assert time.monotonic() - asked > 0.15  # it waited
    topic.produce(range(1))
    assert next_end(reader, end) == {topic.name: {"0": 6, "1": 0}, "@group": group}
    assert reader.reportLatestOffset() == {topic.name: {"0": 6, "1": 0}}


def test_a_wait_ends_with_the_first_record(topic: Topic) -> None:
    reader = a_reader(topic, pollWait="20s")
    start = stored(reader.initialOffset())
    asked = time.monotonic()
    threading.Timer(0.2, topic.produce, [range(1)]).start()
    assert next_end(reader, start)[topic.name]["0"] == 1
    assert time.monotonic() - asked < 10


def test_open_transactions_are_waited_for(topic: Topic) -> None:
    producer = topic.producer(transactional_id=f"open-on-{topic.name}")
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic.name, b"open", partition=0)
    producer.flush()
    topic.produce(range(3))
    reader = a_reader(topic, startingOffsets="earliest")
    start = stored(reader.initialOffset())
    assert next_end(reader, start) == start
    producer.commit_transaction(10)
    end = next_end(reader, start)
    while end == start:
        end = next_end(reader, start)
    assert rows_between(reader, start, end) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_too_few_records_wait_for_more_but_not_for_ever(topic: Topic) -> None:
    reader = a_reader(topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="1s")
    start = stored(reader.initialOffset())
    topic.produce(range(3))
    assert next_end(reader, start) == start
    time.sleep(0.9)
    assert next_end(reader, start)[topic.name]["0"] == 3


def test_limits_of_rows_and_of_bytes_are_kept(topic: Topic) -> None:
    for partition in (0, 1):
        topic.produce((f"{number:0100}" for number in range(100)), partition)
    by_rows = a_reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    start = stored(by_rows.initialOffset())
    assert by_rows.getDefaultReadLimit() == ReadMaxRows(20)
    assert next_end(by_rows, start)[topic.name] == {"0": 10, "1": 10}
    assert by_rows.latestOffset(start, ReadAllAvailable())[topic.name] == {"0": 100, "1": 100}  # trigger once
    by_bytes = a_reader(topic, startingOffsets="earliest", maxBytesPerTrigger=5000)
    taken = sum(next_end(by_bytes, start)[topic.name].values())
    assert 20 <= taken <= 50


def test_available_now_ends_where_everything_ended_then(topic: Topic) -> None:
    topic.produce(range(5))
    reader = a_reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=3, minOffsetsPerTrigger=3)
    reader.prepareForTriggerAvailableNow()
    topic.produce(range(5))
    end = next_end(reader, stored(reader.initialOffset()))
    assert end[topic.name]["0"] == 3
    end = next_end(reader, end)
    assert end[topic.name]["0"] == 5
    assert next_end(reader, end) == end


def test_a_log_that_is_shorter_than_the_query_remembers_is_data_loss(topic: Topic) -> None:
    topic.produce(range(5))
    ahead = {topic.name: {"0": 7, "1": 0}}
    with pytest.raises(DataLoss, match=f"{topic.name}-0 ends at offset 5; the query has come to 7"):
        next_end(a_reader(topic), ahead)
    assert next_end(a_reader(topic, failOnDataLoss="false"), ahead) == {topic.name: {"0": 5, "1": 0}}


def test_a_reader_travels_without_its_connections(topic: Topic) -> None:
    from pyspark.serializers import CloudPickleSerializer

    topic.produce(range(2))
    reader = a_reader(topic, startingOffsets="earliest")
    start = stored(reader.initialOffset())
    end = next_end(reader, start)
    pickled = CloudPickleSerializer()
    copy = pickled.loads(pickled.dumps(reader))
    assert rows_between(copy, start, end) == [(0, 0), (0, 1)]
