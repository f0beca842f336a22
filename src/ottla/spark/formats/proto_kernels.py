"""Protobuf's messages into cells: fields are looked up in the tables of a plan as they come.

Every byte is checked to be there before it is read, and no length is believed that goes beyond its message. Whatever
is out of the ordinary, and be it sound (a message in two pieces, a field of a oneof after another), makes the row a
doubtful one, for a slower reader to judge.
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

# Of a message: its fields' rows, its column, what is to be seen to when it ends.
FIRST, COUNT, COLUMN, IS_MICROS, IS_PAIR, MESSAGE_COLUMNS = range(6)
# Of a field, in the order of the numbers: the number, the kind of value and its column, the level and the column of the
# list that it is in, its message, its oneof's column, what it may be, whether it has to be there.
NUMBER, KIND, VALUE, LEVEL, REPEATED, MESSAGE, ONEOF, NAMES, NAME_COUNT, IS_REQUIRED, FIELD_COLUMNS = range(11)
# Kinds. Those up to ENUM are varints.
LONG, INT, UNSIGNED, SIGNED_INT, SIGNED_LONG, FLAG, ENUM, FOUR, FOUR_UNSIGNED, EIGHT, TEXT, BYTES, PART = range(13)
# Of a message that is being read: which it is, where it ends, its next field, and the row of the field that it is.
IS, END, NEXT, OF, FRAME_COLUMNS = range(5)
ALL_DONE = 0
PAIRS_MAX = 64
"""Of a map: with more, to look for keys that come twice would take too long here."""

_ONE = np.uint64(1)
_NOT_ASCII = -0x7F7F7F7F7F7F7F80
_GOOD, _BAD, _FULL = range(3)
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
_TAG_MAX = 2**32 - 1
_MICROS = 1_000_000
_SECONDS_MAX = 9_000_000_000_000


@inlined
def _varint(data: Int, at: Int, end: Int) -> tuple[Int, Int]:
    if at < end and byte_at(data, at) < 128:
        return np.int64(byte_at(data, at)), np.int64(at + 1)
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
            return np.int64(raw), np.int64(at)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


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
def _of_field(fields: Int, field: Int, what: Int) -> Int:
    return number_at(fields, field * FIELD_COLUMNS + what)


@inlined
def _of_message(messages: Int, message: Int, what: Int) -> Int:
    return number_at(messages, message * MESSAGE_COLUMNS + what)


@inlined
def _of_frame(frames: Int, depth: Int, what: Int) -> Int:
    return number_at(frames, depth * FRAME_COLUMNS + what)


@inlined
def _wire_type(kind: Int) -> Int:
    if kind <= ENUM:
        return _VARINT
    if kind == EIGHT:
        return _EIGHT
    return _SIZED if kind >= TEXT else _FOUR


@inlined
def _number(data: Int, at: Int, end: Int, kind: Int) -> tuple[Int, Int]:
    """A number of this kind and the position behind it; -1 if it is not all there."""
    if kind <= ENUM:
        raw, at = _varint(data, at, end)
        if kind in (INT, ENUM):
            raw = np.int64(np.int32(raw))
        elif kind == UNSIGNED:
            raw = np.int64(np.uint32(raw))
        elif kind == SIGNED_INT:
            raw = np.int64(np.uint32(raw))
            raw = (raw >> 1) ^ -(raw & 1)
        elif kind == SIGNED_LONG:
            raw = np.int64(np.uint64(raw) >> _ONE) ^ -(raw & 1)
        elif kind == FLAG:
            raw = np.int64(raw != 0)
        return raw, at
    size = np.int64(8) if kind == EIGHT else np.int64(4)
    if size > end - at:
        return np.int64(0), np.int64(-1)
    raw = np.uint64(0)
    for index in range(size):
        raw |= np.uint64(byte_at(data, at + index)) << np.uint64(8 * index)
    return np.int64(raw), np.int64(at + size)


@compiled
def _is_named(names: Int, first: Int, count: Int, number: Int) -> Int:
    """Whether an enum that is closed has the number. Of others `count` is 0."""
    for at in range(first, first + count):
        if number_at(names, at) == number:
            return True
    return count == 0


@inlined
def _behind_unknown(data: Int, at: Int, end: Int, wire_type: Int) -> Int:
    """The position behind a field that is none of ours; -1 for groups and what is not all there."""
    size = np.int64(0)
    if wire_type == _VARINT:
        _, at = _varint(data, at, end)
    elif wire_type == _EIGHT:
        size = np.int64(8)
    elif wire_type == _FOUR:
        size = np.int64(4)
    elif wire_type == _SIZED:
        size, at = _varint(data, at, end)
    else:
        return np.int64(-1)
    if at < 0 or size < 0 or size > end - at:
        return np.int64(-1)
    return np.int64(at + size)


@inlined
def _field(fields: Int, first: Int, count: Int, following: Int, number: Int) -> Int:
    """The row of the field of this number, or -1. Most come in their order."""
    end = first + count
    if following < end and _of_field(fields, following, NUMBER) == number:
        return np.int64(following)
    low, high = np.int64(first), np.int64(end)
    while low < high:
        middle = (low + high) >> 1
        if _of_field(fields, middle, NUMBER) < number:
            low = middle + 1
        else:
            high = middle
    if low < end and _of_field(fields, low, NUMBER) == number:
        return low
    return np.int64(-1)


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


@compiled
def _is_new(data: Int, cells: Places, key: Int, is_text: Int, start: Int, last: Int) -> Int:
    """Whether the key at the last place of a map's level is not also at one from `start` on."""
    if last - start >= PAIRS_MAX:
        return False
    first = number_at(cells.first, key)
    place, size = number_at(cells.numbers, first + last), int_at(cells.sizes, first + last)
    for at in range(start, last):
        other = number_at(cells.numbers, first + at)
        if not is_text:
            if other == place:
                return False
        elif int_at(cells.sizes, first + at) == size:
            same = 0
            while same < size and byte_at(data, place + same) == byte_at(data, other + same):
                same += 1
            if same == size:
                return False
    return True


