"""Protobuf's types and Arrow's: as Spark's own reader maps them, but for unsigned numbers, which keep their range.

What a message can be without is null then: `optional` fields, members of a oneof, messages. Other fields of proto3 have
their default. Enums are the names of their values, numbers without a name are their digits.
"""

from collections.abc import Iterable

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ottla.spark.formats.format import BadSchema

_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
_MICROS = {
    "google.protobuf.Timestamp": pa.timestamp("us", "UTC"),
    "google.protobuf.Duration": pa.duration("us"),
}


def type_of(message: Descriptor, path: str = "$", inside: tuple[str, ...] = ()) -> pa.DataType:
    """Raises BadSchema for messages that contain themselves."""
    if message.full_name in _MICROS:
        return _MICROS[message.full_name]
    if message.full_name in inside:
        raise BadSchema(f"{path}: {message.full_name} contains itself, and Spark has no such types")
    inside = (*inside, message.full_name)
    return pa.struct([(field.name, _field(field, f"{path}.{field.name}", inside)) for field in message.fields])


def has_micros(message: Descriptor) -> bool:
    """Whether it is a time or a span of time, which becomes one value."""
    return message.full_name in _MICROS


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def is_list(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated) and not is_map(field)


def has_required(message: Descriptor, seen: Iterable[str] = ()) -> bool:
    """Whether a message of this kind can be incomplete (proto2)."""
    if message.full_name in seen:
        return False
    seen = (*seen, message.full_name)
    return any(
        field.is_required or (field.message_type is not None and has_required(field.message_type, seen))
        for field in message.fields
    )


def _field(field: FieldDescriptor, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_single(key, path, inside), _single(value, f"{path}[]", inside))
    kind = _single(field, f"{path}[]" if field.is_repeated else path, inside)
    return pa.list_(kind) if field.is_repeated else kind


def _single(field: FieldDescriptor, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return type_of(field.message_type, path, inside)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _SCALARS[field.cpp_type]
