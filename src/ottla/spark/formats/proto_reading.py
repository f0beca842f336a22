"""From messages to Arrow, a column at a time: no dictionary is made of a message."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from ottla.spark.formats.proto_schema import has_micros, is_list, is_map

_MICROS = 1_000_000


def array_of(messages: Sequence[Message | None], descriptor: Descriptor, kind: pa.DataType) -> pa.Array:
    """Raises ValueError for text that is not UTF-8 (proto2 lets it pass), and for times beyond Spark's."""
    if has_micros(descriptor):
        return _micros(messages, kind)
    children = [_column(messages, field, kind.field(field.name).type) for field in descriptor.fields]
    is_null = pa.array([message is None for message in messages], pa.bool_())
    if not children:
        return pa.array([None if message is None else {} for message in messages], kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=is_null)


def _column(messages: Sequence[Message | None], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    name = field.name
    if is_map(field):
        return _maps(messages, field, kind)
    if is_list(field):
        lists = [None if message is None else getattr(message, name) for message in messages]
        flat = [value for values in lists if values is not None for value in values]
        return pa.ListArray.from_arrays(_bounds(lists), _values(flat, field, kind.value_type)).cast(kind)
    if not field.has_presence:
        return _values([None if message is None else getattr(message, name) for message in messages], field, kind)
    return _values(
        [getattr(message, name) if message is not None and message.HasField(name) else None for message in messages],
        field,
        kind,
    )


def _maps(messages: Sequence[Message | None], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    maps = [None if message is None else dict(getattr(message, field.name).items()) for message in messages]
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    keys = _values([name for pairs in maps if pairs is not None for name in pairs], key, kind.key_type)
    items = _values([item for pairs in maps if pairs is not None for item in pairs.values()], value, kind.item_type)
    return pa.MapArray.from_arrays(_bounds(maps), keys, items, type=kind)


def _bounds(lists: Iterable[Any]) -> pa.Array:
    """Where each of them starts and the last one ends; a null in Arrow's builder of lists is one of theirs."""
    sizes = [None if values is None else len(values) for values in lists]
    ends = list(accumulate((size or 0 for size in sizes), initial=0))
    starts = [None if size is None else at for size, at in zip(sizes, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32())


def _values(values: list[Any], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return array_of(values, field.message_type, kind)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        name_of = _names(field.enum_type)
        return pa.array([None if value is None else name_of(value) for value in values], kind)
    return pa.array(values, kind)


def _names(enum: EnumDescriptor) -> Callable[[int], str]:
    names = {number: value.name for number, value in enum.values_by_number.items()}
    return lambda number: names.get(number) or str(number)


def _micros(messages: Sequence[Any], kind: pa.DataType) -> pa.Array:
    micros = [None if message is None else message.seconds * _MICROS + message.nanos // 1000 for message in messages]
    return pa.array(micros, pa.int64()).cast(kind)
