"""Avro's records into cells: a program is run for every row.

Every byte is checked to be there before it is read, and no count is believed: elements are counted as they come, and
each takes bytes. Whatever is out of the ordinary makes the row a doubtful one, for a slower reader to judge.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import (
    byte_at,
    compiled,
    inlined,
    int_at,
    long_at,
    number_at,
    set_byte,
    set_int,
    set_number,
)
from ottla.spark.formats.cells import Cells, Places

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

# Steps. Those of UNION take one row more for every branch, of which TARGET is where it goes on.
RECORD, UNION, JUMP, LIST, NEXT, LONG, FLOATING, BOOLEAN, STRING, BYTES, FIXED, DECIMAL, STOP = range(13)
# What a row of a program says: the step, its column, where it goes on, two numbers, and the column of a map's keys.
STEP, COLUMN, TARGET, LEAST, MOST, KEYS, PROGRAM_COLUMNS = range(7)
# UNION has its number of branches in LEAST; LIST and NEXT the level of their elements. LONG has LEAST and MOST as they
# are meant, FIXED the size in LEAST; DECIMAL the size, or -1, in LEAST, and a row more with the first number too large.
ALL_DONE = 0
PAIRS_MAX = 64
"""Of a map: with more, to look for keys that come twice would take too long here."""
DECIMAL_BYTES = 16

_ONE = np.uint64(1)
_NOT_ASCII = -0x7F7F7F7F7F7F7F80
_GOOD, _BAD, _FULL = range(3)


@inlined
def _varint(data: Int, at: Int, end: Int) -> tuple[Int, Int]:
    raw, shift = np.uint64(0), np.uint64(0)
    for index in range(10):
        if at >= end:
            break
        byte = byte_at(data, at)
        if index == 9 and byte > 1:
            break
        at += 1
        raw |= np.uint64(byte & 0x7F) << shift
        if byte < 128:
            return np.int64(raw >> _ONE) ^ -np.int64(raw & _ONE), np.int64(at)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def _little_endian(data: Int, at: Int, size: Int) -> Int:
    raw = np.uint64(0)
    for index in range(size):
        raw |= np.uint64(byte_at(data, at + index)) << np.uint64(8 * index)
    return np.int64(raw)


@compiled
def _is_text(data: Int, at: Int, end: Int) -> Int:
    """Whether the bytes are UTF-8, as the standard has it: shortest forms alone, no surrogates."""
    while at < end:
        if end - at >= 8 and not long_at(data, at) & np.int64(_NOT_ASCII):
            at += 8
            continue
        byte = byte_at(data, at)
        at += 1
        if byte < 0x80:
            continue
        low, high, more = np.int64(0x80), np.int64(0xBF), np.int64(1)
        if byte < 0xC2 or byte > 0xF4:
            return False
        if byte >= 0xF0:
            more = np.int64(3)
            low = np.int64(0x90) if byte == 0xF0 else low
            high = np.int64(0x8F) if byte == 0xF4 else high
        elif byte >= 0xE0:
            more = np.int64(2)
            low = np.int64(0xA0) if byte == 0xE0 else low
            high = np.int64(0x9F) if byte == 0xED else high
        if end - at < more:
            return False
        for _ in range(more):
            follows = byte_at(data, at)
            if follows < low or follows > high:
                return False
            low, high = np.int64(0x80), np.int64(0xBF)
            at += 1
    return True


@inlined
def _is_below(data: Int, at: Int, size: Int, limit_high: Int, limit_low: Int) -> Int:
    """Whether the size of a number, its largest byte first, is below a limit."""
    if size > DECIMAL_BYTES:
        return False
    fill = np.uint64(0)
    if size > 0 and byte_at(data, at) > 127:
        fill = ~np.uint64(0)
    high, low = fill, fill
    for index in range(size):
        high = high << np.uint64(8) | low >> np.uint64(56)
        low = low << np.uint64(8) | np.uint64(byte_at(data, at + index))
    if fill:
        low = ~low + _ONE
        high = ~high
        if low == np.uint64(0):
            high += _ONE
    limit = np.uint64(limit_high)
    return high < limit or (high == limit and low < np.uint64(limit_low))


@inlined
def _of_step(program: Int, counter: Int, what: Int) -> Int:
    return number_at(program, counter * PROGRAM_COLUMNS + what)


@inlined
def _slot(cells: Places, column: Int) -> Int:
    """Where the column's cell is that is being filled."""
    return number_at(cells.first, column) + number_at(cells.used, number_at(cells.level_of, column))


@inlined
def _count(cells: Places, level: Int, repeated: Int) -> None:
    """One element more, of the list in that cell."""
    set_number(cells.used, level, number_at(cells.used, level) + 1)
    set_int(cells.sizes, repeated, int_at(cells.sizes, repeated) + 1)


@inlined
def _addresses(cells: Cells) -> Places:
    return Places(
        np.int64(cells.numbers.ctypes.data),
        np.int64(cells.sizes.ctypes.data),
        np.int64(cells.is_there.ctypes.data),
        np.int64(cells.first.ctypes.data),
        np.int64(cells.level_of.ctypes.data),
        np.int64(cells.used.ctypes.data),
        np.int64(cells.room.ctypes.data),
    )


