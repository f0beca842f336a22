"""Rows become batches that plain Python reads back, cut where the limit says, under the producer's name."""

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.arrow.encode import EncodedBatch, Placed, RecordEncoder, Unwritable
from ottla.spark.arrow.schema import HEADERS_TYPE, TIMESTAMP_TYPE
from ottla.wire.batch import Codec, ProducerStamp, Record, crc_ok, decode_records, read_header
from ottla.wire.produced import check_produced
from tests.unit.spark.arrow.fetches import EPOCH, NOW

PARTITIONS = [TopicPartition(TopicName(topic), partition) for topic in ("a", "b") for partition in range(3)]

_blobs = st.none() | st.binary(max_size=200)
_headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=9)}), max_size=3
)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": _blobs,
            "value": _blobs,
            "headers": _headers,
            "timestamp": st.none() | st.integers(0, 10**6).map(lambda ms: EPOCH + timedelta(milliseconds=NOW + ms)),
            "lane": st.integers(0, len(PARTITIONS) - 1),
        }
    ),
    max_size=40,
)
Row = dict[str, Any]


def table(rows: list[Row], *, text: bool = False, large: bool = False) -> pa.RecordBatch:
    kind = {(False, False): pa.binary(), (False, True): pa.large_binary()}.get((text, large), pa.string())
    schema = pa.schema([("key", kind), ("value", kind), ("headers", HEADERS_TYPE), ("timestamp", TIMESTAMP_TYPE)])
    return pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def placed(rows: list[Row]) -> Placed:
    return Placed(np.array([row["lane"] for row in rows], np.int32), PARTITIONS)


def read_back(batches: list[EncodedBatch]) -> dict[TopicPartition, list[Record]]:
    found = defaultdict(list)
    for batch in batches:
        header = check_produced(batch.content)  # what a broker looks at
        assert crc_ok(batch.content, 0, header)
        records = decode_records(batch.content)
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert [record.offset for record in records] == list(range(batch.record_count))
        found[batch.partition] += records
    return dict(found)


def expected(rows: list[Row], now_ms: int) -> dict[TopicPartition, list[tuple[Any, ...]]]:
    found = defaultdict(list)
    for row in rows:
        timestamp = now_ms if row["timestamp"] is None else (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        found[PARTITIONS[row["lane"]]].append((timestamp, row["key"], row["value"], headers))
    return dict(found)


def without_offsets(found: dict[TopicPartition, list[Record]]) -> dict[TopicPartition, list[tuple[Any, ...]]]:
    return {partition: [tuple(record[1:]) for record in records] for partition, records in found.items()}


@given(_rows, st.sampled_from(Codec), st.integers(100, 2000))
def test_rows_come_back_from_their_partitions_in_order(rows: list[Row], codec: int, bytes_max: int) -> None:
    batches = RecordEncoder(codec, batch_bytes_max=bytes_max).encode(table(rows), placed(rows), NOW)
    assert without_offsets(read_back(batches)) == expected(rows, NOW)
    assert all(len(batch.content) <= bytes_max or batch.record_count == 1 for batch in batches)


@given(_rows, st.data())
def test_slices_are_written_as_what_they_show(rows: list[Row], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - first))
    part = rows[first : first + count]
    batches = RecordEncoder().encode(table(rows).slice(first, count), placed(part), NOW)
    assert without_offsets(read_back(batches)) == expected(part, NOW)


@given(_rows)
def test_batches_are_as_full_as_the_limit_allows(rows: list[Row]) -> None:
    one_lane = [row | {"lane": 0} for row in rows]
    batches = RecordEncoder(batch_bytes_max=600).encode(table(one_lane), placed(one_lane), NOW)
    for batch, following in pairwise(batches):
        alone = [row | {"lane": 0} for row in one_lane[: batch.record_count + 1]]
        del one_lane[: batch.record_count]
        assert following.record_count
        (larger, *_) = RecordEncoder(batch_bytes_max=10**6).encode(table(alone), placed(alone), NOW)
        assert len(larger.content) > 600


def test_columns_may_be_missing() -> None:
    rows = pa.record_batch({"value": pa.array([b"a", b"b"])})
    (batch,) = RecordEncoder().encode(rows, Placed(np.zeros(2, np.int32), PARTITIONS), NOW)
    assert decode_records(batch.content) == [Record(0, NOW, None, b"a"), Record(1, NOW, None, b"b")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary(2), pa.binary_view()])
