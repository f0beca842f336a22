"""JSON objects into Arrow without a Python object for each: the tree of a type, for the kernel that reads by it."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.formats import json_read_kernels as kernels
from ottla.spark.formats.cells import Filled, Layout, Leaf, Record, Repeated, Shape, with_more_room
from ottla.spark.formats.json_values import misfit
from ottla.spark.formats.spark_types import ddl

_FRAME_BYTES = 16


@dataclass(frozen=True, slots=True)
class Reader:
    nodes: NDArray[np.int64]
    names: NDArray[np.uint8]
    layout: Layout
    shape: Shape
    depth: int
    frame_bytes: int
    told: tuple[tuple[str, str], ...]
    """By node its path, and what it has to be, in words."""
    type: pa.DataType

    def read(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.int64], dict[int, str]] | None:
        """Values, null in the rows that are also given: those could not be read here, or are not of the type, and why.

        None when there is more than a column of Arrow can hold.
        """
        blobs = blobs_of(column)
        is_null = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        verdicts = is_null * np.uint8(kernels.DOUBTFUL)
        misfits = np.zeros((len(column), kernels.MISFIT_COLUMNS), np.int64)
        copy, stack = blobs.data.copy(), np.zeros(self.depth * self.frame_bytes, np.uint8)
        cells = self.layout.cells(len(column))
        room = (copy, stack, self.frame_bytes)
        while full := kernels.read(blobs.data, blobs.bounds, self.nodes, self.names, cells, verdicts, misfits, *room):
            cells = with_more_room(cells, full, int(blobs.bounds[-1]) - int(blobs.bounds[0]))
        try:
            found = Filled(cells, copy).array(self.shape, self.type)
        except OverflowError:
            return None
        bad = np.flatnonzero(verdicts == kernels.MISFIT)
        told = zip(bad.tolist(), misfits[bad].tolist(), strict=True)
        errors = {row: self._why(blobs.data, *where) for row, where in told}
        return found, np.flatnonzero((verdicts == kernels.DOUBTFUL) & (is_null == 0)), errors

    def _why(self, data: NDArray[np.uint8], node: int, start: int, end: int) -> str:
        return misfit(*self.told[node], data[start:end].tobytes())


def reader(kind: pa.StructType) -> Reader | None:
    """None for types in which a name comes twice, or times are not microseconds."""
    tree = _Tree()
    tree.rows.append([0] * kernels.NODE_COLUMNS)
    tree.told.append(("$", "an object"))
    shape = tree.add(kind, 0, "$", 0, 1)
    if shape is None:
        return None
    nodes, names = np.array(tree.rows, np.int64), np.frombuffer(bytes(tree.names) or b"\0", np.uint8)
    widest = max(row[kernels.COUNT] for row in tree.rows)
    frame_bytes = _FRAME_BYTES + (widest + 7) // 8 * 8
    return Reader(nodes, names, tree.layout, shape, tree.depth, frame_bytes, tuple(tree.told), kind)


@dataclass(slots=True)
class _Tree:
    layout: Layout = field(default_factory=Layout)
    rows: list[list[int]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)
    depth: int = 0

    def add(self, kind: pa.DataType, node: int, path: str, level: int, depth: int) -> Shape | None:
        """Fill the row of a value, and make those of what is in it."""
        types, row = pa.types, self.rows[node]
        row[kernels.COLUMN] = column = self.layout.column(level)
        self.depth = max(self.depth, depth)
        if types.is_struct(kind):
            self.told[node] = (path, "an object")
            row[kernels.KIND], parts = kernels.OBJECT, [(of.name, of.type) for of in kind]
            if len({name for name, _ in parts}) < len(parts):
                return None
            shapes = self._inside(node, parts, path, level, depth)
            return None if shapes is None else Record(column, shapes)
        if types.is_list(kind) or types.is_map(kind):
            self.told[node] = (path, "an object" if types.is_map(kind) else "an array")
            row[kernels.KIND] = kernels.MAP if types.is_map(kind) else kernels.LIST
            row[kernels.LEVEL] = inside = self.layout.level()
            parts = [("", kind.key_type), ("", kind.item_type)] if types.is_map(kind) else [("", kind.value_type)]
            shapes = self._inside(node, parts, f"{path}[]", inside, depth)
            row[kernels.COUNT] = 0
            return None if shapes is None else Repeated(column, inside, shapes)
        self.told[node] = (path, ddl(kind))
        return self._leaf(kind, row, column)

    def _inside(
        self, node: int, parts: list[tuple[str, pa.DataType]], path: str, level: int, depth: int
    ) -> tuple[Shape, ...] | None:
        """The rows of what is in a value lie one behind the other."""
        first = len(self.rows)
        self.rows[node][kernels.FIRST], self.rows[node][kernels.COUNT] = first, len(parts)
        self.rows += [[0] * kernels.NODE_COLUMNS for _ in parts]
        self.told += [("", "") for _ in parts]
        shapes = []
        for at, (name, kind) in enumerate(parts, first):
            self.rows[at][kernels.NAME], self.rows[at][kernels.NAME_BYTES] = len(self.names), len(name.encode())
            self.names += name.encode()
            shapes.append(self.add(kind, at, f"{path}.{name}" if name else path, level, depth + 1))
        known = tuple(shape for shape in shapes if shape is not None)
        return known if len(known) == len(shapes) else None

    def _leaf(self, kind: pa.DataType, row: list[int], column: int) -> Leaf | None:
        types, form = pa.types, ""
        if types.is_signed_integer(kind):
            row[kernels.KIND], row[kernels.MOST] = kernels.INTEGER, 2 ** (kind.bit_width - 1) - 1
        elif types.is_floating(kind):
            row[kernels.KIND], form = kernels.FLOATING, "text"
        elif types.is_boolean(kind):
            row[kernels.KIND] = kernels.BOOLEAN
        elif types.is_string(kind):
            row[kernels.KIND] = kernels.TEXT
        elif types.is_decimal128(kind) and kind.scale >= 0:
            row[kernels.KIND], form = kernels.DECIMAL, "signed"
            row[kernels.LEAST], row[kernels.MOST] = kind.scale, kind.precision
        elif types.is_binary(kind):
            row[kernels.KIND] = kernels.BASE64
        elif types.is_date32(kind):
            row[kernels.KIND] = kernels.DATE
        elif types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
            row[kernels.KIND], row[kernels.LEAST] = kernels.TIME, int(kind.tz is not None)
        else:
            return None
        return Leaf(column, form=form)
