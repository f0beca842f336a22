"""Rows go where Kafka's own clients would send them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ottla.base.types import TopicPartition
from ottla.spark.arrow import partition_kernels
from ottla.spark.arrow.columns import blobs_of
from ottla.spark.arrow.encode import Unwritable
from ottla.spark.arrow.partitioner import Partitioner

COUNTS = {"orders": 6, "clicks": 1, "bills": 3}


def rows(**columns: list[object]) -> pa.RecordBatch:
    kinds = {"key": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    return pa.record_batch({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def places(partitioner: Partitioner, batch: pa.RecordBatch, topic: str | None = None) -> list[TopicPartition]:
    placed = partitioner.place(batch, topic)
    return [placed.partitions[lane] for lane in placed.lanes.tolist()]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_keys_are_hashed_as_kafkas_clients_hash_them(keys: list[bytes]) -> None:
    found = np.empty(len(keys), np.uint32)
    partition_kernels.hashes(blobs_of(pa.array(keys, pa.binary())), found)
    assert found.tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys]


@given(st.lists(st.tuples(st.sampled_from(sorted(COUNTS)), st.binary(max_size=20)), max_size=20))
def test_a_row_with_a_key_goes_to_its_keys_partition(pairs: list[tuple[str, bytes]]) -> None:
    batch = rows(topic=[topic for topic, _ in pairs], key=[key for _, key in pairs])
    assert places(Partitioner(COUNTS), batch) == [
        (topic, (murmur2(key) & 0x7FFFFFFF) % COUNTS[topic]) for topic, key in pairs
    ]


def test_rows_without_a_key_share_a_partition_that_changes_with_every_batch() -> None:
    partitioner = Partitioner(COUNTS, first=4)
    batch = rows(key=[None, None, b"k", None])
    at = (murmur2(b"k") & 0x7FFFFFFF) % 6
    for turn in (4, 5, 0, 1):
        found = [place.partition for place in places(partitioner, batch, "orders")]
        assert found == [turn, turn, at, turn]


def test_a_partition_that_is_named_wins_over_the_key() -> None:
    batch = rows(key=[b"k", b"k", None], partition=[5, None, 2])
    hashed = (murmur2(b"k") & 0x7FFFFFFF) % 6
    assert [place.partition for place in places(Partitioner(COUNTS), batch, "orders")] == [5, hashed, 2]


def test_the_topic_that_is_named_wins_over_the_column() -> None:
    batch = rows(topic=["orders", None, "nowhere"], key=[b"k"] * 3)
    assert places(Partitioner(COUNTS), batch, "clicks") == [("clicks", 0)] * 3


@pytest.mark.parametrize(
    ("batch", "topic", "why"),
    [
        (rows(key=[b"k"]), None, "neither the option nor the column"),
        (rows(key=[b"k"]), "nowhere", "there is no topic nowhere"),
        (rows(topic=["orders", None]), None, "a row whose topic is null"),
        (rows(topic=["orders", "nowhere"]), None, "there is no topic nowhere"),
        (rows(partition=[0, 6]), "orders", "orders has no partition 6, it has 6"),
        (rows(partition=[-1]), "bills", "bills has no partition -1, it has 3"),
    ],
)
def test_rows_without_a_place_are_refused_with_the_reason(batch: pa.RecordBatch, topic: str | None, why: str) -> None:
    with pytest.raises(Unwritable, match=why):
        Partitioner(COUNTS).place(batch, topic)


def test_slices_are_placed_by_what_they_show() -> None:
    batch = rows(topic=["nowhere", "orders", "bills"], key=[None, b"a", b"b"], partition=[9, None, 2])
    found = places(Partitioner(COUNTS), batch.slice(1))
    assert found == [("orders", (murmur2(b"a") & 0x7FFFFFFF) % 6), ("bills", 2)]


def test_no_rows_need_no_place() -> None:
    assert places(Partitioner(COUNTS), rows(key=[]), "orders") == []