@compiled
def _ended(data: Int, messages: Int, fields: Int, cells: Places, message: Int, of: Int) -> Int:
    """See to what has to be done when a message ends; whether all is well with it."""
    first, count = _of_message(messages, message, FIRST), _of_message(messages, message, COUNT)
    for field in range(first, first + count):
        if _of_field(fields, field, IS_REQUIRED) and (
            not byte_at(cells.is_there, _slot(cells, _of_field(fields, field, VALUE)))
        ):
            return False
    if _of_message(messages, message, IS_MICROS):
        seconds = number_at(cells.numbers, _slot(cells, _of_field(fields, first, VALUE)))
        nanos = number_at(cells.numbers, _slot(cells, _of_field(fields, first + 1, VALUE)))
        if not -_SECONDS_MAX < seconds < _SECONDS_MAX:
            return False
        set_number(
            cells.numbers, _slot(cells, _of_message(messages, message, COLUMN)), seconds * _MICROS + nanos // 1000
        )
    if of >= 0 and _of_field(fields, of, REPEATED) >= 0:
        level, repeated = _of_field(fields, of, LEVEL), _slot(cells, _of_field(fields, of, REPEATED))
        last = number_at(cells.used, level)
        if _of_message(messages, message, IS_PAIR):
            key = first
            is_text = _of_field(fields, key, KIND) == TEXT
            if not _is_new(
                data, cells, _of_field(fields, key, VALUE), is_text, last - int_at(cells.sizes, repeated), last
            ):
                return False
            set_byte(cells.is_there, _slot(cells, _of_field(fields, first + 1, VALUE)), np.uint8(1))
        _count(cells, level, repeated)
    return True


