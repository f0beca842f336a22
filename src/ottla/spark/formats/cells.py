"""What a kernel fills while it reads records of nested types, and the arrays that come of it.

A *level* is what repeats: level 0 are the rows, and every list or map has a level for its elements. A *column* belongs
to one level and has a cell for each of its places: a number (or where bytes are), a size (of bytes, or how many
elements) and whether there is anything. Cells that nobody wrote are nulls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.record_kernels import gather
from ottla.spark.formats.decimals import widen

Longs: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
_LEVEL_ROOM_FIRST = 1024


class Cells(NamedTuple):
    """Column c's cell at place p of its level is number `first[c] + p` of the first three."""

    numbers: Longs
    sizes: NDArray[np.int32]
    is_there: Bytes
    first: Longs
    level_of: Longs
    used: Longs
    """By level how many places are taken: of the rows those that are done."""
    room: Longs


class Places(NamedTuple):
    """The addresses of cells: to hand arrays on costs a kernel a count of references, for every field read."""

    numbers: Any
    sizes: Any
    is_there: Any
    first: Any
    level_of: Any
    used: Any
    room: Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """`names` are those of an enum, by number. A column that is `always` there is null only with the record around."""

    column: int
    names: Mapping[int, str] | None = None
    always: bool = False
    form: str = ""
    """A decimal comes from bytes, or an `unsigned` or `signed` number of 64 bits; other numbers may be `text`."""


@dataclass(frozen=True, slots=True)
class Record:
    column: int
    fields: tuple["Shape", ...]
    always: bool = False


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list, or a map of which the parts are key and value."""

    column: int
    level: int
    parts: tuple["Shape", ...]
    always: bool = False


Shape: TypeAlias = Leaf | Record | Repeated


@dataclass(slots=True)
class Layout:
    """Columns and levels as a plan of reading asks for them."""

    level_of: list[int] = field(default_factory=list)
    level_count: int = 1

    def column(self, level: int) -> int:
        self.level_of.append(level)
        return len(self.level_of) - 1

    def level(self) -> int:
        self.level_count += 1
        return self.level_count - 1

    def cells(self, rows: int) -> Cells:
        room = np.full(self.level_count, _LEVEL_ROOM_FIRST, np.int64)
        room[0] = rows
        return _cells(np.array(self.level_of, np.int64), np.zeros(self.level_count, np.int64), room)


def with_more_room(cells: Cells, level: int, data_bytes: int) -> Cells:
    """Room in a level as for rows that go on like those that are done, but no more than there are bytes to read.

    Every element takes a byte of the input at least, which bounds what is asked for.
    """
    room = cells.room.copy()
    expected = int(cells.used[level]) * int(cells.room[0]) // max(int(cells.used[0]), 1) * 5 // 4
    room[level] = max(2 * int(room[level]), min(expected, data_bytes))
    more = _cells(cells.level_of, cells.used, room)
    for column, level_of in enumerate(cells.level_of):
        count = cells.used[level_of]
        old = slice(cells.first[column], cells.first[column] + count)
        new = slice(more.first[column], more.first[column] + count)
        more.numbers[new], more.sizes[new] = cells.numbers[old], cells.sizes[old]
        more.is_there[new] = cells.is_there[old]
    return more


def _cells(level_of: Longs, used: Longs, room: Longs) -> Cells:
    sizes = room[level_of]
    first = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    cells = (np.zeros(total, np.int64), np.zeros(total, np.int32), np.zeros(total, np.uint8))
    return Cells(*cells, first, level_of, used, room)


@dataclass(frozen=True, slots=True)
class Filled:
    """Cells with all rows done, and the bytes that they speak of."""

    cells: Cells
    data: Bytes

    def array(self, shape: Shape, kind: pa.DataType, around: Bytes | None = None) -> pa.Array:
        """`around`: where the record around is there; nothing said is everywhere."""
        is_there = around if shape.always else self._cell(self.cells.is_there, shape.column)
        count, bits = self._count(shape.column), _bitmap(is_there)
        if isinstance(shape, Record):
            children = [self.array(part, of.type, is_there) for part, of in zip(shape.fields, kind, strict=True)]
            return pa.Array.from_buffers(kind, count, [bits], children=children)
        if isinstance(shape, Repeated):
            bounds = _bounds(self._cell(self.cells.sizes, shape.column))
            return pa.Array.from_buffers(kind, count, [bits, bounds], children=[self._elements(shape, kind)])
        return self._leaf(shape, kind, bits)

    def _elements(self, shape: Repeated, kind: pa.DataType) -> pa.Array:
        if not pa.types.is_map(kind):
            return self.array(shape.parts[0], kind.value_type)
        pair = pa.struct([kind.key_field, kind.item_field])
        children = [self.array(part, of.type) for part, of in zip(shape.parts, pair, strict=True)]
        return pa.Array.from_buffers(pair, int(self.cells.used[shape.level]), [None], children=children)

    def _leaf(self, shape: Leaf, kind: pa.DataType, bits: pa.Buffer | None) -> pa.Array:
        count, numbers = self._count(shape.column), self._cell(self.cells.numbers, shape.column)
        if shape.names is not None:
            return _named(numbers, shape.names, bits).cast(kind)
        if shape.form == "text" and not pa.types.is_string(kind):
            return self._leaf(shape, pa.string(), bits).cast(kind)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            sizes = self._cell(self.cells.sizes, shape.column)
            bounds = _bounds(sizes)
            content = np.empty(int(sizes.sum()), np.uint8)
            gather(self.data, numbers, np.frombuffer(bounds, np.int32), content)
            return pa.Array.from_buffers(kind, count, [bits, bounds, pa.py_buffer(content)])
        if pa.types.is_decimal128(kind):
            sizes = self._cell(self.cells.sizes, shape.column)
            wide = _widened(numbers, shape.form) if shape.form else widen(self.data, numbers, sizes)
            return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(wide)])
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, count, [bits, _packed(numbers != 0)])
        values: NDArray[Any] = numbers
        if kind.bit_width < 64:
            values = numbers.astype(f"u{kind.bit_width // 8}")  # its low bits, also those of a float
        return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(np.ascontiguousarray(values))])

    def _cell(self, cells: NDArray[Any], column: int) -> NDArray[Any]:
        first = int(self.cells.first[column])
        found: NDArray[Any] = cells[first : first + self._count(column)]
        return found

    def _count(self, column: int) -> int:
        return int(self.cells.used[self.cells.level_of[column]])


def _named(numbers: Longs, names: Mapping[int, str], bits: pa.Buffer | None) -> pa.Array:
    """A number without a name is its digits."""
    coded = pa.Array.from_buffers(pa.int64(), len(numbers), [bits, pa.py_buffer(np.ascontiguousarray(numbers))])
    coded = coded.dictionary_encode()
    known: Sequence[str] = [names.get(number) or str(number) for number in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(known, pa.string()))


def _widened(numbers: Longs, form: str) -> NDArray[Any]:
    wide = np.zeros((len(numbers), 2), np.int64)
    wide[:, 0] = numbers
    if form == "signed":
        wide[:, 1] = numbers >> 63
    return wide


def _bounds(sizes: NDArray[np.int32]) -> pa.Buffer:
    """Raises OverflowError where the column is more than Arrow's offsets of 32 bits can tell."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if bounds[-1] > np.iinfo(np.int32).max:
        raise OverflowError
    return pa.py_buffer(bounds.astype(np.int32))


def _bitmap(is_there: Bytes | None) -> pa.Buffer | None:
    return None if is_there is None or is_there.all() else _packed(is_there)


def _packed(flags: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
