"""Columns into records, a column at a time: each kernel measures, or puts, one column's part of every record.

Where a record's next part goes is its cursor, which a put moves on. Parts are put in the order of the record, so that
when all columns are done every record is.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import byte_at, compiled, copy_bytes, inlined, set_byte

Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

# How a number is put, or the size in front of bytes.
ZIGZAG, VARINT, FOUR, EIGHT, BYTE, NOTHING = range(6)
# How the elements of a list are: counted and with a zero behind, with their size in bytes in front, or as they are.
BLOCK, SIZED, BARE = range(3)

_ONE, _SEVEN, _EIGHT = np.uint64(1), np.uint64(7), np.uint64(8)
_LOW_BITS, _HIGH_BIT = np.uint64(0x7F), np.uint64(0x80)


@inlined
def _raw(number: Int, how: Int) -> Int:
    if how == ZIGZAG:
        return (np.uint64(number) << _ONE) ^ np.uint64(np.int64(number) >> np.int64(63))
    return np.uint64(number)


@inlined
def _number_bytes(number: Int, how: Int) -> Int:
    if how == NOTHING:
        return np.int64(0)
    if how == BYTE:
        return np.int64(1)
    if how == FOUR:
        return np.int64(4)
    if how == EIGHT:
        return np.int64(8)
    raw, size = _raw(number, how), np.int64(1)
    while raw >= _HIGH_BIT:
        raw >>= _SEVEN
        size += 1
    return size


@inlined
def _put(out: Int, at: Int, number: Int, how: Int) -> Int:
    if how == NOTHING:
        return np.int64(at)
    raw = _raw(number, how)
    if how == ZIGZAG or how == VARINT:  # noqa: SIM109 - numba is slower to compile `in`
        while raw >= _HIGH_BIT:
            set_byte(out, at, np.uint8(raw & _LOW_BITS | _HIGH_BIT))
            raw >>= _SEVEN
            at += 1
        set_byte(out, at, np.uint8(raw))
        return np.int64(at + 1)
    size = _number_bytes(number, how)
    for index in range(size):
        set_byte(out, at + index, np.uint8(raw >> np.uint64(index) * _EIGHT))
    return np.int64(at + size)


@inlined
def _tag_bytes(tag: Int) -> Int:
    """There is a tag in front of Protobuf's values; of those without it is 0."""
    return _number_bytes(tag, VARINT) if tag else np.int64(0)


@inlined
def _put_tag(out: Int, at: Int, tag: Int) -> Int:
    return _put(out, at, tag, VARINT) if tag else np.int64(at)


@compiled
def measure_numbers(values: Longs, is_live: Bytes, tag: int, how: int, skips_zero: int, sizes: Longs) -> None:
    head = _tag_bytes(np.int64(tag))
    for row in range(len(sizes)):
        if is_live[row] and not (skips_zero and values[row] == 0):
            sizes[row] += head + _number_bytes(values[row], how)


@compiled
def put_numbers(values: Longs, is_live: Bytes, tag: int, how: int, skips_zero: int, out: Bytes, cursors: Longs) -> None:
    target = np.int64(out.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row] and not (skips_zero and values[row] == 0):
            cursors[row] = _put(target, _put_tag(target, cursors[row], np.int64(tag)), values[row], how)


@compiled
def measure_blobs(bounds: Ints, is_live: Bytes, tag: int, how: int, skips_empty: int, sizes: Longs) -> None:
    head = _tag_bytes(np.int64(tag))
    for row in range(len(sizes)):
        size = np.int64(bounds[row + 1]) - np.int64(bounds[row])
        if is_live[row] and not (skips_empty and size == 0):
            sizes[row] += head + _number_bytes(size, how) + size


@compiled
def put_blobs(
    bounds: Ints, data: Bytes, is_live: Bytes, tag: int, how: int, skips_empty: int, out: Bytes, cursors: Longs
) -> None:
    target, source = np.int64(out.ctypes.data), np.int64(data.ctypes.data)
    for row in range(len(cursors)):
        start = np.int64(bounds[row])
        size = np.int64(bounds[row + 1]) - start
        if is_live[row] and not (skips_empty and size == 0):
            at = _put(target, _put_tag(target, cursors[row], np.int64(tag)), size, how)
            copy_bytes(target, at, source, start, size)
            cursors[row] = at + size


