"""Avro's records into numbers and places, for schemas without lists and choices: a program is run for every row.

Every byte is checked to be there before it is read. Whatever is out of the ordinary makes the row a bad one, for a
slower reader to judge.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import byte_at, compiled, inlined, set_byte

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

RECORD, OPTIONAL, LONG, BOOLEAN, FLOATING, BYTES, FIXED = range(7)
# Columns of a program: what to do, for which column, up to which number or how many bytes, how many steps to leave out.
STEP, COLUMN, ARGUMENT, LEAVES_OUT, PROGRAM_COLUMNS = range(5)
DECIMAL_BYTES = 16

_ONE = np.uint64(1)
_INT_MAX = 2**31 - 1


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


@inlined
def _value(data: Int, at: Int, end: Int, step: Int, argument: Int) -> tuple[Int, Int, Int]:
    """A number or the place of bytes, how many bytes these are, and the position behind; -1 for what is not there."""
    bad = np.int64(-1)
    none = np.int64(0)
    if step == LONG:
        number, at = _varint(data, at, end)
        # The argument says what it may be: any (0), one of n symbols (n), or an int (-1).
        if argument > 0 and not 0 <= number < argument:
            return none, none, bad
        if argument < 0 and not -_INT_MAX - 1 <= number <= _INT_MAX:
            return none, none, bad
        return number, none, at
    if step == BYTES:
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return none, none, bad
        return at, size, at + size
    if argument > end - at:
        return none, none, bad
    if step == FIXED:
        return np.int64(at), np.int64(argument), np.int64(at + argument)
    if step == BOOLEAN and byte_at(data, at) > 1:
        return none, none, bad
    return _little_endian(data, at, argument), none, np.int64(at + argument)


@compiled
def run(
    data: Bytes,
    bounds: Ints,
    program: Longs,
    numbers: Longs,
    sizes: Ints,
    is_there: Bytes,
    is_bad: Bytes,
) -> None:
    """Read all rows that are not bad from the start; `numbers`, `sizes` and `is_there` have a row for every column."""
    source = np.int64(data.ctypes.data)
    for row in range(len(is_bad)):
        if is_bad[row]:
            continue
        at, end, counter = np.int64(bounds[row]), np.int64(bounds[row + 1]), 0
        while counter < len(program) and at >= 0:
            step, column, argument = program[counter, STEP], program[counter, COLUMN], program[counter, ARGUMENT]
            counter += 1
            if step == RECORD:
                is_there[column, row] = 1
            elif step == OPTIONAL:
                branch, at = _varint(source, at, end)
                if not 0 <= branch <= 1:
                    at = np.int64(-1)
                elif branch == argument:
                    counter += program[counter - 1, LEAVES_OUT]
            else:
                number, size, at = _value(source, at, end, step, argument)
                numbers[column, row], sizes[column, row], is_there[column, row] = number, size, 1
        if at != end:
            is_bad[row] = 1
            for column in range(len(is_there)):
                is_there[column, row] = 0
                sizes[column, row] = 0


@compiled
def widen(data: Bytes, places: Longs, sizes: Ints, out: Bytes) -> bool:
    """Numbers of any length, the largest byte first, as Arrow's decimals; False if one does not fit."""
    source, target = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for row in range(len(places)):
        size = np.int64(sizes[row])
        if size > DECIMAL_BYTES:
            return False
        fill = np.uint8(0)
        if size and byte_at(source, places[row]) > 127:
            fill = np.uint8(255)
        for index in range(DECIMAL_BYTES):
            byte = fill
            if index < size:
                byte = byte_at(source, places[row] + size - 1 - index)
            set_byte(target, row * DECIMAL_BYTES + index, byte)
    return True
