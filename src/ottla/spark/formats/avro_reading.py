"""Avro's records into Arrow without a Python object for each: a program for the schema, run by a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.formats import avro_kernels as kernels
from ottla.spark.formats.avro_schema import ParsedSchema, Schema, branches, kind_of, single_branch
from ottla.spark.formats.cells import Filled, Layout, Leaf, Record, Repeated, Shape, with_more_room

_INT, _LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_FLOATING_BYTES = {"float": 4, "double": 8}
_MILLIS = (-(2**63) // 1000 + 1, (2**63 - 1) // 1000)
"""Spark's times are microseconds."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A program for a schema, and what its columns become."""

    program: NDArray[np.int64]
    layout: Layout
    shape: Shape
    depth: int
    bare: pa.DataType

    def read(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.int64]] | None:
        """Values of the schema's bare type, null in the rows that are also given: those could not be read here.

        None when there is more than a column of Arrow can hold.
        """
        blobs = blobs_of(column)
        is_null = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        is_bad = is_null.copy()
        cells = self.layout.cells(len(column))
        left = np.zeros(self.depth + 1, np.int64)
        while full := kernels.read(blobs.data, blobs.bounds, self.program, cells, is_bad, left):
            cells = with_more_room(cells, full, int(blobs.bounds[-1]) - int(blobs.bounds[0]))
        try:
            found = Filled(cells, blobs.data).array(self.shape, self.bare)
        except OverflowError:
            return None
        return found, np.flatnonzero(is_bad & ~is_null & 1)


def reader(parsed: ParsedSchema) -> Reader | None:
    """None for schemas with unions in which two branches are of one kind, or float and double stand together."""
    program = _Program(parsed.named)
    shape = program.add(parsed.schema, parsed.stored, 0, 0)
    if shape is None:
        return None
    program.step(kernels.STOP)
    return Reader(np.array(program.steps, np.int64), program.layout, shape, program.depth, parsed.bare)


@dataclass(slots=True)
class _Program:
    named: Mapping[str, Schema]
    steps: list[list[int]] = field(default_factory=list)
    layout: Layout = field(default_factory=Layout)
    depth: int = 0

    def step(self, step: int, column: int = -1, least: int = 0, most: int = 0) -> int:
        """Number of the row that this step takes in the program."""
        self.steps.append([step, column, -1, least, most, -1])
        return len(self.steps) - 1

    def add(self, schema: Schema, kind: pa.DataType, level: int, depth: int) -> Shape | None:
        """Steps that read a value of the schema, of which Arrow's type is given."""
        schema = self._resolved(schema)
        match kind_of(schema):
            case "union":
                return self._union(schema, kind, level, depth)
            case "record" | "error":
                column = self.layout.column(level)
                self.step(kernels.RECORD, column)
                parts = [
                    self.add(part["type"], of.type, level, depth)
                    for part, of in zip(schema["fields"], kind, strict=True)
                ]
                known = tuple(part for part in parts if part is not None)
                return Record(column, known) if len(known) == len(parts) else None
            case "array" | "map":
                return self._repeated(schema, kind, level, depth)
        return self._plain(schema, kind, level)

    def _plain(self, schema: Schema, kind: pa.DataType, level: int) -> Leaf:
        column, names = self.layout.column(level), None
        match kind_of(schema):
            case "enum":
                names = dict(enumerate(schema["symbols"]))
                self.step(kernels.LONG, column, 0, len(names) - 1)
            case "int":
                self.step(kernels.LONG, column, *_INT)
            case "long":
                self.step(kernels.LONG, column, *(_MILLIS if kind in _IN_MILLIS else _LONG))
            case "boolean":
                self.step(kernels.BOOLEAN, column, 1)
            case "float" | "double" as name:
                self.step(kernels.FLOATING, column, _FLOATING_BYTES[name])
            case "string":
                self.step(kernels.STRING, column)
            case "bytes" | "fixed" as name:
                size = schema["size"] if name == "fixed" else -1
                if pa.types.is_decimal128(kind):
                    self.step(kernels.DECIMAL, column, size)
                    self.step(kernels.DECIMAL, -1, *_halves(10**kind.precision))
                else:
                    self.step(kernels.BYTES if size < 0 else kernels.FIXED, column, size)
        return Leaf(column, names)

    def _repeated(self, schema: Schema, kind: pa.DataType, level: int, depth: int) -> Shape | None:
        self.depth = max(self.depth, depth + 1)
        column, inside = self.layout.column(level), self.layout.level()
        start = self.step(kernels.LIST, column, inside)
        if pa.types.is_map(kind):
            keys = self._plain("string", kind.key_type, inside)
            parts = [keys, self.add(schema["values"], kind.item_type, inside, depth + 1)]
        else:
            parts = [self.add(schema["items"], kind.value_type, inside, depth + 1)]
        following = self.step(kernels.NEXT, column, inside)
        self.steps[start][kernels.TARGET] = following
        self.steps[following][kernels.TARGET] = start + 1
        if pa.types.is_map(kind):
            self.steps[following][kernels.KEYS] = keys.column
        known = tuple(part for part in parts if part is not None)
        return Repeated(column, inside, known) if len(known) == len(parts) else None

    def _union(self, union: list[Schema], kind: pa.DataType, level: int, depth: int) -> Shape | None:
        kinds = [_identity(self._resolved(branch)) for branch in union]
        is_struct, is_wide = single_branch(union) is None, len(branches(union)) > 1
        if len(set(kinds)) < len(kinds) or (is_wide and not is_struct and not set(kinds) <= {"null", "int", "long"}):
            return None
        column = self.layout.column(level) if is_wide else -1
        self.step(kernels.UNION, -1, len(union))
        targets = [self.step(kernels.UNION) for _ in union]
        parts: list[Shape | None] = []
        jumps = []
        for branch, name, target in zip(union, kinds, targets, strict=True):
            self.steps[target][kernels.TARGET] = len(self.steps)
            if name != "null" and is_wide and not is_struct:
                self.step(kernels.LONG, column, *(_INT if name == "int" else _LONG))
            elif name != "null":
                if is_struct:
                    self.step(kernels.RECORD, column)
                parts.append(self.add(branch, kind.field(len(parts)).type if is_struct else kind, level, depth))
            jumps.append(self.step(kernels.JUMP))
        for jump in jumps:
            self.steps[jump][kernels.TARGET] = len(self.steps)
        known = tuple(part for part in parts if part is not None)
        if len(known) < len(parts):
            return None
        if is_struct:
            return Record(column, known)
        return Leaf(column) if is_wide else known[0]

    def _resolved(self, schema: Schema) -> Schema:
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


_IN_MILLIS = (pa.timestamp("ms", "UTC"), pa.timestamp("ms"))


def _identity(schema: Schema) -> str:
    """What tells a branch of a union from the others: of records, enums and fixed the name."""
    kind = kind_of(schema)
    return str(schema["name"]) if kind in ("record", "error", "enum", "fixed") else kind


def _halves(number: int) -> tuple[int, int]:
    """The upper and the lower 64 bits, as numbers with a sign."""
    high, low = number >> 64, number & (2**64 - 1)
    return high, low - 2**64 if low >= 2**63 else low
