"""From Python's values to messages."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from ottla.spark.formats.proto_schema import has_micros, is_list, is_map

Fill: TypeAlias = Callable[[Any, Any], None]
_MICROS = 1_000_000


def filler(descriptor: Descriptor) -> Fill:
    """A function that fills a new message with a value; it raises ValueError, TypeError or KeyError."""
    if has_micros(descriptor):
        return _fill_micros
    fields = [(field.name, _setter(field)) for field in descriptor.fields]
    choices = [[field.name for field in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1]

    def fill(message: Any, row: Mapping[str, Any]) -> None:
        for names in choices:
            given = [name for name in names if row[name] is not None]
            if len(given) > 1:
                raise ValueError(f"one of {' and '.join(given)} can be given, not both")
        for name, put in fields:
            value = row[name]
            if value is not None:
                put(message, value)

    return fill


def _setter(field: FieldDescriptor) -> Fill:
    if is_map(field):
        return _map_setter(field)
    if is_list(field):
        return _list_setter(field)
    name = field.name
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        fill = filler(field.message_type)

        def put(message: Any, value: Any) -> None:
            part = getattr(message, name)
            part.SetInParent()
            fill(part, value)

        return put
    convert = _converter(field)
    return lambda message, value: setattr(message, name, convert(value))


def _list_setter(field: FieldDescriptor) -> Fill:
    name = field.name
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        fill = filler(field.message_type)

        def put_messages(message: Any, values: Any) -> None:
            parts = getattr(message, name)
            for value in _without_nulls(values, name):
                fill(parts.add(), value)

        return put_messages
    convert = _converter(field)
    return lambda message, values: getattr(message, name).extend(map(convert, _without_nulls(values, name)))


def _map_setter(field: FieldDescriptor) -> Fill:
    name = field.name
    key, item = (field.message_type.fields_by_name[part] for part in ("key", "value"))
    convert_key = _converter(key)
    if item.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        fill = filler(item.message_type)

        def put_messages(message: Any, pairs: Any) -> None:
            parts = getattr(message, name)
            _without_nulls(pairs.values(), name)
            for each, value in pairs.items():
                fill(parts[convert_key(each)], value)

        return put_messages
    convert = _converter(item)

    def put(message: Any, pairs: Any) -> None:
        parts = getattr(message, name)
        _without_nulls(pairs.values(), name)
        for each, value in pairs.items():
            parts[convert_key(each)] = convert(value)

    return put


def _without_nulls(values: Any, name: str) -> Any:
    if any(value is None for value in values):
        raise ValueError(f"{name} has a null among its elements, which Protobuf cannot say")
    return values


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return _numbers(field.enum_type)
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return int
    return _same


def _same(value: Any) -> Any:
    return value


def _numbers(enum: EnumDescriptor) -> Callable[[str], int]:
    numbers: dict[str, int] = {name: value.number for name, value in enum.values_by_name.items()}

    def number_of(name: str) -> int:
        if name in numbers:
            return numbers[name]
        if name.removeprefix("-").isdecimal():
            return int(name)
        raise ValueError(f"{enum.full_name} has no value {name}")

    return number_of


def _fill_micros(message: Any, micros: int) -> None:
    """A span of time has one sign in both its parts, a time has a fraction that counts upwards."""
    is_span = message.DESCRIPTOR.name == "Duration"
    sign = -1 if is_span and micros < 0 else 1
    seconds, rest = divmod(sign * micros, _MICROS)
    message.seconds, message.nanos = sign * seconds, sign * rest * 1000
