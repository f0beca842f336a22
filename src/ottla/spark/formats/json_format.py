"""JSON objects against a wanted type: by Arrow's reader in blocks, and row by row where a block has something wrong."""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.formats import json_scan
from ottla.spark.formats.doubts import settled
from ottla.spark.formats.format import BadSchema, Converted, with_errors
from ottla.spark.formats.json_reading import reader
from ottla.spark.formats.json_values import NotFitting, parser
from ottla.spark.formats.json_writing import NOT_FINITE, document
from ottla.spark.formats.plain import not_utf8
from ottla.spark.formats.writing import written

_BLOCK_ROWS = 16 * 1024
_BLOCK_BYTES = 32 * 1024 * 1024
_ROWS_BY_HAND = 16
"""A block with something wrong is halved until it is this small, where Arrow does not say which row it is."""
_ROW = re.compile(r" in row (\d+)$")


class Json:
    """One JSON object per record; `type` is a struct.

    Fields that the type does not name are passed over, those that are missing are null. Numbers, strings and booleans
    are not taken for one another, but a decimal may be a string; dates and times are strings (ISO 8601, UTC where there
    is no zone), bytes are base64.
    """

    def __init__(self, kind: pa.DataType) -> None:
        if not pa.types.is_struct(kind):
            raise BadSchema("a JSON record is an object: its type has columns")
        self.type = kind
        self._parse_one = parser(kind)
        self._document = document(kind)
        self._reader = reader(kind)
        self._read_type = _read_type(kind)

    def __reduce__(self) -> tuple[type["Json"], tuple[pa.DataType]]:
        return Json, (self.type,)

    def decode(self, column: pa.Array) -> Converted:
        column = column.cast(pa.binary())
        read = self._reader.read(column) if self._reader is not None and len(column) else None
        if read is None:
            return self._decode(column)
        found, doubtful, misfits = read
        made = settled(found, doubtful, lambda rows: self._decode(column.take(rows)))
        if not misfits:
            return made
        doubts = {row: text for row, text in enumerate(made.errors.to_pylist()) if text} if len(doubtful) else {}
        return with_errors(made.results, doubts | misfits)

    def _decode(self, column: pa.Array) -> Converted:
        """By Arrow and by hand, which have the last word on what a document is."""
        if not len(column):
            return with_errors(pa.array([], self.type), {})
        errors = not_utf8(column)
        scanned = _Scanned(column, errors)
        results = pa.concat_arrays(list(self._blocks(scanned, errors)))
        is_null = scanned.kinds != json_scan.OBJECT
        is_null[list(errors)] = True
        for row in np.flatnonzero(scanned.kinds > json_scan.NULL).tolist():
            content = column[row].as_py()
            if content.strip() != b"null":  # which is null, and no fault
                errors.setdefault(row, json_scan.why_not(int(scanned.kinds[row]), content))
        return with_errors(_with_nulls(results, is_null), errors)

    def encode(self, values: pa.Array) -> Converted:
        values = values.cast(self.type)
        records, bad = written(self._document, values)
        return with_errors(records, dict.fromkeys(bad.tolist(), NOT_FINITE))

    def _blocks(self, scanned: "_Scanned", errors: dict[int, str]) -> Iterator[pa.Array]:
        count = len(scanned.kinds)
        first = 0
        while first < count:
            end = scanned.block_end(first)
            yield from self._rows(scanned, first, end, errors)
            first = end

    def _rows(self, scanned: "_Scanned", first: int, end: int, errors: dict[int, str]) -> Iterator[pa.Array]:
        while first < end:
            found = self._read(scanned.lines(first, end), end - first)
            if isinstance(found, pa.Array):
                yield found
                return
            if found is not None and found < end - first:
                yield from self._rows(scanned, first, first + found, errors)
                yield pa.array([self._by_hand(scanned, first + found, errors)], self.type)
                first += found + 1
            elif end - first <= _ROWS_BY_HAND or self._read_type is None:
                yield pa.array([self._by_hand(scanned, row, errors) for row in range(first, end)], self.type)
                return
            else:
                middle = (first + end) // 2
                yield from self._rows(scanned, first, middle, errors)
                first = middle

    def _by_hand(self, scanned: "_Scanned", row: int, errors: dict[int, str]) -> object:
        try:
            return self._parse_one(bytes(scanned.lines(row, row + 1)))
        except NotFitting as fault:
            errors.setdefault(row, str(fault))
            return None

    def _read(self, lines: memoryview, count: int) -> pa.Array | int | None:
        """The rows of these lines if all are as wanted; else the first that is not, if Arrow says which."""
        if self._read_type is None:
            return None
        try:
            table = arrow_json.read_json(
                pa.BufferReader(pa.py_buffer(lines)),
                arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                arrow_json.ParseOptions(
                    explicit_schema=pa.schema(list(self._read_type)), unexpected_field_behavior="ignore"
                ),
            )
            rows = table.combine_chunks().to_struct_array().cast(self.type)
        except pa.ArrowInvalid as fault:
            row = _ROW.search(str(fault))
            return int(row[1]) if row else None
        if len(rows) != count:
            return None
        return pa.concat_arrays(rows.chunks) if isinstance(rows, pa.ChunkedArray) else rows


class _Scanned:
    """A column as lines for Arrow's reader."""

    def __init__(self, column: pa.Array, bad: dict[int, str]) -> None:
        blobs = blobs_of(column)
        is_there = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        is_there[list(bad)] = 0
        size = int(blobs.bounds[-1]) - int(blobs.bounds[0])
        self._ends = np.empty(len(column), np.int64)
        self._lines = np.empty(size + 3 * len(column), np.uint8)
        self.kinds = np.empty(len(column), np.uint8)
        json_scan.lines_of(blobs, is_there, self.kinds, self._ends, self._lines)

    def block_end(self, first: int) -> int:
        full = int(np.searchsorted(self._ends, self._start(first) + _BLOCK_BYTES))
        return min(max(full, first + 1), first + _BLOCK_ROWS, len(self._ends))

    def lines(self, first: int, end: int) -> memoryview:
        lines: NDArray[np.uint8] = self._lines[self._start(first) : int(self._ends[end - 1])]
        return memoryview(lines)  # type: ignore[arg-type]

    def _start(self, row: int) -> int:
        return int(self._ends[row - 1]) if row else 0


def _read_type(kind: pa.DataType) -> pa.DataType | None:
    """What to ask Arrow's reader for: it knows no maps, and takes dates for numbers and base64 for bytes."""
    types = pa.types
    if types.is_struct(kind):
        fields = [(field.name, _read_type(field.type)) for field in kind]
        names = [name for name, _ in fields]
        is_known = fields and all(found is not None for _, found in fields) and len(set(names)) == len(names)
        return pa.struct(fields) if is_known else None
    if types.is_list(kind):
        found = _read_type(kind.value_type)
        return None if found is None else pa.list_(pa.field(kind.value_field.name, found))
    if types.is_date32(kind):
        return pa.string()
    return None if types.is_map(kind) or types.is_binary(kind) else kind


def _with_nulls(rows: pa.StructArray, is_null: NDArray[np.bool_]) -> pa.Array:
    if not is_null.any():
        return rows
    fields = [rows.field(index) for index in range(rows.type.num_fields)]
    is_null = is_null | rows.is_null().to_numpy(zero_copy_only=False)
    return pa.StructArray.from_arrays(fields, fields=list(rows.type), mask=pa.array(is_null))
