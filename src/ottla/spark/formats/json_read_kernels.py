"""JSON objects into cells, by the tree of a type.

It takes what is JSON to the letter and of the type. What is JSON, but not of the type, is a misfit, and it is said
where; all else makes the row a doubtful one, for a slower reader to judge: what is no JSON, and what is rare.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import (
    byte_at,
    compiled,
    inlined,
    int_at,
    number_at,
    set_byte,
    set_int,
    set_number,
)
from ottla.spark.formats.cells import Cells, Places
from ottla.spark.formats.json_words import (
    behind_blanks,
    behind_number,
    behind_text,
    behind_value,
    bytes_of,
    day_of,
    decimal_of,
    integer_of,
    is_digit,
    is_text,
    time_of,
    unescaped,
)

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

# Kinds of values.
OBJECT, MAP, LIST, INTEGER, FLOATING, BOOLEAN, TEXT, DECIMAL, DATE, TIME, BASE64 = range(11)
# Of a value: its kind and column; its fields or elements, the level of those, what a number may be, and its name.
KIND, COLUMN, FIRST, COUNT, LEVEL, LEAST, MOST, NAME, NAME_BYTES, NODE_COLUMNS = range(10)
# A DECIMAL has its digits in MOST and those behind the point in LEAST; a TIME says in LEAST whether it may have a zone.
# Of an object or list that is being read: which it is, its next field.
IS, NEXT, FRAME_COLUMNS = range(3)
# Of a misfit: which value it is, from where to where the text goes.
MISFIT_COLUMNS = 3
ALL_DONE = 0
WORDS = "88fa85e8700e3db3"
"""The digest of `json_words`: this module has to change when that one does."""
GOOD, DOUBTFUL, MISFIT, FULL = range(4)
PAIRS_MAX = 64

_QUOTE, _COLON, _COMMA, _MINUS = 34, 58, 44, 45
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _NULL, _TRUE = 123, 125, 91, 93, 110, 116
_NONE_BELOW = -(2**61)


@inlined
def _of(nodes: Int, node: Int, what: Int) -> Int:
    return number_at(nodes, node * NODE_COLUMNS + what)


@inlined
def _slot(cells: Places, column: Int) -> Int:
    return number_at(cells.first, column) + number_at(cells.used, number_at(cells.level_of, column))


@compiled
def _text_value(data: Int, at: Int, end: Int, nodes: Int, node: Int, out: Int) -> tuple[Int, Int, Int]:
    """A number or place, a size, and how it went, of what is in a text between two quotes."""
    kind, zero = _of(nodes, node, KIND), np.int64(0)
    if kind == DECIMAL:
        number, is_one = decimal_of(data, at, end, _of(nodes, node, MOST), _of(nodes, node, LEAST))
        return number, zero, GOOD if is_one else DOUBTFUL
    if kind == DATE:
        day = day_of(data, at) if end - at == 10 else np.int64(_NONE_BELOW - 1)
        return day, zero, GOOD if day > _NONE_BELOW else DOUBTFUL
    if kind == TIME:
        number, is_one = time_of(data, at, end, _of(nodes, node, LEAST))
        return number, zero, GOOD if is_one else DOUBTFUL
    size = bytes_of(data, at, end, out)
    return np.int64(at), size, GOOD if size >= 0 else DOUBTFUL


@compiled
def _leaf(data: Int, at: Int, end: Int, nodes: Int, node: Int, cells: Places, out: Int) -> Int:
    """A value that is there and lies from `at` to `end`, and is neither object nor list."""
    kind, byte = _of(nodes, node, KIND), byte_at(data, at)
    number, size = np.int64(at), np.int64(end - at)
    if byte == _QUOTE:
        if kind < TEXT:
            return MISFIT
        _, has_escapes = behind_text(data, at, end)
        number, size = np.int64(at + 1), np.int64(end - at - 2)
        if kind == TEXT and has_escapes:
            size = unescaped(data, at + 1, end - 1, out)
        elif kind != TEXT:
            if has_escapes:
                return DOUBTFUL
            number, size, how = _text_value(data, at + 1, end - 1, nodes, node, out)
            if how != GOOD:
                return how
    elif byte == _MINUS or is_digit(byte):
        _, is_whole = behind_number(data, at, end)
        if kind == INTEGER and is_whole:
            number, fits = integer_of(data, at, end, _of(nodes, node, LEAST), _of(nodes, node, MOST))
            if not fits:
                return MISFIT
        elif kind == DECIMAL:
            number, fits = decimal_of(data, at, end, _of(nodes, node, MOST), _of(nodes, node, LEAST))
            if not fits:
                return DOUBTFUL
        elif kind != FLOATING:
            return MISFIT
    elif kind == BOOLEAN:
        number = np.int64(byte == _TRUE)
    else:
        return MISFIT
    slot = _slot(cells, _of(nodes, node, COLUMN))
    set_number(cells.numbers, slot, number)
    set_int(cells.sizes, slot, size if kind in (TEXT, FLOATING, BASE64) else np.int64(0))
    set_byte(cells.is_there, slot, np.uint8(1))
    return GOOD


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
def _field(data: Int, at: Int, size: Int, nodes: Int, of: Int, following: Int, names: Int) -> Int:
    """Which of the fields has the name, or -1; most come in their order."""
    first, count = _of(nodes, of, FIRST), _of(nodes, of, COUNT)
    for step in range(count):
        index = following + step
        index -= count if index >= count else 0
        node = first + index
        if _of(nodes, node, NAME_BYTES) != size:
            continue
        place, same = _of(nodes, node, NAME), np.int64(0)
        while same < size and byte_at(names, place + same) == byte_at(data, at + same):
            same += 1
        if same == size:
            return np.int64(index)
    return np.int64(-1)


@compiled
def _named(
    data: Int, at: Int, end: Int, nodes: Int, top: Int, names: Int, cells: Places, out: Int, seen: Int, frame: Int
) -> tuple[Int, Int, Int]:
    """Behind a name and its colon; whose value follows, -1 for what nobody asked for; and how it went."""
    none = np.int64(-1)
    if byte_at(data, at) != _QUOTE:
        return none, none, DOUBTFUL
    behind, has_escapes = behind_text(data, at, end)
    if behind < 0:
        return none, none, DOUBTFUL
    first, size = np.int64(at + 1), np.int64(behind - at - 2)
    at = behind_blanks(data, behind, end)
    if at >= end or byte_at(data, at) != _COLON:
        return none, none, DOUBTFUL
    at += 1
    if _of(nodes, top, KIND) == MAP:
        key = _of(nodes, top, FIRST)
        column, level = _of(nodes, key, COLUMN), _of(nodes, top, LEVEL)
        slot, last = _slot(cells, column), number_at(cells.used, level)
        size = unescaped(data, first, behind - 1, out) if has_escapes else size
        set_number(cells.numbers, slot, first)
        set_int(cells.sizes, slot, size)
        set_byte(cells.is_there, slot, np.uint8(1))
        start = last - int_at(cells.sizes, _slot(cells, _of(nodes, top, COLUMN)))
        return np.int64(at), key + 1, GOOD if _is_new(out, cells, column, start, last) else DOUBTFUL
    if has_escapes:
        return none, none, DOUBTFUL
    index = _field(data, first, size, nodes, top, number_at(frame, NEXT), names)
    if index < 0:
        return np.int64(at), none, GOOD
    if byte_at(seen, index):
        return none, none, DOUBTFUL
    set_byte(seen, index, np.uint8(1))
    set_number(frame, NEXT, index + 1 if index + 1 < _of(nodes, top, COUNT) else np.int64(0))
    return np.int64(at), _of(nodes, top, FIRST) + index, GOOD


@compiled
def _value(
    data: Int, at: Int, end: Int, nodes: Int, node: Int, cells: Places, out: Int, misfit: Int
) -> tuple[Int, Int]:
    """Behind a value that is not gone into, and how it went; a misfit is noted, and it goes on behind it."""
    kind = _of(nodes, node, KIND) if node >= 0 else np.int64(-1)
    byte = byte_at(data, at)
    behind = behind_value(data, at, end)
    if behind < 0:
        return behind, DOUBTFUL
    if node < 0 or byte == _NULL:
        return behind, GOOD
    how = MISFIT
    if kind > LIST and byte != _OPEN and byte != _OPEN_LIST:
        how = _leaf(data, at, behind, nodes, node, cells, out)
    if how == MISFIT:
        if number_at(misfit, 0) < 0:
            set_number(misfit, 0, node)
            set_number(misfit, 1, at)
            set_number(misfit, 2, behind)
        how = GOOD
    return behind, how


@compiled
def _begin(nodes: Int, node: Int, cells: Places, frame: Int, seen: Int) -> None:
    set_number(frame, IS, node)
    set_number(frame, NEXT, np.int64(0))
    for index in range(_of(nodes, node, COUNT)):
        set_byte(seen, index, np.uint8(0))
    set_byte(cells.is_there, _slot(cells, _of(nodes, node, COLUMN)), np.uint8(1))


@compiled
def _ended(data: Int, at: Int, end: Int) -> Int:
    return GOOD if behind_blanks(data, at, end) == end else DOUBTFUL


@compiled
def _row(
    data: Int, at: Int, end: Int, nodes: Int, names: Int, cells: Places, out: Int, stack: Int, width: int, misfit: Int
) -> Int:
    """One object. Of each that is open the stack has two numbers, and `width` bytes for the fields that were seen."""
    at = behind_blanks(data, at, end)
    if at >= end or byte_at(data, at) != _OPEN:
        return DOUBTFUL
    frame, is_new, is_after = np.int64(stack), True, False
    _begin(nodes, np.int64(0), cells, frame, frame + 16)
    at += 1
    while True:
        at = behind_blanks(data, at, end)
        if at >= end:
            return DOUBTFUL
        byte, top = byte_at(data, at), number_at(frame, IS)
        kind, level = _of(nodes, top, KIND), _of(nodes, top, LEVEL)
        if is_after and kind != OBJECT:
            slot = _slot(cells, _of(nodes, top, COLUMN))
            set_number(cells.used, level, number_at(cells.used, level) + 1)
            set_int(cells.sizes, slot, int_at(cells.sizes, slot) + 1)
        if (is_new or is_after) and byte == (_CLOSE_LIST if kind == LIST else _CLOSE):
            if frame == stack:
                return _ended(data, at + 1, end)
            frame, at, is_new, is_after = frame - width, at + 1, False, True
            continue
        if is_after:
            if byte != _COMMA:
                return DOUBTFUL
            at = behind_blanks(data, at + 1, end)
            if at >= end:
                return DOUBTFUL
        is_new, is_after, how = False, True, np.int64(GOOD)
        node = _of(nodes, top, FIRST)
        if kind != OBJECT and number_at(cells.used, level) >= number_at(cells.room, level):
            return FULL
        if kind != LIST:
            at, node, how = _named(data, at, end, nodes, top, names, cells, out, frame + 16, frame)
            at = behind_blanks(data, at, end)
            if how != GOOD or at >= end:
                return DOUBTFUL
        byte, kind = byte_at(data, at), _of(nodes, node, KIND) if node >= 0 else np.int64(-1)
        if (byte == _OPEN and 0 <= kind <= MAP) or (byte == _OPEN_LIST and kind == LIST):
            frame, at, is_new, is_after = frame + width, at + 1, True, False
            _begin(nodes, node, cells, frame, frame + 16)
            continue
        at, how = _value(data, at, end, nodes, node, cells, out, misfit)
        if how != GOOD:
            return how


@compiled
def _undo(cells: Cells, marks: Longs) -> None:
    """Make a row's cells empty again, also those of an element that is not whole."""
    for column in range(len(cells.first)):
        level = cells.level_of[column]
        end = min(cells.used[level] + 1, cells.room[level])
        for at in range(cells.first[column] + marks[level], cells.first[column] + end):
            cells.numbers[at], cells.sizes[at], cells.is_there[at] = 0, 0, 0
    cells.used[:] = marks


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
def read(
    data: Bytes,
    bounds: Ints,
    nodes: Longs,
    names: Bytes,
    cells: Cells,
    verdicts: Bytes,
    misfits: Longs,
    copy: Bytes,
    stack: Bytes,
    width: int,
) -> int:
    """Read all rows from the first that is not done, but those whose verdict is not GOOD from the start.

    `copy` has the bytes once more, and there texts without escapes. Returns a level in which there is no room for the
    elements of the next row, or ALL_DONE.
    """
    source, places, target = np.int64(data.ctypes.data), _addresses(cells), np.int64(copy.ctypes.data)
    tree, known, frames = np.int64(nodes.ctypes.data), np.int64(names.ctypes.data), np.int64(stack.ctypes.data)
    marks = cells.used.copy()
    for row in range(cells.used[0], len(verdicts)):
        if verdicts[row] == GOOD:
            marks[:] = cells.used
            start, end = np.int64(bounds[row]), np.int64(bounds[row + 1])
            misfit = np.int64(misfits.ctypes.data) + 8 * MISFIT_COLUMNS * row
            set_number(misfit, 0, np.int64(-1))
            how = np.int64(DOUBTFUL)
            if is_text(source, start, end):
                how = _row(source, start, end, tree, known, places, target, frames, width, misfit)
            if how == GOOD and number_at(misfit, 0) >= 0:
                how = np.int64(MISFIT)
            full = ALL_DONE
            for level in range(1, len(cells.room)):
                if how == FULL and cells.used[level] >= cells.room[level]:
                    full = level
            if how != GOOD:
                _undo(cells, marks)
            if full != ALL_DONE:
                return full
            verdicts[row] = how
        cells.used[0] = row + 1
    return ALL_DONE
