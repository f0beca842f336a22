"""Records of format v2 into Arrow's buffers: one pass reads the numbers, another copies keys, values and headers.

Every byte is checked to be there before it is read: the input is a stranger's, and nothing here raises an IndexError.
What `parse` has seen, the other kernels believe; they run over the same bytes and are never called without it.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import byte_at, compiled, copy_bytes, inlined

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Int: TypeAlias = Any
"""An integer of 64 bits, of Python's at the door and the machine's inside, which a checker cannot follow."""

# Columns of `segments`, one row per batch.
FROM, TO, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP, APPEND_TIMESTAMP, IS_APPEND_TIME, COUNT = range(8)
# Entries of `totals`.
ROWS, BAD_SEGMENT, NULL_KEYS, NULL_VALUES, KEY_BYTES, VALUE_BYTES = range(6)
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, NULL_HEADER_VALUES, WITHOUT_HEADERS = range(6, 11)
TOTALS = 11

_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_MICROS_MAX = np.int64((2**63 - 1) // 1000)


@inlined
def _unzigzag(raw: Int) -> Int:
    return np.int64(raw >> _ONE) ^ -np.int64(raw & _ONE)


@inlined
def _varint(data: Int, at: Int, end: Int) -> tuple[Int, Int]:
    """The number at `at` and the position behind it, which is -1 when it is not all there or longer than ten bytes."""
    raw, shift = np.uint64(0), np.uint64(0)
    for _ in range(10):
        if at >= end:
            break
        byte = byte_at(data, at)
        at += 1
        raw |= np.uint64(byte & 0x7F) << shift
        if byte < 128:
            return _unzigzag(raw), np.int64(at)
        shift += _SEVEN
    return np.int64(0), np.int64(-1)


@inlined
def _record(data: Int, at: Int, limit: Int) -> tuple[Int, Int, Int, Int, Int, Int, Int]:
    """The record at `at`: its end (-1 if it is malformed), its numbers, where its parts start and how long they are."""
    no = np.int64(-1)
    bad = (no, no, no, no, no, no, no)
    size, at = _varint(data, at, limit)
    if at < 0 or size < 1 or size > limit - at:
        return bad
    end = at + size
    timestamp, at = _varint(data, at + 1, end)  # the byte between: attributes, unused
    if at < 0:
        return bad
    delta, at = _varint(data, at, end)
    if at < 0:
        return bad
    key_size, at = _varint(data, at, end)
    if at < 0 or key_size < -1 or key_size > end - at:
        return bad
    key_at = at
    value_size, at = _varint(data, at + max(key_size, 0), end)
    if at < 0 or value_size < -1 or value_size > end - at:
        return bad
    return end, timestamp, delta, key_at, key_size, at, value_size


@inlined
def _headers(data: Int, at: Int, end: Int) -> tuple[Int, Int, Int, Int, Int]:
    """The position behind the headers at `at` (-1 if malformed), how many, the bytes of keys and values, and nulls."""
    no = np.int64(-1)
    bad = (no, no, no, no, no)
    count, at = _varint(data, at, end)
    if at < 0 or count < 0 or count > (end - at) // 2:
        return bad
    key_bytes, value_bytes, nulls = np.int64(0), np.int64(0), np.int64(0)
    for _ in range(count):
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return bad
        key_bytes += size
        size, at = _varint(data, at + size, end)
        if at < 0 or size < -1 or size > end - at:
            return bad
        nulls += size < 0
        value_bytes += max(size, 0)
        at += max(size, 0)
    return at, count, key_bytes, value_bytes, nulls


@compiled
def parse(
    data: Bytes,
    segments: Longs,
    window: tuple[int, int],
    numbers: tuple[Longs, Longs, Ints],
    places: tuple[Longs, Longs, Longs],
    bounds: tuple[Ints, Ints, Ints],
    bits: tuple[Bytes, Bytes, Bytes],
    totals: Longs,
) -> None:
    """Read the records of all segments whose offsets lie in the window [first, end).

    `numbers`: offsets, timestamps in microseconds and their types. `places`: where the row's key, value and headers
    start in `data`. `bounds`: Arrow's offsets of the three, `bits`: its bitmaps of what is there, where no headers are
    none. The arrays have room for all records that the segments claim. Ends at the first malformed segment and leaves
    its number in `totals`.
    """
    totals[BAD_SEGMENT] = -1
    for segment in range(len(segments)):
        if not _parse_segment(data.ctypes.data, segments[segment], window, numbers, places, bounds, bits, totals):
            totals[BAD_SEGMENT] = segment
            return


@inlined
def _parse_segment(
    data: Int,
    place: Longs,
    window: tuple[int, int],
    numbers: tuple[Longs, Longs, Ints],
    places: tuple[Longs, Longs, Longs],
    bounds: tuple[Ints, Ints, Ints],
    bits: tuple[Bytes, Bytes, Bytes],
    totals: Longs,
) -> bool:
    at: Int
    at, limit, previous, row = place[FROM], place[TO], np.int64(-1), totals[ROWS]
    for _ in range(place[COUNT]):
        end, timestamp, delta, key_at, key_size, value_at, value_size = _record(data, at, limit)
        header_at = value_at + max(value_size, 0)
        if end < 0 or delta <= previous or delta > place[LAST_OFFSET_DELTA] or header_at >= end:
            return False
        previous = delta
        moved = place[BASE_TIMESTAMP] + timestamp
        if place[IS_APPEND_TIME]:
            moved = place[APPEND_TIMESTAMP]
        elif ((place[BASE_TIMESTAMP] ^ moved) & (timestamp ^ moved)) < 0:
            return False  # the sum is beyond 64 bits
        at, header_count, header_key_bytes, header_value_bytes, header_nulls = _headers(data, header_at, end)
        if at != end:
            return False
        if not window[0] <= place[BASE_OFFSET] + delta < window[1]:
            continue
        numbers[0][row] = place[BASE_OFFSET] + delta
        numbers[1][row] = min(max(moved, -_MICROS_MAX), _MICROS_MAX) * 1000
        numbers[2][row] = place[IS_APPEND_TIME]
        places[0][row], places[1][row], places[2][row] = key_at, value_at, header_at
        bits[0][row >> 3] |= np.uint8(key_size >= 0) << (row & 7)
        bits[1][row >> 3] |= np.uint8(value_size >= 0) << (row & 7)
        bits[2][row >> 3] |= np.uint8(header_count > 0) << (row & 7)
        totals[NULL_KEYS] += key_size < 0
        totals[NULL_VALUES] += value_size < 0
        totals[KEY_BYTES] += max(key_size, 0)
        totals[VALUE_BYTES] += max(value_size, 0)
        totals[HEADERS] += header_count
        totals[WITHOUT_HEADERS] += header_count == 0
        totals[HEADER_KEY_BYTES] += header_key_bytes
        totals[HEADER_VALUE_BYTES] += header_value_bytes
        totals[NULL_HEADER_VALUES] += header_nulls
        row += 1
        bounds[0][row], bounds[1][row] = totals[KEY_BYTES], totals[VALUE_BYTES]
        bounds[2][row] = totals[HEADERS]
    totals[ROWS] = row
    return bool(at == limit)


@compiled
def gather(data: Bytes, places: Longs, bounds: Ints, out: Bytes) -> None:
    """Copy what starts at `places` into Arrow's form, where `bounds` says."""
    source, target = data.ctypes.data, out.ctypes.data
    for row in range(len(places)):
        copy_bytes(target, bounds[row], source, places[row], bounds[row + 1] - bounds[row])


@compiled
def gather_headers(
    data: Bytes,
    places: Longs,
    bounds: tuple[Ints, Ints],
    contents: tuple[Bytes, Bytes],
    value_bits: Bytes,
) -> None:
    """Copy the headers that start at `places`, row by row, into the two columns of Arrow's struct."""
    key_bounds, value_bounds = bounds
    source, keys, values = data.ctypes.data, contents[0].ctypes.data, contents[1].ctypes.data
    end: Int = np.int64(len(data))
    header: Int = np.int64(0)
    key_end, value_end = np.int64(0), np.int64(0)
    for row in range(len(places)):
        count, at = _varint(source, places[row], end)
        for _ in range(count):
            size, at = _varint(source, at, end)
            copy_bytes(keys, key_end, source, at, size)
            key_end += size
            size, at = _varint(source, at + size, end)
            if size >= 0:
                copy_bytes(values, value_end, source, at, size)
                value_end += size
                at += size
                value_bits[header >> 3] |= np.uint8(1 << (header & 7))
            header += 1
            key_bounds[header] = key_end
            value_bounds[header] = value_end
