"""Avro's types and Arrow's: as Spark's own Avro reader maps them, all of them nullable.

A union of null and one type is that type; int and long are long, float and double are double; any other union is a
struct of `member0`, `member1`, …, of which one is not null. Times of day stay numbers, UUIDs text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import mapped

Schema: TypeAlias = Any
"""As JSON has it: a name, a list of branches, or an object."""

_DECIMAL_DIGITS_MAX = 38
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_WIDENED = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}


@dataclass(slots=True)
class ParsedSchema:
    """A schema without the logical types that cost time and lose digits in Python, and the type of its values.

    `stored` has the units of the schema, `type` those of Spark.
    """

    schema: Schema
    stored: pa.DataType
    named: dict[str, Schema] = field(default_factory=dict)

    @property
    def type(self) -> pa.DataType:
        return mapped(self.stored, lambda kind: pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind)

    @property
    def bare(self) -> pa.DataType:
        """With dates and times as the numbers that they are in Avro."""
        return mapped(self.stored, _number)


def parse(schema: Schema) -> ParsedSchema:
    """Raises BadSchema for what is no Avro schema, or has no type in Spark."""
    named: dict[str, Schema] = {}
    try:
        found = parse_schema(schema, named)
        stored = _Mapping(named).type_of(found, "$", ())
        return ParsedSchema(parse_schema(_plain(found, named), {}), stored, named)
    except (SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as fault:
        raise BadSchema(f"not an Avro schema: {fault}") from None


def branches(union: list[Schema]) -> list[Schema]:
    """Those that are not null."""
    return [branch for branch in union if kind_of(branch) != "null"]


def kind_of(schema: Schema) -> str:
    """`record`, `array`, `int` …; of a union `union`, of a name that name."""
    if isinstance(schema, list):
        return "union"
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    return kind if isinstance(kind, str) else kind_of(kind)


def single_branch(union: list[Schema]) -> Schema | None:
    """What a union comes down to if it is not to be a struct."""
    some = branches(union)
    if len(some) == 1:
        return some[0]
    return _WIDENED.get(frozenset(map(kind_of, some))) if len(some) == 2 else None


class _Mapping:
    def __init__(self, named: Mapping[str, Schema]) -> None:
        self._named = named

    def type_of(self, schema: Schema, path: str, inside: tuple[str, ...]) -> pa.DataType:
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        kind = kind_of(schema)
        match kind:
            case "union":
                return self._union(schema, path, inside)
            case "record" | "error":
                name = schema["name"]
                if name in inside:
                    raise BadSchema(f"{path}: {name} contains itself, and Spark has no such types")
                return pa.struct(
                    [
                        (part["name"], self.type_of(part["type"], f"{path}.{part['name']}", (*inside, name)))
                        for part in schema["fields"]
                    ]
                )
            case "array":
                if not self._bytes_min(schema["items"], ()):
                    raise BadSchema(f"{path}: elements of no bytes, of which a few bytes could claim any number")
                return pa.list_(self.type_of(schema["items"], f"{path}[]", inside))
            case "map":
                return pa.map_(pa.string(), self.type_of(schema["values"], f"{path}[]", inside))
        logical = str(schema.get("logicalType")) if isinstance(schema, Mapping) else ""
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return _decimal(schema, path)
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if kind not in _PLAIN:
            raise BadSchema(f"{path}: Spark has no column of type {kind}")
        return _PLAIN[kind]

    def _union(self, union: list[Schema], path: str, inside: tuple[str, ...]) -> pa.DataType:
        single = single_branch(union)
        if single is not None:
            return self.type_of(single, path, inside)
        some = branches(union)
        kinds = {kind_of(self._named.get(branch, branch) if isinstance(branch, str) else branch) for branch in some}
        if any(pair <= kinds for pair in _WIDENED):
            raise BadSchema(f"{path}: a union of numbers that cannot be told from one another, and more")
        return pa.struct([(f"member{index}", self.type_of(branch, path, inside)) for index, branch in enumerate(some)])

    def _bytes_min(self, schema: Schema, inside: tuple[str, ...]) -> bool:
        """Whether a value takes any bytes at all."""
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        match kind_of(schema):
            case "null":
                return False
            case "fixed":
                return bool(schema["size"])
            case "record" | "error":
                name = schema["name"]
                fields = [] if name in inside else schema["fields"]
                return any(self._bytes_min(part["type"], (*inside, name)) for part in fields)
        return True


def _decimal(schema: Mapping[str, Any], path: str) -> pa.DataType:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if precision > _DECIMAL_DIGITS_MAX:
        raise BadSchema(f"{path}: a decimal of {precision} digits, where Spark has {_DECIMAL_DIGITS_MAX}")
    return pa.decimal128(precision, scale)


def _plain(schema: Schema, named: Mapping[str, Schema]) -> Schema:
    """The schema without logical types but decimals: what is left are numbers and text."""
    if isinstance(schema, list):
        return [_plain(branch, named) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = {name: value for name, value in schema.items() if not name.startswith("__")}
    if copy.get("logicalType") != "decimal":
        copy.pop("logicalType", None)
    for name in ("items", "values", "type"):
        if name in copy:
            copy[name] = _plain(copy[name], named)
    if "fields" in copy:
        copy["fields"] = [_plain(part, named) for part in copy["fields"]]
    return copy


def _number(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind
