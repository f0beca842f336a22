"""Rows into record batches, ready to be produced: a fixed amount of Python per batch of the log, never per record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.base.types import TopicPartition
from ottla.spark.arrow import encode_kernels as kernels
from ottla.spark.arrow.columns import Blobs, Lists, bits_of, blobs_of, frozen, no_blobs
from ottla.spark.arrow.schema import HEADERS_TYPE
from ottla.wire.batch import NO_STAMP, ProducerStamp
from ottla.wire.batch_header import (
    HEADER_BYTES,
    MAGIC,
    SEQUENCE_MAX,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    seal_batch,
    seal_in_place,
)
from ottla.wire.compression import Codec, compress

BATCH_BYTES_MAX = 1_000_000
"""A little less than the brokers' own `max.message.bytes`."""


class Unwritable(ValueError):
    """Rows that cannot become records; the text says why."""


@dataclass(frozen=True, slots=True)
class Placed:
    """For every row the index of its partition among `partitions`."""

    lanes: NDArray[np.int32]
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One batch with offsets from 0 on, as brokers take it. `content` is a piece of a buffer shared by its siblings."""

    partition: TopicPartition
    content: Bytes
    record_count: int
    base_sequence: int


@dataclass(slots=True)
class RecordEncoder:
    """Makes batches of rows, for one producer. `stamp.base_sequence` is that of its first batch in each partition."""

    codec: int = Codec.NONE
    level: int | None = None
    batch_bytes_max: int = BATCH_BYTES_MAX
    stamp: ProducerStamp = NO_STAMP
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def encode(self, rows: pa.RecordBatch, placed: Placed, now_ms: int) -> list[EncodedBatch]:
        """The rows' records by partition, in the order of the rows.

        Of the columns `key`, `value`, `headers` and `timestamp` any may be missing; a row without a time gets `now_ms`.
        Batches hold `batch_bytes_max` at most before compression, and larger ones a single record.
        """
        if not rows.num_rows:
            return []
        lanes = placed.lanes
        if len(lanes) != rows.num_rows or not 0 <= lanes.min() <= lanes.max() < len(placed.partitions):
            raise ValueError("every row needs one of the partitions")
        columns = _columns(rows)
        timestamps = _timestamps(rows, now_ms)
        sizes = np.empty(rows.num_rows, np.int64)
        kernels.measure(*columns, sizes)
        order, ends = np.empty(rows.num_rows, np.int64), np.zeros(len(placed.partitions), np.int64)
        kernels.sort_by_lane(frozen(lanes), ends, order)
        table = np.empty((rows.num_rows, kernels.BATCH_COLUMNS), np.int64)
        count = kernels.cut(order, ends, sizes, timestamps, self.batch_bytes_max, table)
        batches = table[:count]
        buffer: Any = np.empty(int(batches[:, kernels.PAYLOAD_BYTES].sum()) + count * HEADER_BYTES, np.uint8)
        kernels.write((batches, order, sizes, timestamps), *columns, buffer)
        return list(self._sealed(batches, memoryview(buffer), placed.partitions))

    def _sealed(
        self, batches: NDArray[np.int64], buffer: memoryview, partitions: Sequence[TopicPartition]
    ) -> Iterator[EncodedBatch]:
        at = 0
        for lane, _, count, payload_bytes, base_timestamp, max_timestamp in batches.tolist():
            sequence = self._next_sequence(partitions[lane], count)
            header = self._header(count, base_timestamp, max_timestamp, sequence)
            end = at + HEADER_BYTES + payload_bytes
            content: Bytes | None = self._compressed(header, buffer[at + HEADER_BYTES : end])
            if content is None:
                content = plain = buffer[at:end]
                seal_in_place(plain, header)
            yield EncodedBatch(partitions[lane], content, count, sequence)
            at = end

    def _compressed(self, header: BatchHeader, payload: memoryview) -> bytes | None:
        """None where that gains nothing: then the batch keeps within its limit by staying as it is."""
        if self.codec == Codec.NONE:
            return None
        small = compress(self.codec, payload, self.level)
        if len(small) >= len(payload):
            return None
        return seal_batch(header._replace(attributes=header.attributes | self.codec), small)

    def _header(self, count: int, base_timestamp: int, max_timestamp: int, sequence: int) -> BatchHeader:
        return BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL if self.stamp.is_transactional else 0,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=self.stamp.producer_id,
            producer_epoch=self.stamp.producer_epoch,
            base_sequence=sequence,
            record_count=count,
        )

    def _next_sequence(self, partition: TopicPartition, count: int) -> int:
        if self.stamp.producer_id < 0:
            return -1
        sequence = self._sequences.get(partition, max(self.stamp.base_sequence, 0))
        self._sequences[partition] = (sequence + count) & SEQUENCE_MAX  # sequences wrap to 0
        return sequence


def _columns(rows: pa.RecordBatch) -> tuple[Blobs, Blobs, Lists, Blobs, Blobs]:
    """Keys, values, and headers: the lists, their names and contents."""
    names = rows.schema.names
    keys, values = (
        blobs_of(rows.column(name)) if name in names else no_blobs(rows.num_rows) for name in ("key", "value")
    )
    if "headers" not in names:
        return keys, values, Lists(frozen(np.zeros(rows.num_rows + 1, np.int32)), no_blobs(0).bits), *_NO_HEADERS
    return keys, values, *_headers(rows.column("headers"))


def _headers(column: pa.Array) -> tuple[Lists, Blobs, Blobs]:
    if column.type != HEADERS_TYPE:
        column = column.cast(HEADERS_TYPE)
    pairs = column.values
    if pairs.null_count or pairs.field(0).null_count:  # it may be in what no row refers to
        seen = column.flatten()
        if seen.null_count or seen.field(0).null_count:
            raise Unwritable("a header without a name")
    lists = Lists(frozen(column.offsets.to_numpy()), bits_of(column))
    return lists, blobs_of(pairs.field(0)), blobs_of(pairs.field(1))


def _timestamps(rows: pa.RecordBatch, now_ms: int) -> NDArray[np.int64]:
    """In milliseconds, rounded down: the connector does so."""
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    column = rows.column("timestamp")
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz))
    micros = column.cast(pa.int64()).fill_null(now_ms * 1000)
    found: NDArray[np.int64] = np.floor_divide(micros.to_numpy(zero_copy_only=False), 1000)
    return found


_NO_HEADERS = (no_blobs(0), no_blobs(0))
