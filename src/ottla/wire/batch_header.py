"""The 61 bytes in front of every record batch (format v2): all that the broker reads of a batch on the hot path.

Base offset and leader epoch lie outside the CRC on purpose: a leader assigns both by overwriting twelve bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from ottla.wire.malformed import Malformed

Bytes: TypeAlias = bytes | bytearray | memoryview
WritableBytes: TypeAlias = bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and length: what `batch_length` does not count."""
BATCH_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES
CRC_FROM = 21
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""KIP-534: the base timestamp is the time from which the batch's tombstones may go."""

NO_TIMESTAMP = -1
SEQUENCE_MAX = 2**31 - 1

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_LEADER_EPOCH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 12, 16, 17, 21, 35

_unpack = _HEADER.unpack_from
_new = tuple.__new__


class UnknownMagic(Malformed):
    """Not format v2: the older formats ended with Kafka 4.0 (KIP-724), newer ones do not exist."""


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, this header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0; -1 when there is no producer."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def read_header(buf: Bytes, at: int = 0) -> BatchHeader:
    """The header at `at`, its fields unchecked but for those without which the rest means nothing."""
    if len(buf) - at < HEADER_BYTES or at < 0:
        raise _short_header(buf, at)
    header: BatchHeader = _new(BatchHeader, _unpack(buf, at))
    if header[3] != MAGIC:
        raise UnknownMagic(f"record batch of format {header[3]}; only format {MAGIC} is read")
    if header[1] < BATCH_LENGTH_MIN:
        raise Malformed(f"record batch with a length of {header[1]}, its header alone has {BATCH_LENGTH_MIN}")
    return header


def _short_header(buf: Bytes, at: int) -> Malformed:
    left = max(len(buf) - at, 0)
    if left > _MAGIC_AT and buf[at + _MAGIC_AT] < MAGIC:
        return UnknownMagic(f"message of the old format {buf[at + _MAGIC_AT]}; only format {MAGIC} is read")
    return Malformed(f"record batch header of {HEADER_BYTES} bytes where {left} are left")


def iter_headers(buf: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; a last one that is cut off is left out, as a fetch may end so."""
    at, end = 0, len(buf)
    while end - at >= HEADER_BYTES:
        header = read_header(buf, at)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size > end - at:
            return
        yield at, header
        at += size


def crc_ok(buf: Bytes, at: int, header: BatchHeader) -> bool:
    """Whether the whole batch is there and its checksum fits; nothing is copied."""
    end = at + header.batch_length + LOG_OVERHEAD_BYTES
    return end <= len(buf) and crc32c(memoryview(buf)[at + CRC_FROM : end]) == header.crc


def pack_header(header: BatchHeader) -> bytes:
    """The header as it stands: neither length nor checksum are computed."""
    return _HEADER.pack(*header)


def seal_batch(header: BatchHeader, payload: Bytes) -> bytes:
    """A whole batch around `payload` (the records, compressed if the attributes say so), with length and checksum."""
    length = BATCH_LENGTH_MIN + len(payload)
    packed = bytearray(_HEADER.pack(*header._replace(batch_length=length, magic=MAGIC, crc=0)))
    _CRC.pack_into(packed, _CRC_AT, crc32c(payload, crc32c(packed[CRC_FROM:])))
    return b"".join((packed, payload))


def seal_in_place(batch: WritableBytes, header: BatchHeader) -> None:
    """Write the header in front of the payload that already lies in `batch`, up to its end."""
    length = len(batch) - LOG_OVERHEAD_BYTES
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=length, magic=MAGIC, crc=0))
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))


def patch_offsets(buf: WritableBytes, at: int, base_offset: int, leader_epoch: int) -> None:
    """Assign a place in the log; the checksum does not cover it."""
    _OFFSET.pack_into(buf, at, base_offset)
    _EPOCH.pack_into(buf, at + _LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(buf: WritableBytes, at: int, timestamp_ms: int) -> BatchHeader:
    """Make the batch in `buf` carry the broker's time (LogAppendTime); the records stay as they are."""
    header = read_header(buf, at)
    end = at + header.size
    if end > len(buf):
        raise Malformed(f"record batch of {header.size} bytes where {len(buf) - at} are left")
    _ATTRIBUTES.pack_into(buf, at + _ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(buf, at + _MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(buf, at + _CRC_AT, crc32c(memoryview(buf)[at + CRC_FROM : end]))
    return read_header(buf, at)


def with_log_append_time(batch: Bytes, timestamp_ms: int) -> bytes:
    """A copy of `batch` that carries the broker's time."""
    copy = bytearray(batch)
    stamp_append_time(copy, 0, timestamp_ms)
    return bytes(copy)
