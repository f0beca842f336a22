"""Arrow's types and Spark's: what a type is called in Spark's DDL, and which Arrow type a piece of DDL means."""

import re
from collections.abc import Callable

import pyarrow as pa

from ottla.spark.formats.format import BadSchema

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
}
_TYPES = {name: kind for kind, name in _NAMES.items()} | {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "real": pa.float32(),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
}
_DECIMAL_DEFAULT = (10, 0)
_DECIMAL_DIGITS_MAX = 38
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_]+)|('(?:[^'\\]|\\.)*')|([<>(),:]))")


def ddl(kind: pa.DataType | pa.Schema) -> str:
    """What Spark calls the type; of a schema or struct that stands for a whole row, its columns: `columns_ddl`."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{_quoted(field.name)}: {_field(field)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    raise BadSchema(f"Spark has no type for Arrow's {kind}")


def columns_ddl(row: pa.Schema | pa.StructType) -> str:
    """The columns of a table, as in CREATE TABLE."""
    return ", ".join(f"{_quoted(field.name)} {_field(field)}" for field in row)


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type that Spark makes of a type in DDL, or of columns: then a struct."""
    return _Parser(text).whole()


def mapped(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with `change` made to every plain type in it."""
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, mapped(part.type, change)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, mapped(kind.item_type, change))
    if pa.types.is_list(kind):
        return pa.list_(mapped(kind.value_type, change))
    return change(kind)


def _field(field: pa.Field) -> str:
    return ddl(field.type) + ("" if field.nullable else " not null")


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """By recursive descent; names in back quotes may be anything, comments of columns are read over."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._tokens: list[str] = []
        while text[self._at :].strip():
            match = _TOKEN.match(text, self._at)
            if match is None:
                raise self._fault(f"unexpected {text[self._at :].strip()[0]!r}")
            self._tokens.append(match[0].strip())
            self._at = match.end()
        self._tokens.reverse()

    def whole(self) -> pa.DataType:
        following = self._tokens[-2:-1]
        is_one_type = not following or following[0] in ("<", "(") or self._peek() == "interval"
        found = self._type() if is_one_type else pa.struct(self._fields("", separator=None))
        if self._tokens:
            raise self._fault(f"unexpected {self._tokens[-1]!r}")
        return found

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        parts: dict[str, Callable[[], pa.DataType]] = {
            "array": lambda: pa.list_(self._type()),
            "map": self._map,
            "struct": lambda: pa.struct(self._fields(">", separator=":")),
        }
        if name in parts:
            self._expect("<")
            found = parts[name]()
            self._expect(">")
            return found
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name in ("varchar", "char"):
            self._expect("(")
            self._number()
            self._expect(")")
            return pa.string()
        if name == "interval":
            for word in ("day", "to", "second"):
                self._expect(word)
            return pa.duration("us")
        if name not in _TYPES:
            raise self._fault(f"no type is called {name}")
        return _TYPES[name]

    def _map(self) -> pa.DataType:
        key = self._type()
        self._expect(",")
        return pa.map_(key, self._type())

    def _decimal(self) -> pa.DataType:
        precision, scale = _DECIMAL_DEFAULT
        if self._peek() == "(":
            self._expect("(")
            precision, scale = self._number(), 0
            if self._peek() == ",":
                self._expect(",")
                scale = self._number()
            self._expect(")")
        if not scale <= precision <= _DECIMAL_DIGITS_MAX or precision < 1:
            raise self._fault(f"a decimal has 1 to {_DECIMAL_DIGITS_MAX} digits, not ({precision},{scale})")
        return pa.decimal128(precision, scale)

    def _fields(self, end: str, separator: str | None) -> list[pa.Field]:
        fields: list[pa.Field] = []
        while self._peek() != end:
            if fields:
                self._expect(",")
            name = self._next()
            if name in "<>(),:" or name.startswith("'"):
                raise self._fault(f"unexpected {name!r}")
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if separator is not None and self._peek() == separator:
                self._expect(separator)
            kind = self._type()
            is_nullable = self._peek() != "not"
            if not is_nullable:
                self._expect("not")
                self._expect("null")
            if self._peek() == "comment":
                self._expect("comment")
                self._next()
            fields.append(pa.field(name, kind, is_nullable))
        return fields

    def _number(self) -> int:
        token = self._next()
        if not token.isdecimal():
            raise self._fault(f"{token!r} where a number is needed")
        return int(token)

    def _peek(self) -> str:
        return self._tokens[-1].lower() if self._tokens else ""

    def _next(self) -> str:
        if not self._tokens:
            raise self._fault("it ends early")
        return self._tokens.pop()

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._fault(f"{token!r} is missing" + (f" in front of {self._tokens[-1]!r}" if self._tokens else ""))
        self._tokens.pop()

    def _fault(self, why: str) -> BadSchema:
        shown = self._text if len(self._text) <= 80 else self._text[:77] + "…"
        return BadSchema(f"{shown!r}: {why}")