@compiled
def _packed(data: Int, at: Int, end: Int, fields: Int, field: Int, names: Int, cells: Places) -> Int:
    """Numbers one behind the other, up to the end."""
    kind, level, column = (
        _of_field(fields, field, KIND),
        _of_field(fields, field, LEVEL),
        _of_field(fields, field, VALUE),
    )
    repeated = _slot(cells, _of_field(fields, field, REPEATED))
    while at < end:
        if number_at(cells.used, level) >= number_at(cells.room, level):
            return _FULL
        number, at = _number(data, at, end, kind)
        if at < 0 or not _is_named(
            names, _of_field(fields, field, NAMES), _of_field(fields, field, NAME_COUNT), number
        ):
            return _BAD
        slot = _slot(cells, column)
        set_number(cells.numbers, slot, number)
        set_byte(cells.is_there, slot, np.uint8(1))
        _count(cells, level, repeated)
    return _GOOD


@compiled
def _one(data: Int, at: Int, end: Int, fields: Int, field: Int, names: Int, cells: Places) -> tuple[Int, Int]:
    """A value that is no message, and of numbers one: the position behind it."""
    kind, slot = _of_field(fields, field, KIND), _slot(cells, _of_field(fields, field, VALUE))
    if kind >= TEXT:
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at or (kind == TEXT and (not _is_text(data, at, at + size))):
            return np.int64(at), _BAD
        set_number(cells.numbers, slot, at)
        set_int(cells.sizes, slot, size)
        at += size
    else:
        number, at = _number(data, at, end, kind)
        if at < 0 or not _is_named(
            names, _of_field(fields, field, NAMES), _of_field(fields, field, NAME_COUNT), number
        ):
            return np.int64(at), _BAD
        set_number(cells.numbers, slot, number)
    set_byte(cells.is_there, slot, np.uint8(1))
    if _of_field(fields, field, REPEATED) >= 0:
        set_number(
            cells.used, _of_field(fields, field, LEVEL), number_at(cells.used, _of_field(fields, field, LEVEL)) + 1
        )
        set_int(
            cells.sizes,
            _slot(cells, _of_field(fields, field, REPEATED)),
            int_at(cells.sizes, _slot(cells, _of_field(fields, field, REPEATED))) + 1,
        )
    return np.int64(at), _GOOD


@compiled
def _may_come(fields: Int, field: Int, cells: Places) -> Int:
    """Whether there is room for the field, and nothing against it in its oneof."""
    if _of_field(fields, field, REPEATED) >= 0 and number_at(cells.used, _of_field(fields, field, LEVEL)) >= number_at(
        cells.room, _of_field(fields, field, LEVEL)
    ):
        return _FULL
    if _of_field(fields, field, ONEOF) >= 0:
        slot = _slot(cells, _of_field(fields, field, ONEOF))
        if byte_at(cells.is_there, slot) and number_at(cells.numbers, slot) != field:
            return _BAD
        set_byte(cells.is_there, slot, np.uint8(1))
        set_number(cells.numbers, slot, field)
    return _GOOD


