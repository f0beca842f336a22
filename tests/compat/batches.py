"""Record batches made by hand, byte by byte, so that every field can be wrong on purpose."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field

import crc32c

NO_PRODUCER = -1


def zigzag(value: int) -> bytes:
    """Kafka's signed varint."""
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes(value: bytes | None) -> bytes:
    return zigzag(-1) if value is None else zigzag(len(value)) + value


def record(
    value: bytes | None,
    key: bytes | None = None,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    headers: bytes = b"\x00",
) -> bytes:
    """One record with its length; `headers` is given encoded."""
    body = b"\x00" + zigzag(timestamp_delta) + zigzag(offset_delta) + _bytes(key) + _bytes(value) + headers
    return zigzag(len(body)) + body


def records(*values: bytes | None, key: bytes | None = b"k") -> bytes:
    return b"".join(record(value, key, at) for at, value in enumerate(values))


@dataclass
class Batch:
    """A v2 batch; the fields left None are computed as they should be."""

    payload: bytes = field(default_factory=lambda: records(b"v"))
    count: int = 1
    base_offset: int = 0
    batch_length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1

    def encode(self) -> bytes:
        base_timestamp = time.time_ns() // 1_000_000 if self.base_timestamp is None else self.base_timestamp
        after_crc = (
            struct.pack(
                ">hiqqqhii",
                self.attributes,
                self.count - 1 if self.last_offset_delta is None else self.last_offset_delta,
                base_timestamp,
                base_timestamp if self.max_timestamp is None else self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            )
            + self.payload
        )
        length = 9 + len(after_crc) if self.batch_length is None else self.batch_length
        crc = crc32c.crc32c(after_crc) if self.crc is None else self.crc
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + after_crc


def batch(*values: bytes | None, key: bytes | None = b"k", **changes: int) -> bytes:
    """A good batch of these values, with any header field changed."""
    return Batch(payload=records(*values, key=key), **{"count": len(values), **changes}).encode()


@dataclass
class BatchHeader:
    """What a node stored or sent back."""

    base_offset: int
    size: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


def headers(data: bytes) -> list[BatchHeader]:
    """The whole batches in a fetch answer; a cut last one is left out, a wrong CRC fails."""
    found, at = [], 0
    while len(data) - at >= 61:
        base, length, epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
        if at + 12 + length > len(data):
            break
        assert magic == 2
        assert crc == crc32c.crc32c(data[at + 21 : at + 12 + length]), f"wrong CRC at byte {at}"
        found.append(BatchHeader(base, length + 12, epoch, *struct.unpack_from(">hiqqqhii", data, at + 21)))
        at += 12 + length
    return found
