"""Avro's records into Arrow without a Python object for each, where there are no lists, maps or real unions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.arrow.record_kernels import gather
from ottla.spark.formats import avro_kernels as kernels
from ottla.spark.formats.avro_schema import ParsedSchema, Schema, kind_of

_SIZES = {"float": 4, "double": 8, "boolean": 1}
_STEPS = {"float": kernels.FLOATING, "double": kernels.FLOATING, "boolean": kernels.BOOLEAN}
_LONG_ARGUMENTS = {"int": -1, "long": 0}


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """A program for a schema, and what its columns become."""

    program: NDArray[np.int64]
    column_count: int
    shape: "_Leaf | _Record"
    stored: pa.DataType

    def read(self, column: pa.Array) -> tuple[pa.Array, list[int]] | None:
        """Values of the schema's stored type, null in the rows that are also given: those could not be read here.

        None when there is more to say about some value than this reader knows.
        """
        blobs = blobs_of(column)
        count = len(column)
        numbers = np.zeros((self.column_count, count), np.int64)
        sizes = np.zeros((self.column_count, count), np.int32)
        is_there = np.zeros((self.column_count, count), np.uint8)
        is_null = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
        is_bad = is_null.copy()
        kernels.run(blobs.data, blobs.bounds, self.program, numbers, sizes, is_there, is_bad)
        try:
            found = _Columns(blobs.data, numbers, sizes, is_there).array(self.shape, self.stored)
        except (pa.ArrowInvalid, OverflowError):
            return None
        return found, np.flatnonzero(is_bad & ~is_null & 1).tolist()


def column_reader(parsed: ParsedSchema) -> ColumnReader | None:
    """None for schemas with lists, maps, or unions of more than null and one type."""
    program = _Program(parsed.named)
    shape = program.add(parsed.schema)
    if shape is None:
        return None
    return ColumnReader(np.array(program.steps, np.int64), program.column_count, shape, parsed.stored)


@dataclass(frozen=True, slots=True)
class _Leaf:
    column: int
    kind: str
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    column: int
    fields: tuple["_Leaf | _Record", ...]


@dataclass(slots=True)
class _Program:
    named: Mapping[str, Schema]
    steps: list[list[int]] = field(default_factory=list)
    column_count: int = 0

    def add(self, schema: Schema) -> _Leaf | _Record | None:
        schema = self.named.get(schema, schema) if isinstance(schema, str) else schema
        kind = kind_of(schema)
        match kind:
            case "union":
                return self._optional(schema)
            case "record" | "error":
                column = self._step(kernels.RECORD, 0)
                fields = [self.add(part["type"]) for part in schema["fields"]]
                known = tuple(found for found in fields if found is not None)
                return _Record(column, known) if len(known) == len(fields) else None
            case "enum":
                symbols = tuple(schema["symbols"])
                return _Leaf(self._step(kernels.LONG, len(symbols)), kind, symbols)
            case "int" | "long":
                return _Leaf(self._step(kernels.LONG, _LONG_ARGUMENTS[kind]), kind)
            case "float" | "double" | "boolean":
                return _Leaf(self._step(_STEPS[kind], _SIZES[kind]), kind)
            case "bytes" | "string":
                return _Leaf(self._step(kernels.BYTES, 0), kind)
            case "fixed":
                return _Leaf(self._step(kernels.FIXED, schema["size"]), kind)
        return None

    def _optional(self, union: list[Schema]) -> _Leaf | _Record | None:
        kinds = [kind_of(branch) for branch in union]
        if len(union) != 2 or kinds.count("null") != 1:
            return None
        null = kinds.index("null")
        at = len(self.steps)
        self.steps.append([kernels.OPTIONAL, -1, null, 0])
        found = self.add(union[1 - null])
        self.steps[at][kernels.LEAVES_OUT] = len(self.steps) - at - 1
        return found

    def _step(self, step: int, argument: int) -> int:
        column = self.column_count
        self.steps.append([step, column, argument, 0])
        self.column_count += 1
        return column


@dataclass(frozen=True, slots=True)
class _Columns:
    data: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    sizes: NDArray[np.int32]
    is_there: NDArray[np.uint8]

    def array(self, shape: _Leaf | _Record, kind: pa.DataType) -> pa.Array:
        is_null = self.is_there[shape.column] == 0
        if isinstance(shape, _Record):
            if not shape.fields:
                return pa.array([None if null else {} for null in is_null.tolist()], kind)
            children = [self.array(part, part_of.type) for part, part_of in zip(shape.fields, kind, strict=True)]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(is_null))
        if shape.kind in ("bytes", "string", "fixed"):
            return self._bytes(shape.column, kind)
        numbers: NDArray[Any] = self.numbers[shape.column]
        match shape.kind:
            case "boolean":
                numbers = numbers != 0
            case "float":
                numbers = numbers.astype(np.uint32).view(np.float32)
            case "double":
                numbers = numbers.view(np.float64)
            case "int" | "enum":
                numbers = numbers.astype(np.int32)
        found = pa.array(numbers, mask=is_null, from_pandas=False)
        if shape.kind == "enum":
            return pa.DictionaryArray.from_arrays(found, pa.array(shape.symbols, pa.string())).cast(kind)
        return found.cast(kind)

    def _bytes(self, column: int, kind: pa.DataType) -> pa.Array:
        places, sizes = self.numbers[column], self.sizes[column]
        bits = pa.py_buffer(np.packbits(self.is_there[column], bitorder="little"))
        if pa.types.is_decimal128(kind):
            wide = np.empty(len(places) * kernels.DECIMAL_BYTES, np.uint8)
            if not kernels.widen(self.data, places, sizes, wide):
                raise OverflowError
            found = pa.Array.from_buffers(kind, len(places), [bits, pa.py_buffer(wide)])
            found.validate(full=True)
            return found
        bounds = np.zeros(len(places) + 1, np.int32)
        np.cumsum(sizes, out=bounds[1:])
        content = np.empty(int(bounds[-1]), np.uint8)
        gather(self.data, places, bounds, content)
        buffers = [bits, pa.py_buffer(bounds), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.binary(), len(places), buffers).cast(kind)
