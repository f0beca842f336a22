"""Formats by name, for who writes `format = 'avro'`: one row each, and the options that it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from ottla.spark.formats.format import BadSchema, Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is said of a format: its options, the columns if they are declared, and where relative paths begin."""

    options: Mapping[str, str]
    columns: pa.DataType | None = None
    directory: Path = Path()


Make: TypeAlias = Callable[[Wanted], Format]


@dataclass(frozen=True, slots=True)
class FormatRow:
    make: Make
    options: frozenset[str] = frozenset()


def format_named(name: str, wanted: Wanted) -> Format:
    """Raises BadSchema for a name that nobody has, options that are missing, and schemas that are none."""
    row = FORMATS.get(name)
    if row is None:
        raise BadSchema(f"there is no format {name}; there are {', '.join(FORMATS)}")
    return row.make(wanted)


def _raw(_: Wanted) -> Format:
    from ottla.spark.formats.plain import Raw

    return Raw()


def _string(_: Wanted) -> Format:
    from ottla.spark.formats.plain import Text

    return Text()


def _json(wanted: Wanted) -> Format:
    from ottla.spark.formats.json_format import Json

    if wanted.columns is None:
        raise BadSchema("json needs columns: a record does not say of which types it is")
    return Json(wanted.columns)


def _avro(wanted: Wanted) -> Format:
    from ottla.spark.formats.avro_format import Avro

    schema = _schema(wanted, "avro", "a file (.avsc), or the schema itself")
    return Avro.from_text(schema) if schema.lstrip()[:1] in "{[" else Avro.from_file(wanted.directory / schema)


def _protobuf(wanted: Wanted) -> Format:
    from ottla.spark.formats.proto_format import Protobuf

    schema = _schema(wanted, "protobuf", "a .proto file or a compiled descriptor set")
    return Protobuf.from_file(wanted.directory / schema, wanted.options.get("message"), include=[wanted.directory])


def _schema(wanted: Wanted, name: str, what: str) -> str:
    schema = wanted.options.get("schema", "")
    if not schema.strip():
        raise BadSchema(f"{name} needs the option schema: {what}")
    return schema


FORMATS: Mapping[str, FormatRow] = {
    "raw": FormatRow(_raw),
    "string": FormatRow(_string),
    "json": FormatRow(_json),
    "avro": FormatRow(_avro, frozenset({"schema"})),
    "protobuf": FormatRow(_protobuf, frozenset({"schema", "message"})),
}
