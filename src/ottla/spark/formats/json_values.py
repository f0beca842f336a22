"""One JSON document at a time, in plain Python: slow, and exact about what is wrong with it.

It judges the lines that Arrow's reader refused. So it must take whatever that reader takes, and make the same of it:
else a row's fate would depend on the rows around it.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import ddl

Convert: TypeAlias = Callable[[Any], Any]
_SHOWN_CHARS = 40
_INT = re.compile(r"-?\d+")


class NotFitting(ValueError):
    """A document that is no JSON, or not of the wanted type; the text says where."""


class _Number(str):
    """A number as it was written: whether it fits is decided by the type, which the parser does not know."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """An object, with names that come twice."""

    __slots__ = ()


def parser(kind: pa.DataType) -> Callable[[bytes], Any]:
    """A function from a document to a Python value that `pyarrow.array(…, kind)` takes; it raises NotFitting."""
    convert = _converter(kind, "$")

    def parse(document: bytes) -> Any:
        try:
            # Arrow's reader refuses halves of surrogate pairs wherever they are.
            text = document.decode("utf-8")
            found = json.loads(
                text, parse_int=_Number, parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_Pairs
            )
            if "\\u" in text:
                json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise NotFitting("not JSON: half of a surrogate pair") from None
        except UnicodeDecodeError as fault:
            raise NotFitting(f"not UTF-8 at position {fault.start}") from None
        except json.JSONDecodeError as fault:
            raise NotFitting(f"not JSON: {fault.msg} at position {fault.pos}") from None
        except RecursionError:
            raise NotFitting("JSON nested too deep") from None
        return convert(found)

    return parse


def misfit(path: str, wanted: str, token: bytes) -> str:
    """What is said of a value that is JSON and not as wanted."""
    found = json.loads(token, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Pairs)
    return str(_misfit(path, wanted, found))


def _finite(text: str) -> _Number:
    if float(text) in (float("inf"), float("-inf")):
        raise NotFitting(f"not JSON: {_shown(text)} is too large for a number")
    return _Number(text)


def _no_constant(text: str) -> NoReturn:
    raise NotFitting(f"not JSON: {text}")


def _converter(kind: pa.DataType, path: str) -> Convert:
    types = pa.types
    if types.is_struct(kind):
        return _struct(kind, path)
    if types.is_list(kind):
        return _list(_converter(kind.value_type, f"{path}[]"), path)
    if types.is_map(kind):
        return _map(kind, path)
    for is_kind, make in _SCALARS:
        if is_kind(kind):
            return _nullable(make(kind), kind, path)
    raise BadSchema(f"{path}: JSON has nothing for {ddl(kind)}")


def _struct(kind: pa.StructType, path: str) -> Convert:
    fields = {field.name: _converter(field.type, f"{path}.{field.name}") for field in kind}
    empty = dict.fromkeys(fields)

    def convert(found: Any) -> Any:
        if found is None:
            return None
        if type(found) is not _Pairs:
            raise _misfit(path, "an object", found)
        row, seen = empty.copy(), set()
        for name, value in found:
            if name in fields:
                if name in seen:
                    raise NotFitting(f"{path}.{name}: it comes twice")
                seen.add(name)
                row[name] = fields[name](value)
        return row

    return convert


def _list(convert_one: Convert, path: str) -> Convert:
    def convert(found: Any) -> Any:
        if found is None:
            return None
        if type(found) is not list:
            raise _misfit(path, "an array", found)
        return [convert_one(value) for value in found]

    return convert


def _map(kind: pa.MapType, path: str) -> Convert:
    if not pa.types.is_string(kind.key_type):
        raise BadSchema(f"{path}: the names in a JSON object are strings, not {ddl(kind.key_type)}")
    convert_one = _converter(kind.item_type, f"{path}[]")

    def convert(found: Any) -> Any:
        if found is None:
            return None
        if type(found) is not _Pairs:
            raise _misfit(path, "an object", found)
        return list({name: convert_one(value) for name, value in found}.items())

    return convert


def _nullable(convert_some: Convert, kind: pa.DataType, path: str) -> Convert:
    name = ddl(kind)

    def convert(found: Any) -> Any:
        if found is None:
            return None
        try:
            return convert_some(found)
        except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowInvalid):
            raise _misfit(path, name, found) from None

    return convert


def _integer(kind: pa.DataType) -> Convert:
    limit = 1 << kind.bit_width - 1

    def convert(found: Any) -> int:
        if type(found) is not _Number or not _INT.fullmatch(found):
            raise TypeError
        number = int(found)
        if not -limit <= number < limit:
            raise ValueError
        return number

    return convert


def _float(_: pa.DataType) -> Convert:
    def convert(found: Any) -> float:
        if type(found) is not _Number:
            raise TypeError
        return float(found)

    return convert


def _boolean(_: pa.DataType) -> Convert:
    def convert(found: Any) -> bool:
        if type(found) is not bool:
            raise TypeError
        return found

    return convert


def _string(found: Any) -> str:
    if type(found) is not str:
        raise TypeError
    return found


def _decimal(kind: pa.Decimal128Type) -> Convert:
    step, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def convert(found: Any) -> Decimal:
        if type(found) not in (_Number, str):
            raise TypeError
        number = Decimal(str(found))
        exact = number.quantize(step)
        if exact != number or abs(number) >= limit:
            raise ValueError
        return exact

    return convert


def _binary(_: pa.DataType) -> Convert:
    def convert(found: Any) -> bytes:
        try:
            return base64.b64decode(_string(found), validate=True)
        except binascii.Error:
            raise ValueError from None

    return convert


def _date(_: pa.DataType) -> Convert:
    return lambda found: date.fromisoformat(_string(found))


def _timestamp(kind: pa.TimestampType) -> Convert:
    """In microseconds. A time without a zone is one of UTC."""
    zoned, bare = pa.timestamp(kind.unit, "UTC"), pa.timestamp(kind.unit)

    def convert(found: Any) -> int:
        text = pa.scalar(_string(found))
        try:
            when = text.cast(zoned)
        except pa.ArrowInvalid:
            when = text.cast(bare)
        return int(when.value)

    return convert


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Convert]], ...] = (
    (pa.types.is_signed_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_string, lambda _: _string),
    (pa.types.is_decimal128, _decimal),
    (pa.types.is_binary, _binary),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
)


def _misfit(path: str, wanted: str, found: Any) -> NotFitting:
    return NotFitting(f"{path}: {_shown(found)} is no {wanted.removeprefix('an ')}")


def _shown(found: Any) -> str:
    match found:
        case _Number():
            text = str(found)
        case _Pairs():
            text = "an object"
        case list():
            text = "an array"
        case bool():
            text = str(found).lower()
        case _:
            text = json.dumps(found, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