@compiled
def _row(data: Int, start: Int, end: Int, messages: Int, fields: Int, names: Int, cells: Places, frames: Int) -> Int:
    """One message with all that is in it. `frames` has room for as many messages as are inside of one another."""
    at, depth = np.int64(start), np.int64(0)
    set_number(frames, 0 * FRAME_COLUMNS + IS, 0)
    set_number(frames, 0 * FRAME_COLUMNS + END, end)
    set_number(frames, 0 * FRAME_COLUMNS + NEXT, _of_message(messages, 0, FIRST))
    set_number(frames, 0 * FRAME_COLUMNS + OF, -1)
    set_byte(cells.is_there, _slot(cells, _of_message(messages, 0, COLUMN)), np.uint8(1))
    while True:
        message, limit = _of_frame(frames, depth, IS), _of_frame(frames, depth, END)
        if at == limit:
            if not _ended(data, messages, fields, cells, message, _of_frame(frames, depth, OF)):
                return _BAD
            if depth == 0:
                return _GOOD
            depth -= 1
            continue
        tag, at = _varint(data, at, limit)
        if at < 0 or tag > _TAG_MAX or tag < 8:
            return _BAD
        wire_type, first = tag & 7, _of_message(messages, message, FIRST)
        field = _field(fields, first, _of_message(messages, message, COUNT), _of_frame(frames, depth, NEXT), tag >> 3)
        is_packed = False
        if field >= 0:
            set_number(
                frames, depth * FRAME_COLUMNS + NEXT, field if _of_field(fields, field, REPEATED) >= 0 else field + 1
            )
            kind = _of_field(fields, field, KIND)
            is_packed = wire_type == _SIZED and kind < TEXT and (_of_field(fields, field, REPEATED) >= 0)
        if field < 0 or (wire_type != _wire_type(kind) and (not is_packed)):
            at = _behind_unknown(data, at, limit, wire_type)
            if at < 0:
                return _BAD
            continue
        if is_packed or kind == PART:
            size, at = _varint(data, at, limit)
            if at < 0 or size < 0 or size > limit - at:
                return _BAD
        how = _GOOD if is_packed else _may_come(fields, field, cells)
        if how == _GOOD and is_packed:
            how = _packed(data, at, at + size, fields, field, names, cells)
            at += size
        elif how == _GOOD and kind == PART:
            depth += 1
            how = _begun(messages, fields, field, cells, frames, depth, at + size)
        elif how == _GOOD:
            at, how = _one(data, at, limit, fields, field, names, cells)
        if how != _GOOD:
            return how


@compiled
def _begun(messages: Int, fields: Int, field: Int, cells: Places, frames: Int, depth: Int, end: Int) -> Int:
    """Go on with the message that is the value of a field; one that comes a second time would have to be merged."""
    message = _of_field(fields, field, MESSAGE)
    slot = _slot(cells, _of_field(fields, field, VALUE))
    if byte_at(cells.is_there, slot):
        return _BAD
    set_byte(cells.is_there, slot, np.uint8(1))
    set_number(frames, depth * FRAME_COLUMNS + IS, message)
    set_number(frames, depth * FRAME_COLUMNS + END, end)
    set_number(frames, depth * FRAME_COLUMNS + OF, field)
    set_number(frames, depth * FRAME_COLUMNS + NEXT, _of_message(messages, message, FIRST))
    return _GOOD


@compiled
def _undo(cells: Cells, marks: Longs) -> None:
    """Make a row's cells empty again, also those of an element that is not whole."""
    for column in range(len(cells.first)):
        level = cells.level_of[column]
        end = min(cells.used[level] + 1, cells.room[level])
        for at in range(cells.first[column] + marks[level], cells.first[column] + end):
            cells.numbers[at], cells.sizes[at], cells.is_there[at] = 0, 0, 0
    cells.used[:] = marks


@compiled
def read(
    data: Bytes,
    bounds: Ints,
    messages: Longs,
    fields: Longs,
    names: Longs,
    cells: Cells,
    is_bad: Bytes,
    frames: Longs,
) -> int:
    """Read all rows from the first that is not done, but those that are bad from the start.

    Returns a level in which there is no room for the elements of the next row, or ALL_DONE.
    """
    source, places, stack = np.int64(data.ctypes.data), _addresses(cells), np.int64(frames.ctypes.data)
    plan = (np.int64(messages.ctypes.data), np.int64(fields.ctypes.data), np.int64(names.ctypes.data))
    marks = cells.used.copy()
    for row in range(cells.used[0], len(is_bad)):
        if not is_bad[row]:
            marks[:] = cells.used
            start, end = np.int64(bounds[row]), np.int64(bounds[row + 1])
            how = _row(source, start, end, plan[0], plan[1], plan[2], places, stack)
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
