"""Columns into JSON text without a Python object for each, the way that `json_values` reads it.

Fields that are null are left out, as Spark's to_json does it. Whatever is in an object or a list begins with a comma,
and the bracket then takes the place of the first.
"""

from collections.abc import Callable
from json.encoder import encode_basestring

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of, frozen
from ottla.spark.formats import json_kernels as texts
from ottla.spark.formats import put_kernels as kernels
from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import ddl
from ottla.spark.formats.writing import Elements, Longs, Part, Put, Scope, in_order, longs_of, valid

NOT_FINITE = "JSON has no number that is infinite or none"
_OBJECT, _LIST = b"{}", b"[]"
_TIMES = (-62_167_219_200_000_000, 253_402_300_799_999_999)
"""In microseconds, the years 0 to 9999: others have more than four digits, or a sign."""
_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (pa.types.is_floating, texts.BARE),
    (pa.types.is_boolean, texts.BARE),
    (pa.types.is_string, texts.ESCAPED),
    (pa.types.is_decimal128, texts.BARE),
    (pa.types.is_binary, texts.BASE64),
    (pa.types.is_date32, texts.QUOTED),
    (pa.types.is_timestamp, texts.TIME),
)


def document(kind: pa.DataType) -> Part:
    """Of columns of this type. Raises BadSchema for one that JSON has nothing for."""
    return _some(kind, b"", "$")


def _some(kind: pa.DataType, head: bytes, path: str) -> Part:
    """A value that is there, with a head in front."""
    types = pa.types
    if types.is_struct(kind):
        fields = [
            _some(field.type, f",{encode_basestring(field.name)}:".encode(), f"{path}.{field.name}") for field in kind
        ]
        return _bracketed(_fields(fields), head, _OBJECT)
    if types.is_list(kind):
        return _bracketed(_elements(_or_null(_some(kind.value_type, b",", f"{path}[]"), b",")), head, _LIST)
    if types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise BadSchema(f"{path}: the names in a JSON object are strings, not {ddl(kind.key_type)}")
        return _bracketed(_pairs(_or_null(_some(kind.item_type, b":", f"{path}[]"), b":")), head, _OBJECT)
    if types.is_signed_integer(kind):
        return _integer(head)
    for is_kind, how in _SCALARS:
        if is_kind(kind):
            in_micros = types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC")
            return _time(head, b"Z" if kind.tz else b"") if in_micros else _text(how, head)
    raise BadSchema(f"{path}: JSON has nothing for {ddl(kind)}")


def _text(how: int, head: bytes) -> Part:
    def part(column: pa.Array, scope: Scope) -> Put:
        if pa.types.is_floating(column.type):
            scope.refuse(~np.isfinite(column.fill_null(0).to_numpy(zero_copy_only=False)))
        is_text = how in (texts.ESCAPED, texts.BASE64)
        found, is_live = blobs_of(column if is_text else column.cast(pa.string())), frozen(scope.is_live.view())
        texts.measure_texts(found.bounds, found.data, is_live, len(head), how, scope.sizes)
        name = frozen(np.frombuffer(head, np.uint8))
        return lambda out, cursors: texts.put_texts(found.bounds, found.data, is_live, name, how, out, cursors)

    return part


def _integer(head: bytes) -> Part:
    def part(column: pa.Array, scope: Scope) -> Put:
        values, is_live = frozen(longs_of(column)), frozen(scope.is_live.view())
        texts.measure_integers(values, is_live, len(head), scope.sizes)
        name = frozen(np.frombuffer(head, np.uint8))
        return lambda out, cursors: texts.put_integers(values, is_live, name, out, cursors)

    return part


def _time(head: bytes, zone: bytes) -> Part:
    as_text = _text(texts.TIME, head)

    def part(column: pa.Array, scope: Scope) -> Put:
        values, is_live = frozen(longs_of(column)), frozen(scope.is_live.view())
        if (is_live & ((values < _TIMES[0]) | (values > _TIMES[1]))).any():
            return as_text(column, scope)
        texts.measure_times(is_live, len(head), len(zone), scope.sizes)
        name, behind = (frozen(np.frombuffer(word, np.uint8)) for word in (head, zone))
        return lambda out, cursors: texts.put_times(values, is_live, name, behind, out, cursors)

    return part


def _bracketed(content: Part, head: bytes, brackets: bytes) -> Part:
    word = frozen(np.frombuffer(head, np.uint8))

    def part(column: pa.Array, scope: Scope) -> Put:
        inside = Scope(scope.is_live, np.zeros_like(scope.sizes), scope.is_bad)
        put = content(column, inside)
        is_live = frozen(scope.is_live.view())
        scope.sizes[:] += np.where(is_live, len(head) + np.maximum(inside.sizes, 1) + 1, 0)

        def put_all(out: NDArray[np.uint8], cursors: Longs) -> None:
            texts.put_words(is_live, word, out, cursors)
            starts = cursors.copy()
            put(out, cursors)
            texts.put_brackets(is_live, starts, brackets[0], brackets[1], out, cursors)

        return put_all

    return part


def _fields(parts: list[Part]) -> Part:
    def content(column: pa.StructArray, scope: Scope) -> Put:
        columns = [column.field(index) for index in range(len(parts))]
        return in_order([part(values, scope.given(values)) for part, values in zip(parts, columns, strict=True)])

    return content


def _elements(part: Part) -> Part:
    def content(column: pa.ListArray, scope: Scope) -> Put:
        elements = Elements.of(column, scope)
        return elements.around(part(elements.cut(column.values), elements.scope), scope, kernels.BARE)

    return content


def _pairs(value: Part) -> Part:
    name = _text(texts.ESCAPED, b",")

    def content(column: pa.MapArray, scope: Scope) -> Put:
        elements = Elements.of(column, scope)
        puts = [name(elements.cut(column.keys), elements.scope), value(elements.cut(column.items), elements.scope)]
        return elements.around(in_order(puts), scope, kernels.BARE)

    return content


def _or_null(part: Part, head: bytes) -> Part:
    """In lists and maps a null is said."""
    word = frozen(np.frombuffer(head + b"null", np.uint8))

    def whole(column: pa.Array, scope: Scope) -> Put:
        put = part(column, scope.given(column))
        if not column.null_count:
            return put
        is_null = frozen(scope.is_live & (1 - valid(column)))
        scope.sizes[:] += is_null * np.int64(len(word))
        return in_order([lambda out, cursors: texts.put_words(is_null, word, out, cursors), put])

    return whole
