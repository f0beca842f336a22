"""The records inside a batch, once decompressed: varints and slices, read and written in plain Python.

One byte holds most of a record's numbers, so that case is decided in line; everything else goes to a function.
Checks come in the end: a slice never reaches past the data, and a record must end exactly where its length said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ottla.wire.malformed import Malformed

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
RawRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers, int, int]
"""Timestamp delta, offset delta, key, value, headers, and where the record starts and ends (its length included)."""

RECORD_BYTES_MIN = 7
"""The length and six fields of one byte each: n records take at least 7 n bytes."""
_HEADER_BYTES_MIN = 2
_VARINT_BYTES_MAX = 10
_UINT64_MAX = 2**64 - 1


class Record(NamedTuple):
    """A record as a client knows it; `timestamp` in milliseconds, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def split_records(data: bytes, count: int, last_offset_delta: int) -> Iterator[RawRecord]:
    """The records of a batch's decompressed content, one by one, since a small batch may hold millions.

    Raises Malformed, in the end at the latest, unless they fill the data exactly. Offset deltas must rise and stay
    within the batch; `data` must be bytes, which index faster than memoryviews.
    """
    if not 0 <= count <= len(data) // RECORD_BYTES_MIN:
        raise Malformed(f"a count of {count} records in {len(data)} bytes")
    at, previous = 0, -1
    try:
        for _ in range(count):
            record = _split_record(data, at)
            delta = record[1]
            if not previous < delta <= last_offset_delta:
                raise Malformed(
                    f"an offset delta of {delta} behind {previous} in a batch that ends at {last_offset_delta}"
                )
            previous, at = delta, record[6]
            yield record
    except IndexError:
        raise Malformed(f"the records end early, at byte {len(data)}") from None
    if at != len(data):
        raise Malformed(f"{len(data) - at} bytes behind the last record")


def _split_record(data: bytes, start: int) -> RawRecord:
    """The record at `start`; IndexError when the data end first."""
    length, at = data[start], start + 1
    if length > 127:
        length, at = wide_varint(data, start)
    end = at + (length >> 1)  # zigzag: positive numbers are even
    if length & 1 or end > len(data):
        raise Malformed(f"a record length of {_unzigzag(length)} where {len(data) - at} bytes are left")
    timestamp_delta, at = data[at + 1], at + 2  # the byte before it: attributes, unused
    if timestamp_delta > 127:
        timestamp_delta, at = wide_varint(data, at - 1)
    offset_delta, at = data[at], at + 1
    if offset_delta > 127:
        offset_delta, at = wide_varint(data, at - 1)
    size, at = data[at], at + 1
    if size > 127:
        size, at = wide_varint(data, at - 1)
    if size & 1:
        key = None
        _check_null(size)
    else:
        key = data[at : at + (size >> 1)]
        at += size >> 1
    size, at = data[at], at + 1
    if size > 127:
        size, at = wide_varint(data, at - 1)
    if size & 1:
        value = None
        _check_null(size)
    else:
        value = data[at : at + (size >> 1)]
        at += size >> 1
    header_count, at = data[at], at + 1
    headers: Headers = ()
    if header_count:
        headers, at = split_headers(data, at - 1, end)
    if at != end:
        raise Malformed(f"a record of {length >> 1} bytes whose fields take {at - end:+d} to that")
    timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
    offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
    return timestamp_delta, offset_delta, key, value, headers, start, end


def split_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = _varint(data, at)
    if not 0 <= count <= (end - at) // _HEADER_BYTES_MIN:
        raise Malformed(f"a count of {count} headers in {end - at} bytes")
    headers = []
    for _ in range(count):
        size, at = _varint(data, at)
        if not 0 <= size <= end - at:
            raise Malformed(f"a header key of {size} bytes where {end - at} are left")
        name = data[at : at + size]
        size, at = _varint(data, at + size)
        if not -1 <= size <= end - at:
            raise Malformed(f"a header value of {size} bytes where {end - at} are left")
        value = None if size < 0 else data[at : at + size]
        at += max(size, 0)
        headers.append((_text(name), value))
    return tuple(headers), at


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("a header key that is not UTF-8") from None


def _check_null(size: int) -> None:
    """-1 means null; every other negative length is a fault."""
    if size != 1:
        raise Malformed(f"a key or value of {_unzigzag(size)} bytes")


def _unzigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw, at = wide_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def wide_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at`, before zigzag, and the position behind it."""
    low = data[at]
    if low <= 127:
        return low, at + 1
    high = data[at + 1]
    if high <= 127:
        return low & 0x7F | high << 7, at + 2
    raw, shift = 0, 0
    while data[at] > 127:
        raw |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise Malformed(f"a varint of more than {_VARINT_BYTES_MAX} bytes")
    return (raw | data[at] << shift) & _UINT64_MAX, at + 1


def encode_varint(value: int) -> bytes:
    """Zigzag, then seven bits a byte, low ones first."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw < 0x4000:
        return bytes((raw & 0x7F | 0x80, raw >> 7))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    key, value, headers = record.key, record.value, record.headers
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts += (b"\x01",) if key is None else (encode_varint(len(key)), key)
    parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        raw = name.encode("utf-8")
        parts += (encode_varint(len(raw)), raw)
        parts += (b"\x01",) if content is None else (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def rebase_timestamp(record: bytes, timestamp_delta: int) -> bytes:
    """A whole record with another timestamp delta, all else copied."""
    _, at = wide_varint(record, 0)
    _, rest_at = wide_varint(record, at + 1)
    body = record[at : at + 1] + encode_varint(timestamp_delta) + record[rest_at:]
    return encode_varint(len(body)) + body


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    return b"".join(
        [encode_record(record, record.offset - base_offset, record.timestamp - base_timestamp) for record in records]
    )


_ONE_BYTE = [bytes((raw,)) for raw in range(128)]
