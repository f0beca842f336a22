"""Records looked at without being taken apart: their keys, or where they lie; values are stepped over.

Compaction asks this of every record of a log, and Produce of every record for a compacted topic, so it is one loop
without a call in it: a number of one or two bytes, which nearly all of them are, is read in line. The records come in
parts, so that a batch of millions is never held, and so that others get a turn in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.wire.malformed import Malformed
from ottla.wire.records import RECORD_BYTES_MIN, split_headers, wide_varint

RECORDS_PER_PART = 256


class Part(NamedTuple):
    """Neighbouring records of a batch, column by column."""

    keys: list[bytes | None]
    deltas: list[int]
    """Offset deltas."""
    end: int
    """Where the last one ends."""
    nulls: list[int]
    """Numbers, within this part, of the records without a value: tombstones."""


class Content(NamedTuple):
    """A batch's records, decompressed: a part of `data`, which need not be copied for that."""

    data: bytes
    begin: int
    end: int


def scan_records(content: Content, count: int, last_offset_delta: int) -> Iterator[Part]:
    """The records of a batch; as strict as `split_records`.

    Raises Malformed, in the end at the latest, unless they fill the data exactly: what came before means nothing then.
    """
    at, end = content.begin, content.end
    if not 0 <= count <= (end - at) // RECORD_BYTES_MIN:
        raise Malformed(f"a count of {count} records in {end - at} bytes")
    previous = -1
    for first in range(0, count, RECORDS_PER_PART):
        try:
            part = _scan(content, at, min(RECORDS_PER_PART, count - first), previous)
        except IndexError:
            raise Malformed(f"the records end early, at byte {end}") from None
        at, previous = part.end, part.deltas[-1]
        if previous > last_offset_delta:
            raise Malformed(f"an offset delta of {previous} in a batch that ends at {last_offset_delta}")
        yield part
    if at != end:
        raise Malformed(f"{end - at} bytes behind the last record")


def record_bounds(content: Content, count: int) -> list[int]:
    """Where the first `count` records begin, and where the last of them ends; of content that was scanned before."""
    data, at = content.data, content.begin
    bounds = [at]
    for _ in range(count):
        size, at = data[at], at + 1
        if size > 127:
            if (high := data[at]) <= 127:
                size, at = size & 127 | high << 7, at + 1
            else:
                size, at = wide_varint(data, at - 1)
        at += size >> 1
        bounds.append(at)
    return bounds


def _scan(content: Content, at: int, count: int, previous: int) -> Part:
    """`count` records from `at` on; IndexError when the data end first."""
    data, data_end = content.data, content.end
    keys: list[bytes | None] = []
    deltas: list[int] = []
    nulls: list[int] = []
    for _ in range(count):
        size, at = data[at], at + 1
        if size > 127:
            if (high := data[at]) <= 127:
                size, at = size & 127 | high << 7, at + 1
            else:
                size, at = wide_varint(data, at - 1)
        end = at + (size >> 1)  # zigzag: positive numbers are even
        if size & 1 or end > data_end:
            raise Malformed(f"a record that does not fit into the {data_end - at} bytes that are left")
        if data[at + 1] <= 127:  # the timestamp; the byte before it: attributes, unused
            at += 2
        else:
            at = at + 3 if data[at + 2] <= 127 else wide_varint(data, at + 1)[1]
        delta, at = data[at], at + 1
        if delta > 127:
            if (high := data[at]) <= 127:
                delta, at = delta & 127 | high << 7, at + 1
            else:
                delta, at = wide_varint(data, at - 1)
        if delta & 1 or (delta := delta >> 1) <= previous:
            raise Malformed(f"an offset delta that does not rise above {previous}")
        previous = delta
        deltas.append(delta)
        size, at = data[at], at + 1
        if size > 127:
            size, at = wide_varint(data, at - 1)
        if size & 1:
            keys.append(None)
            _check_null(size)
        else:
            key_at, at = at, at + (size >> 1)
            keys.append(data[key_at:at])
        size, at = data[at], at + 1
        if size > 127:
            if (high := data[at]) <= 127:
                size, at = size & 127 | high << 7, at + 1
            else:
                size, at = wide_varint(data, at - 1)
        if size & 1:
            nulls.append(len(keys) - 1)
            _check_null(size)
        else:
            at += size >> 1
        if data[at]:  # headers
            _, at = split_headers(data, at, end)
        else:
            at += 1
        if at != end:
            raise Malformed(f"a record whose fields take {at - end:+d} bytes to its length")
    return Part(keys, deltas, at, nulls)


def timestamp_delta(data: bytes, start: int) -> int:
    """The timestamp of the record that begins at `start`, which has been scanned before."""
    at = wide_varint(data, start)[1]
    raw = wide_varint(data, at + 1)[0]
    return (raw >> 1) ^ -(raw & 1)


def _check_null(size: int) -> None:
    """-1 means null; every other negative length is a fault."""
    if size != 1:
        raise Malformed("a key or value of a negative length")
