"""Record batches (format v2) as a whole: records in, bytes out, and back.

The broker's hot path reads headers only (`batch_header`); records are opened by tools, compaction and look-ups by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from ottla.base.limits import DECOMPRESSED_BYTES_MAX
from ottla.wire.batch_header import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    UnknownMagic,
    crc_ok,
    iter_headers,
    patch_offsets,
    read_header,
    seal_batch,
    stamp_append_time,
    with_log_append_time,
)
from ottla.wire.compression import Codec, compress, decompress
from ottla.wire.malformed import Malformed
from ottla.wire.records import Headers, RawRecord, Record, encode_records, split_records
from ottla.wire.scan import Content, scan_records

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "NO_STAMP",
    "BatchHeader",
    "Codec",
    "Headers",
    "Malformed",
    "ProducerStamp",
    "Record",
    "UnknownMagic",
    "batch_payload",
    "crc_ok",
    "decode_records",
    "encode_batch",
    "iter_headers",
    "keyless_records",
    "new_records",
    "patch_offsets",
    "read_header",
    "recompress",
    "split_batch",
    "stamp_append_time",
    "with_log_append_time",
]

_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(2**63), 2**63 - 1
_new = tuple.__new__

KEYLESS_RECORDS_NAMED_MAX = 100


class ProducerStamp(NamedTuple):
    """Who wrote a batch and which one it was; all -1 without idempotence."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False


NO_STAMP = ProducerStamp()


def new_records(pairs: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> list[Record]:
    """Records that have no place in a log yet: offsets count from 0."""
    return [Record(index, timestamp_ms, key, value) for index, (key, value) in enumerate(pairs)]


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    leader_epoch: int = -1,
    producer: ProducerStamp = NO_STAMP,
) -> bytes:
    """One batch of `records`, whose offsets rise from `base_offset` on."""
    return _encode(records, codec, _header(records, base_offset, leader_epoch, producer, 0))


def encode_control_records(
    records: Sequence[Record], *, base_offset: int = 0, leader_epoch: int = -1, producer: ProducerStamp = NO_STAMP
) -> bytes:
    """A control batch; what the keys and values say is the business of `control`."""
    return _encode(records, Codec.NONE, _header(records, base_offset, leader_epoch, producer, CONTROL))


def _encode(records: Sequence[Record], codec: int, header: BatchHeader) -> bytes:
    payload = encode_records(records, header.base_offset, header.base_timestamp)
    return seal_batch(header._replace(attributes=header.attributes | codec), compress(codec, payload))


def _header(
    records: Sequence[Record], base_offset: int, leader_epoch: int, producer: ProducerStamp, attributes: int
) -> BatchHeader:
    if not records:
        raise ValueError("a batch has at least one record")
    if not all(a.offset < b.offset for a, b in pairwise(records)):
        raise ValueError("the offsets of a batch must rise")
    if records[0].offset < base_offset:
        raise ValueError(f"offset {records[0].offset} lies in front of the base offset {base_offset}")
    return BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes | (TRANSACTIONAL if producer.is_transactional else 0),
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        record_count=len(records),
    )


def batch_payload(batch: Bytes, header: BatchHeader, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records' bytes, decompressed to `max_bytes` at most; `batch` starts with the header and may go on behind."""
    if header.size > len(batch):
        raise Malformed(f"record batch of {header.size} bytes where {len(batch)} are left")
    content = memoryview(batch)[HEADER_BYTES : header.size]
    if not content and not header.record_count:
        return b""  # what compaction left of a batch has no payload, not even a compressed one
    return decompress(header.codec, content, max_bytes)


def content_of(batch: Bytes, header: BatchHeader, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Content:
    """The same for a scan, without a copy where the batch is not compressed."""
    is_plain = header.codec == Codec.NONE and HEADER_BYTES <= header.size <= min(len(batch), HEADER_BYTES + max_bytes)
    if is_plain and isinstance(batch, bytes):
        return Content(batch, HEADER_BYTES, header.size)
    data = batch_payload(batch, header, max_bytes)
    return Content(data, 0, len(data))


def split_batch(batch: Bytes, header: BatchHeader, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[RawRecord]:
    """The batch's records one by one, not yet given offsets and timestamps; see `split_records`."""
    return split_records(batch_payload(batch, header, max_bytes), header.record_count, header.last_offset_delta)


def decode_records(batch: Bytes, max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """The records of the one batch at the start of `batch`; the checksum is the business of `crc_ok`."""
    header = read_header(batch)
    base_offset, base_timestamp, new = header.base_offset, header.base_timestamp, _new
    raws = split_batch(batch, header, max_decompressed_bytes)
    if header.is_log_append_time:
        appended_ms = header.max_timestamp
        return [new(Record, (base_offset + raw[1], appended_ms, raw[2], raw[3], raw[4])) for raw in raws]
    records: list[Record] = [
        new(Record, (base_offset + offset, base_timestamp + delta, key, value, headers))
        for delta, offset, key, value, headers, _, _ in raws
    ]
    timestamps = list(map(itemgetter(1), records))
    if timestamps and (min(timestamps) < _TIMESTAMP_MIN or max(timestamps) > _TIMESTAMP_MAX):
        raise Malformed("a timestamp that does not fit into 64 bits")
    return records


def keyless_records(
    batch: Bytes, header: BatchHeader, max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
) -> list[int]:
    """Indexes of the first records without a key, which a compacted topic refuses; Malformed if it cannot be read."""
    content = content_of(batch, header, max_decompressed_bytes)
    found: list[int] = []
    first = 0
    for part in scan_records(content, header.record_count, header.last_offset_delta):
        if None in part.keys and len(found) < KEYLESS_RECORDS_NAMED_MAX:
            found += [first + number for number, key in enumerate(part.keys) if key is None]
        first += len(part.keys)
    return found[:KEYLESS_RECORDS_NAMED_MAX]


def recompress(
    batch: Bytes, codec: int, level: int | None = None, max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The same records under another codec, for topics that say which (`compression.type`)."""
    header = read_header(batch)
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal_batch(
        header._replace(attributes=attributes),
        compress(codec, batch_payload(batch, header, max_decompressed_bytes), level),
    )