@inlined
def _value(data: Int, at: Int, end: Int, program: Int, counter: Int) -> tuple[Int, Int, Int]:
    """A number or the place of bytes, how many bytes these are, and the position behind; -1 for what is not there."""
    step, least = _of_step(program, counter, STEP), _of_step(program, counter, LEAST)
    bad, none = np.int64(-1), np.int64(0)
    if step == LONG:
        number, at = _varint(data, at, end)
        if not least <= number <= _of_step(program, counter, MOST):
            return none, none, bad
        return number, none, at
    if step in (STRING, BYTES) or (step == DECIMAL and least < 0):
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return none, none, bad
        if step == STRING and (not _is_text(data, at, at + size)):
            return none, none, bad
    elif least > end - at:
        return none, none, bad
    elif step in (FIXED, DECIMAL):
        size = least
    else:
        if step == BOOLEAN and byte_at(data, at) > 1:
            return none, none, bad
        return _little_endian(data, at, least), none, np.int64(at + least)
    if step == DECIMAL and (
        not _is_below(data, at, size, _of_step(program, counter + 1, LEAST), _of_step(program, counter + 1, MOST))
    ):
        return none, none, bad
    return np.int64(at), np.int64(size), np.int64(at + size)


@compiled
def _is_new(data: Int, cells: Places, keys: Int, start: Int, last: Int) -> Int:
    """Whether the key at the last place of a map's level is not also at one from `start` on."""
    if last - start >= PAIRS_MAX:
        return False
    first = number_at(cells.first, keys)
    place, size = number_at(cells.numbers, first + last), int_at(cells.sizes, first + last)
    for at in range(start, last):
        if int_at(cells.sizes, first + at) == size:
            other, same = number_at(cells.numbers, first + at), 0
            while same < size and byte_at(data, place + same) == byte_at(data, other + same):
                same += 1
            if same == size:
                return False
    return True


@compiled
def _next(data: Int, at: Int, end: Int, program: Int, counter: Int, cells: Places, left: Int) -> tuple[Int, Int, Int]:
    """End an element, if there was one, and begin another: how many are left of its block, where it is, how it went.

    None is left when the list has ended.
    """
    level, column = _of_step(program, counter, LEAST), _of_step(program, counter, COLUMN)
    slot = _slot(cells, column)
    if left > 0:
        last, keys = number_at(cells.used, level), _of_step(program, counter, KEYS)
        if keys >= 0 and (not _is_new(data, cells, keys, last - int_at(cells.sizes, slot), last)):
            return np.int64(0), np.int64(at), _BAD
        _count(cells, level, slot)
        left -= 1
    if left == 0:
        left, at = _varint(data, at, end)
        if left < 0 and at >= 0:
            left = -left
            _, at = _varint(data, at, end)
        if at < 0 or left < 0:
            return np.int64(0), np.int64(at), _BAD
    if left > 0 and number_at(cells.used, level) >= number_at(cells.room, level):
        return np.int64(left), np.int64(at), _FULL
    return np.int64(left), np.int64(at), _GOOD


@compiled
def _undo(cells: Cells, marks: Longs) -> None:
    """Make a row's cells empty again; the row itself stays, and those of its elements that are not whole go as well."""
    for column in range(len(cells.first)):
        level = cells.level_of[column]
        end = min(cells.used[level] + 1, cells.room[level])
        for at in range(cells.first[column] + marks[level], cells.first[column] + end):
            cells.numbers[at], cells.sizes[at], cells.is_there[at] = 0, 0, 0
    cells.used[:] = marks


@compiled
def _row(data: Int, at: Int, end: Int, program: Int, cells: Places, left: Int) -> Int:
    """One record. `left` has room for as many lists as are inside of one another."""
    counter, depth = np.int64(0), np.int64(-1)
    while at >= 0:
        step, column = _of_step(program, counter, STEP), _of_step(program, counter, COLUMN)
        slot = np.int64(-1)
        if column >= 0:
            slot = _slot(cells, column)
            set_byte(cells.is_there, slot, np.uint8(1))
        if step >= LONG and step != STOP:
            number, size, at = _value(data, at, end, program, counter)
            set_number(cells.numbers, slot, number)
            set_int(cells.sizes, slot, size)
            counter += 2 if step == DECIMAL else 1
        elif step == UNION:
            branch, at = _varint(data, at, end)
            if not 0 <= branch < _of_step(program, counter, LEAST):
                return _BAD
            counter = _of_step(program, counter + 1 + branch, TARGET)
        elif step == RECORD:
            counter += 1
        elif step == JUMP:
            counter = _of_step(program, counter, TARGET)
        elif step == STOP:
            return _GOOD if at == end else _BAD
        else:
            if step == LIST:
                depth += 1
                set_number(left, depth, 0)
                counter = _of_step(program, counter, TARGET)
            following, at, how = _next(data, at, end, program, counter, cells, number_at(left, depth))
            set_number(left, depth, following)
            if how != _GOOD:
                return how
            if number_at(left, depth) == 0:
                depth -= 1
                counter += 1
            else:
                counter = _of_step(program, counter, TARGET)
    return _BAD


@compiled
def read(data: Bytes, bounds: Ints, program: Longs, cells: Cells, is_bad: Bytes, left: Longs) -> int:
    """Read all rows from the first that is not done, but those that are bad from the start.

    Returns a level in which there is no room for the elements of the next row, or ALL_DONE.
    """
    source, steps = np.int64(data.ctypes.data), np.int64(program.ctypes.data)
    places, counts = _addresses(cells), np.int64(left.ctypes.data)
    marks = cells.used.copy()
    for row in range(cells.used[0], len(is_bad)):
        if not is_bad[row]:
            marks[:] = cells.used
            how = _row(source, np.int64(bounds[row]), np.int64(bounds[row + 1]), steps, places, counts)
            full = ALL_DONE
            for level in range(1, len(cells.room)):
                if how == _FULL and cells.used[level] >= cells.room[level]:
                    full = level
            if how != _GOOD:
                _undo(cells, marks)
            if full != ALL_DONE:
                return full
            if how == _BAD:
                is_bad[row] = 1
        cells.used[0] = row + 1
    return ALL_DONE
