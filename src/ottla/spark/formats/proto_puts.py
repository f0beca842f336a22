"""Protobuf's messages from Arrow without a Python object for each: fields in the order of their numbers.

Maps are in the order that Google's library gives them if it is asked for one, so that equal values are equal bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from numpy.typing import NDArray

from ottla.spark.arrow.columns import frozen
from ottla.spark.formats import put_kernels as kernels
from ottla.spark.formats.proto_schema import has_micros, is_list, is_map
from ottla.spark.formats.writing import (
    Elements,
    Longs,
    Part,
    Put,
    Scope,
    blobs,
    in_order,
    longs_of,
    numbers,
    sorted_pairs,
    valid,
)

_MICROS = 1_000_000
_UINT32_MAX = 2**32 - 1
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_HOW = {
    FieldDescriptor.TYPE_DOUBLE: (kernels.EIGHT, _EIGHT_BYTES),
    FieldDescriptor.TYPE_FLOAT: (kernels.FOUR, _FOUR_BYTES),
    FieldDescriptor.TYPE_INT64: (kernels.VARINT, _VARINT),
    FieldDescriptor.TYPE_UINT64: (kernels.VARINT, _VARINT),
    FieldDescriptor.TYPE_INT32: (kernels.VARINT, _VARINT),
    FieldDescriptor.TYPE_FIXED64: (kernels.EIGHT, _EIGHT_BYTES),
    FieldDescriptor.TYPE_FIXED32: (kernels.FOUR, _FOUR_BYTES),
    FieldDescriptor.TYPE_BOOL: (kernels.BYTE, _VARINT),
    FieldDescriptor.TYPE_UINT32: (kernels.VARINT, _VARINT),
    FieldDescriptor.TYPE_ENUM: (kernels.VARINT, _VARINT),
    FieldDescriptor.TYPE_SFIXED32: (kernels.FOUR, _FOUR_BYTES),
    FieldDescriptor.TYPE_SFIXED64: (kernels.EIGHT, _EIGHT_BYTES),
    FieldDescriptor.TYPE_SINT32: (kernels.ZIGZAG, _VARINT),
    FieldDescriptor.TYPE_SINT64: (kernels.ZIGZAG, _VARINT),
}
_UNSIGNED = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32)
_UNSIGNED_LONG = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
_Values = Callable[[pa.Array, Scope], Longs]


def message(descriptor: Descriptor) -> Part:
    """What is in a message, without what is around it; of columns with times as numbers."""
    if has_micros(descriptor):
        return _micros(descriptor)
    places = {field.name: index for index, field in enumerate(descriptor.fields)}
    parts = [(places[field.name], _field(field)) for field in sorted(descriptor.fields, key=lambda each: each.number)]
    choices = [[places[field.name] for field in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1]

    def part(column: pa.StructArray, scope: Scope) -> Put:
        columns = [column.field(index) for index in range(len(places))]
        for choice in choices:
            scope.refuse(np.add.reduce([valid(columns[index]) for index in choice], dtype=np.int64) > 1)
        return in_order([each(columns[index], scope) for index, each in parts])

    return part


def _field(field: FieldDescriptor) -> Part:
    if is_map(field):
        return _map(field)
    if is_list(field):
        return _list(field)
    put = _value(field, skips_zero=not field.has_presence)
    if field.is_required:
        return lambda column, scope: put(column, scope.demanded(column))
    return lambda column, scope: put(column, scope.given(column))


def _value(field: FieldDescriptor, *, skips_zero: bool = False, with_tag: bool = True) -> Part:
    """A value with its tag; whether there is one has been seen to."""
    if field.message_type is not None:
        return _part(message(field.message_type), _tag(field, _SIZED))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        tag = _tag(field, _SIZED)
        return lambda column, scope: blobs(column, scope, kernels.VARINT, tag=tag, skips_empty=skips_zero)
    how, wire_type = _HOW[field.type]
    tag, values = _tag(field, wire_type) if with_tag else 0, _values(field)
    return lambda column, scope: numbers(values(column, scope), scope, how, tag=tag, skips_zero=skips_zero)


def _tag(field: FieldDescriptor, wire_type: int) -> int:
    return int(field.number) << 3 | wire_type


def _part(inside: Part, tag: int) -> Part:
    def part(column: pa.Array, scope: Scope) -> Put:
        own = Scope(scope.is_live, np.zeros_like(scope.sizes), scope.is_bad)
        put = inside(column, own)
        inner, is_live = frozen(own.sizes), frozen(scope.is_live.view())
        kernels.measure_parts(inner, is_live, tag, scope.sizes)

        def put_all(out: NDArray[np.uint8], cursors: Longs) -> None:
            starts = np.zeros(len(inner), np.int64)
            kernels.put_parts(inner, is_live, tag, out, cursors, starts)
            put(out, starts)

        return put_all

    return part


def _list(field: FieldDescriptor) -> Part:
    element = _value(field, with_tag=not field.is_packed)
    how, tag = (kernels.SIZED, _tag(field, _SIZED)) if field.is_packed else (kernels.BARE, 0)

    def part(column: pa.Array, scope: Scope) -> Put:
        scope = scope.given(column)
        elements = Elements.of(column, scope)
        values = elements.cut(column.values)
        put = element(values, elements.scope.demanded(values))
        return elements.around(put, scope, how, tag=tag)

    return part


@dataclass(frozen=True, slots=True)
class _Pair:
    key: Part
    value: Part

    def __call__(self, column: pa.StructArray, scope: Scope) -> Put:
        key, value = column.field(0), column.field(1)
        return in_order([self.key(key, scope.demanded(key)), self.value(value, scope.demanded(value))])


def _map(field: FieldDescriptor) -> Part:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    pair = _part(_Pair(_value(key), _value(value)), _tag(field, _SIZED))
    is_wide = key.type in _UNSIGNED_LONG

    def part(column: pa.MapArray, scope: Scope) -> Put:
        scope = scope.given(column)
        elements = Elements.of(column, scope)
        keys, items = elements.cut(column.keys), elements.cut(column.items)
        order = sorted_pairs(elements, pa.array(_halves(keys)[0]) if is_wide else keys, scope)
        if (order[1:] < order[:-1]).any():
            keys, items = keys.take(pa.array(order)), items.take(pa.array(order))
        pairs = pa.StructArray.from_arrays([keys, items], names=["key", "value"])
        return elements.around(pair(pairs, elements.scope), scope, kernels.BARE)

    return part


def _values(field: FieldDescriptor) -> _Values:
    """Numbers as they are put."""
    if field.enum_type is not None:
        return _numbered(field.enum_type)
    if field.type in _UNSIGNED_LONG:
        return _unsigned_longs
    if field.type in _UNSIGNED:
        return _unsigned
    return lambda column, _: longs_of(column)


def _unsigned(column: pa.Array, scope: Scope) -> Longs:
    found = longs_of(column)
    scope.refuse((found < 0) | (found > _UINT32_MAX))
    return found


def _unsigned_longs(column: pa.Array, scope: Scope) -> Longs:
    low, high = _halves(column)
    scope.refuse(high != 0)
    return low


def _halves(column: pa.Array) -> tuple[Longs, Longs]:
    """The lower and the upper 64 bits of decimals."""
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wide = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
    return wide[:, 0].copy(), wide[:, 1].copy()


def _numbered(enum: EnumDescriptor) -> _Values:
    names = list(enum.values_by_name)
    known = pa.array(names, pa.string())
    # One more for what has no name: bad, for the digits of a number are left to Google's library.
    numbers_of = np.array([*(enum.values_by_name[name].number for name in names), 0], np.int64)

    def values(column: pa.Array, scope: Scope) -> Longs:
        found = pc.fill_null(pc.index_in(column, value_set=known), len(names)).to_numpy()
        scope.refuse(found == len(names))
        numbered: Longs = numbers_of[found]
        return numbered

    return values


def _micros(descriptor: Descriptor) -> Part:
    """A span of time has one sign in both its parts, a time has a fraction that counts upwards."""
    is_span = descriptor.name == "Duration"
    seconds_tag, nanos_tag = (_tag(descriptor.fields_by_name[name], _VARINT) for name in ("seconds", "nanos"))

    def part(column: pa.Array, scope: Scope) -> Put:
        micros = longs_of(column)
        sign = np.where((micros < 0) & is_span, -1, 1)
        seconds, rest = np.divmod(sign * micros, _MICROS)
        puts = [
            numbers(values, scope, kernels.VARINT, tag=tag, skips_zero=True)
            for values, tag in ((sign * seconds, seconds_tag), (sign * rest * 1000, nanos_tag))
        ]
        return in_order(puts)

    return part