def test_strings_and_bytes_of_every_kind_are_taken(kind: pa.DataType) -> None:
    values = pa.array([b"ab", None, b"cd"], pa.binary()).cast(kind)
    rows = pa.record_batch({"value": values, "key": pa.nulls(3)})
    (batch,) = RecordEncoder().encode(rows, Placed(np.zeros(3, np.int32), PARTITIONS), NOW)
    assert [record.value for record in decode_records(batch.content)] == [b"ab", None, b"cd"]


def test_times_are_rounded_down_to_milliseconds() -> None:
    micros = pa.array([1_999, -1, None], pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"value": pa.array([b"v"] * 3), "timestamp": micros})
    (batch,) = RecordEncoder().encode(rows, Placed(np.zeros(3, np.int32), PARTITIONS), NOW)
    assert [record.timestamp for record in decode_records(batch.content)] == [1, -1, NOW]


def test_each_partition_counts_its_own_sequence_from_batch_to_batch() -> None:
    encoder = RecordEncoder(batch_bytes_max=150, stamp=ProducerStamp(7, 3, 0, is_transactional=True))
    rows = [
        {"key": None, "value": bytes(50), "headers": None, "timestamp": None, "lane": lane} for lane in (0, 1, 0, 0)
    ]
    seen = []
    for _ in range(2):
        for batch in encoder.encode(table(rows), placed(rows), NOW):
            header = read_header(batch.content)
            assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 3, True)
            assert header.base_sequence == batch.base_sequence
            seen.append((batch.partition.partition, batch.base_sequence, batch.record_count))
    assert seen == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (1, 0, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1), (1, 1, 1)]


def test_sequences_wrap() -> None:
    encoder = RecordEncoder(stamp=ProducerStamp(7, 3, 2**31 - 2))
    rows = [{"key": None, "value": b"v", "headers": None, "timestamp": None, "lane": 0}] * 3
    firsts = [encoder.encode(table(rows), placed(rows), NOW)[0].base_sequence for _ in range(2)]
    assert firsts == [2**31 - 2, 1]


def test_a_batch_that_compression_would_make_larger_stays_as_it_is() -> None:
    noise = np.random.default_rng(5).bytes(900)
    rows = [{"key": None, "value": noise, "headers": None, "timestamp": None, "lane": 0}]
    (batch,) = RecordEncoder(Codec.GZIP, batch_bytes_max=1000).encode(table(rows), placed(rows), NOW)
    assert read_header(batch.content).codec == Codec.NONE
    assert len(batch.content) <= 1000


def test_a_header_without_a_name_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"v"}]], HEADERS_TYPE)
    rows = pa.record_batch({"value": pa.array([b"v"]), "headers": headers})
    with pytest.raises(Unwritable, match="a header without a name"):
        RecordEncoder().encode(rows, Placed(np.zeros(1, np.int32), PARTITIONS), NOW)


def test_what_was_read_can_be_written_as_it_is() -> None:
    from ottla.spark.arrow.decode import RecordDecoder
    from ottla.spark.arrow.schema import COLUMNS
    from ottla.spark.arrow.visible import Fetched
    from ottla.wire.batch import encode_batch

    records = [Record(i, NOW + i, b"k%d" % i, None if i == 2 else b"v", (("h", None),)) for i in range(5)]
    fetched = Fetched("a", 1, encode_batch(records))
    (rows,) = RecordDecoder(COLUMNS).decode(fetched).batches
    (batch,) = RecordEncoder().encode(rows, Placed(np.full(5, 1, np.int32), PARTITIONS), 0)
    assert decode_records(batch.content) == records


@pytest.mark.parametrize("lanes", [[0], [0, 6], [-1, 0]])
def test_rows_without_one_of_the_partitions_are_a_mistake(lanes: list[int]) -> None:
    rows = pa.record_batch({"value": pa.array([b"a", b"b"])})
    with pytest.raises(ValueError, match="every row needs one of the partitions"):
        RecordEncoder().encode(rows, Placed(np.array(lanes, np.int32), PARTITIONS), NOW)
