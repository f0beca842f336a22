"""Rows into records of format v2: one pass measures them and cuts batches, another writes them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.columns import Bits, Blobs, Lists
from ottla.spark.arrow.compiled import byte_at, compiled, copy_bytes, inlined, int_at, set_byte

Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Int: TypeAlias = Any
"""An integer of 64 bits, of Python's at the door and the machine's inside, which a checker cannot follow."""

# Columns of the table of batches.
LANE, FIRST, COUNT, PAYLOAD_BYTES, BASE_TIMESTAMP, MAX_TIMESTAMP, BATCH_COLUMNS = range(7)
HEADER_BYTES = 61

_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_LOW_BITS = np.uint64(0x7F)
_HIGH_BIT = np.uint64(0x80)


@inlined
def _zigzag(number: Int) -> Int:
    return (np.uint64(number) << _ONE) ^ np.uint64(np.int64(number) >> np.int64(63))


@inlined
def _varint_bytes(number: Int) -> Int:
    raw, size = _zigzag(number), np.int64(1)
    while raw >= _HIGH_BIT:
        raw >>= _SEVEN
        size += 1
    return size


@inlined
def _put_varint(out: Int, at: Int, number: Int) -> Int:
    raw = _zigzag(number)
    while raw >= _HIGH_BIT:
        set_byte(out, at, np.uint8(raw & _LOW_BITS | _HIGH_BIT))
        raw >>= _SEVEN
        at += 1
    set_byte(out, at, np.uint8(raw))
    return at + 1


@inlined
def _places(blobs: Blobs) -> Int:
    """The addresses of a column, since to hand arrays on costs numba a count of references for every row."""
    data = np.int64(blobs.data.ctypes.data)
    return np.int64(blobs.bounds.ctypes.data), _bitmap(blobs.bits), np.int64(blobs.bits.first), data


@inlined
def _bitmap(bits: Bits) -> Int:
    if len(bits.bytes):
        return np.int64(bits.bytes.ctypes.data)
    return np.int64(0)


@inlined
def _is_there(bitmap: Int, bit: Int) -> Int:
    return bitmap == 0 or (byte_at(bitmap, bit >> 3) >> np.uint8(bit & 7)) & 1 != 0


@inlined
def _blob_bytes(column: Int, row: Int) -> Int:
    """The size of a value with its length in front."""
    bounds, bitmap, first, _ = column
    if not _is_there(bitmap, first + row):
        return np.int64(1)
    size = int_at(bounds, row + 1) - int_at(bounds, row)
    return _varint_bytes(size) + size


@inlined
def _put_blob(out: Int, at: Int, column: Int, row: Int) -> Int:
    bounds, bitmap, first, data = column
    if not _is_there(bitmap, first + row):
        set_byte(out, at, np.uint8(1))  # -1
        return at + 1
    start = int_at(bounds, row)
    size = int_at(bounds, row + 1) - start
    at = _put_varint(out, at, size)
    copy_bytes(out, at, data, start, size)
    return at + size


@compiled
def measure(keys: Blobs, values: Blobs, lists: Lists, names: Blobs, contents: Blobs, sizes: Longs) -> None:
    """The bytes of each row's record, but for its length and the two numbers that depend on its batch."""
    key_places, value_places, name_places, content_places = (
        _places(keys),
        _places(values),
        _places(names),
        _places(contents),
    )
    bounds, bitmap, first_bit = lists.bounds, _bitmap(lists.bits), lists.bits.first
    for row in range(len(sizes)):
        header, end = np.int64(bounds[row]), np.int64(bounds[row + 1])
        if not _is_there(bitmap, first_bit + row):
            header = end
        size = 1 + _blob_bytes(key_places, row) + _blob_bytes(value_places, row) + _varint_bytes(end - header)
        while header < end:
            size += _blob_bytes(name_places, header) + _blob_bytes(content_places, header)
            header += 1
        sizes[row] = size


@compiled
def sort_by_lane(lanes: Ints, ends: Longs, order: Longs) -> None:
    """The rows of lane 0 in their order, then those of lane 1 …; `ends` comes in as zeros."""
    for row in range(len(lanes)):
        ends[lanes[row]] += 1
    total = np.int64(0)
    for lane in range(len(ends)):
        count = ends[lane]
        ends[lane] = total
        total += count
    for row in range(len(lanes)):
        order[ends[lanes[row]]] = row
        ends[lanes[row]] += 1


@compiled
def cut(order: Longs, ends: Longs, sizes: Longs, timestamps: Longs, bytes_max: int, batches: Longs) -> int:
    """Cut the rows of each lane into batches of at most `bytes_max`, larger only for a single record; how many.

    Afterwards `sizes` are those of the records' bodies, complete.
    """
    batch, index = np.int64(-1), np.int64(0)
    first, base, payload, latest = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for lane in range(len(ends)):
        is_open = False
        while index < ends[lane]:
            row = order[index]
            timestamp = timestamps[row]
            body = sizes[row] + _varint_bytes(index - first) + _varint_bytes(timestamp - base)
            size = body + _varint_bytes(body)
            if not is_open or HEADER_BYTES + payload + size > bytes_max:
                is_open = True
                batch += 1
                first, base, payload, latest = index, timestamp, np.int64(0), timestamp
                batches[batch, LANE], batches[batch, FIRST], batches[batch, BASE_TIMESTAMP] = lane, first, base
                body = sizes[row] + 2
                size = body + _varint_bytes(body)
            sizes[row] = body
            payload += size
            latest = max(latest, timestamp)
            index += 1
            batches[batch, COUNT] = index - first
            batches[batch, PAYLOAD_BYTES], batches[batch, MAX_TIMESTAMP] = payload, latest
    return int(batch + 1)


@compiled
def write(
    plan: tuple[Longs, Longs, Longs, Longs],
    keys: Blobs,
    values: Blobs,
    lists: Lists,
    names: Blobs,
    contents: Blobs,
    target: Bytes,
) -> None:
    """Write the records of all batches, each behind room for its header. `plan`: batches, order, sizes, timestamps."""
    batches, order, sizes, timestamps = plan
    out, at = np.int64(target.ctypes.data), np.int64(0)
    key_places, value_places, name_places, content_places = (
        _places(keys),
        _places(values),
        _places(names),
        _places(contents),
    )
    bounds, bitmap, first_bit = lists.bounds, _bitmap(lists.bits), lists.bits.first
    for batch in range(len(batches)):
        at += HEADER_BYTES
        first, base = batches[batch, FIRST], batches[batch, BASE_TIMESTAMP]
        for index in range(first, first + batches[batch, COUNT]):
            row = order[index]
            at = _put_varint(out, at, sizes[row])
            set_byte(out, at, np.uint8(0))
            at = _put_varint(out, at + 1, timestamps[row] - base)
            at = _put_varint(out, at, index - first)
            at = _put_blob(out, at, key_places, row)
            at = _put_blob(out, at, value_places, row)
            header, end = np.int64(bounds[row]), np.int64(bounds[row + 1])
            if not _is_there(bitmap, first_bit + row):
                header = end
            at = _put_varint(out, at, end - header)
            while header < end:
                at = _put_blob(out, at, name_places, header)
                at = _put_blob(out, at, content_places, header)
                header += 1
