"""Avro records without a file around them, as they are in topics; the schema is known beforehand.

Kernels read and write them; what a kernel doubts, and schemas that none can be made for, are fastavro's, which makes a
Python object of each record.
"""

import json
import re
import struct
from collections.abc import Callable, Iterable
from decimal import DecimalException
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.repository.base import SchemaRepositoryError
from fastavro.schema import SchemaParseException, load_schema

from ottla.spark.formats import avro_unions
from ottla.spark.formats.avro_reading import reader
from ottla.spark.formats.avro_schema import Schema, parse
from ottla.spark.formats.avro_writing import writer
from ottla.spark.formats.doubts import settled
from ottla.spark.formats.format import BadSchema, Converted, with_errors
from ottla.spark.formats.rows import rows_of
from ottla.spark.formats.writing import written

_UNREADABLE = (
    ArithmeticError,
    DecimalException,
    EOFError,
    LookupError,
    MemoryError,
    SchemaResolutionError,
    StopIteration,
    TypeError,
    ValueError,
    struct.error,
)
"""What fastavro raises, at one place or another, over bytes that are no record of the schema."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_UNWRITABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)


class Avro:
    """Records of one schema. `written_as` is the schema that they were written with, where that is another one."""

    def __init__(self, schema: Schema, *, written_as: Schema | None = None) -> None:
        self._arguments = (schema, written_as)
        self._schema = parse(schema)
        self._writer = None if written_as is None else parse(written_as)
        self.type = self._schema.type
        self._reader = None if self._writer is not None else reader(self._schema)
        self._part = writer(self._schema)
        self._unwrap = avro_unions.unwrapping(self._schema.schema, self._schema.named)
        self._wrap = avro_unions.wrapping(self._schema.schema, self._schema.named)

    @classmethod
    def from_text(cls, text: str) -> "Avro":
        """A schema in JSON."""
        try:
            return cls(json.loads(text))
        except json.JSONDecodeError as fault:
            raise BadSchema(f"not an Avro schema: {fault}") from None

    @classmethod
    def from_file(cls, path: Path) -> "Avro":
        """A schema file (`.avsc`); named types that it does not contain are looked for in files beside it."""
        try:
            return cls(load_schema(str(path)))
        except (SchemaParseException, SchemaRepositoryError, json.JSONDecodeError) as fault:
            raise BadSchema(f"{path}: {fault}") from None
        except OSError as fault:
            raise BadSchema(f"{path}: {fault.strerror or fault}") from None

    def __reduce__(self) -> tuple[Callable[..., "Avro"], tuple[Schema, Schema | None]]:
        return _made, self._arguments

    def decode(self, column: pa.Array) -> Converted:
        column = column.cast(pa.binary())
        read = self._reader.read(column) if self._reader is not None and len(column) else None
        if read is None:
            return self._decode(column)
        found, doubtful = read
        return settled(self._typed(found), doubtful, lambda rows: self._decode(column.take(rows)))

    def _decode(self, column: pa.Array) -> Converted:
        """By fastavro, which has the last word on what a record is."""
        errors: dict[int, str] = {}
        rows = list(self._read(column, errors))
        found = _as_array(rows, lambda some: self._typed(pa.array(some, self._schema.bare)), errors)
        return with_errors(found, errors)

    def _typed(self, bare: pa.Array) -> pa.Array:
        return bare.cast(self._schema.stored).cast(self.type)

    def _read(self, column: pa.Array, errors: dict[int, str]) -> Iterable[Any]:
        writer = self._schema.schema if self._writer is None else self._writer.schema
        reader = None if self._writer is None else self._schema.schema
        unwrap = self._unwrap
        for row, record in enumerate(column.to_pylist()):
            if record is None:
                yield None
                continue
            data = BytesIO(record)
            try:
                value: Any = schemaless_reader(data, writer, reader, return_named_type=unwrap is not None)
                if data.tell() != len(record):
                    raise ValueError(f"{len(record) - data.tell()} bytes are left over")
                yield value if unwrap is None else unwrap(value)
            except _UNREADABLE as fault:
                errors[row] = f"not a record of the Avro schema: {_text(fault)}"
                yield None

    def encode(self, values: pa.Array) -> Converted:
        plain = values.cast(self.type).cast(self._schema.stored, safe=False).cast(self._schema.bare)
        if self._part is None:
            return self._encode(plain)
        return settled(*written(self._part, plain), lambda rows: self._encode(plain.take(rows)))

    def _encode(self, plain: pa.Array) -> Converted:
        """By fastavro, which has the last word on what the schema takes."""
        wrap, schema = self._wrap, self._schema.schema
        errors: dict[int, str] = {}
        records: list[bytes | None] = []
        for row, value in enumerate(rows_of(plain)):
            out = BytesIO()
            try:
                if value is not None:
                    schemaless_writer(out, schema, value if wrap is None else wrap(value))
                records.append(None if value is None else out.getvalue())
            except _UNWRITABLE as fault:
                errors[row] = f"the Avro schema does not take it: {_text(fault)}"
                records.append(None)
        return with_errors(pa.array(records, pa.binary()), errors)


def _made(schema: Schema, written_as: Schema | None) -> Avro:
    return Avro(schema, written_as=written_as)


def _as_array(rows: list[Any], made: Callable[[list[Any]], pa.Array], errors: dict[int, str]) -> pa.Array:
    """Values that are of the schema, but not of the type (more digits than a decimal has, late times), are errors."""
    try:
        return made(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        for row, value in enumerate(rows):
            try:
                made([value])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as fault:
                errors[row], rows[row] = f"not a record of the Avro schema: {fault}", None
        return made(rows)


def _text(fault: BaseException) -> str:
    if isinstance(fault, EOFError):
        return "it ends early"
    return _ADDRESS.sub("", str(fault)) or type(fault).__name__