@compiled
def measure_parts(inner: Longs, is_live: Bytes, tag: int, sizes: Longs) -> None:
    """Messages inside of messages."""
    head = _tag_bytes(np.int64(tag))
    for row in range(len(sizes)):
        if is_live[row]:
            sizes[row] += head + _number_bytes(inner[row], VARINT) + inner[row]


@compiled
def put_parts(inner: Longs, is_live: Bytes, tag: int, out: Bytes, cursors: Longs, inside: Longs) -> None:
    target = np.int64(out.ctypes.data)
    for row in range(len(cursors)):
        if is_live[row]:
            at = _put(target, _put_tag(target, cursors[row], np.int64(tag)), inner[row], VARINT)
            inside[row] = at
            cursors[row] = at + inner[row]


@compiled
def spread(bounds: Longs, is_live: Bytes, elements: Bytes) -> None:
    """The elements of what is live are live."""
    for row in range(len(is_live)):
        if is_live[row]:
            for at in range(bounds[row], bounds[row + 1]):
                elements[at] = 1


@compiled
def measure_lists(
    bounds: Longs, is_live: Bytes, inner: Longs, is_bad_inside: Bytes, tag: int, how: int, sizes: Longs, is_bad: Bytes
) -> None:
    head = _tag_bytes(np.int64(tag))
    for row in range(len(sizes)):
        if not is_live[row]:
            continue
        total, count = np.int64(0), bounds[row + 1] - bounds[row]
        for at in range(bounds[row], bounds[row + 1]):
            total += inner[at]
            is_bad[row] |= is_bad_inside[at]
        if how == BLOCK:
            total += 1
        if count and how == BLOCK:
            total += _number_bytes(count, ZIGZAG)
        if count and how == SIZED:
            total += head + _number_bytes(total, VARINT)
        sizes[row] += total


@compiled
def put_lists(
    bounds: Longs, is_live: Bytes, inner: Longs, tag: int, how: int, out: Bytes, cursors: Longs, inside: Longs
) -> None:
    """What is around the elements, and where each of them goes."""
    target = np.int64(out.ctypes.data)
    for row in range(len(cursors)):
        if not is_live[row]:
            continue
        at, count = cursors[row], bounds[row + 1] - bounds[row]
        if count and how == BLOCK:
            at = _put(target, at, count, ZIGZAG)
        if count and how == SIZED:
            total = np.int64(0)
            for element in range(bounds[row], bounds[row + 1]):
                total += inner[element]
            at = _put(target, _put_tag(target, at, np.int64(tag)), total, VARINT)
        for element in range(bounds[row], bounds[row + 1]):
            inside[element] = at
            at += inner[element]
        if how == BLOCK:
            set_byte(target, at, np.uint8(0))
            at += 1
        cursors[row] = at


@inlined
def _compared(keys: Longs, sizes: Longs, data: Int, one: Int, other: Int) -> Int:
    """Below, at or above 0, in the order of Google's library: numbers fall, texts rise, but the longer is first.

    A key is a number, or with a size in `sizes` the place of a text.
    """
    if len(sizes) == 0:
        first, second = np.uint64(keys[one]), np.uint64(keys[other])
        return np.int64(second > first) - np.int64(second < first)
    for at in range(min(sizes[one], sizes[other])):
        byte, against = byte_at(data, keys[one] + at), byte_at(data, keys[other] + at)
        if byte != against:
            return np.int64(byte) - np.int64(against)
    return sizes[other] - sizes[one]


@compiled
def sort_pairs(
    bounds: Longs, is_live: Bytes, keys: Longs, sizes: Longs, data: Bytes, order: Longs, is_bad: Bytes
) -> None:
    """Order the pairs of each map by their keys, by Shell's sort. Bad are maps in which one comes twice."""
    source = np.int64(data.ctypes.data)
    for row in range(len(is_live)):
        if not is_live[row]:
            continue
        start, end, gap = bounds[row], bounds[row + 1], np.int64(1)
        while gap < (end - start) // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for at in range(start + gap, end):
                pair, to = order[at], np.int64(at)
                while to - gap >= start and _compared(keys, sizes, source, order[to - gap], pair) > 0:
                    order[to] = order[to - gap]
                    to -= gap
                order[to] = pair
            gap //= 3
        for at in range(start + 1, end):
            if _compared(keys, sizes, source, order[at - 1], order[at]) == 0:
                is_bad[row] = 1
