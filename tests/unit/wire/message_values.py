"""Hypothesis strategies for messages: kio's own objects with their conversion to ours, and records from our schemas."""

from __future__ import annotations

import dataclasses
import io
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from ottla.base.types import ZERO_UUID
from ottla.wire.primitives import Buffer, Message
from tools.gen import model
from tools.gen.kio_source import message_modules
from tools.gen.schema_source import read_schema
from tools.gen.state_modules import STATE_MODULES

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
# Lengths at which a varint grows by a byte, and characters of one to four bytes.
_TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["a" * 126, "b" * 127, "é" * 64, "𝄞" * 33]))
_BYTES = st.one_of(st.binary(max_size=6), st.sampled_from([b"x" * 126, b"y" * 127, b"z" * 300]))


def _milliseconds(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda ms: timedelta(milliseconds=ms))


_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(2**bits), 2**bits - 1) for kind, bits in _BITS.items()},
    "bool": st.booleans(),
    "uint16": st.integers(0, 0xFFFF),
    "float64": st.floats(allow_nan=False),
    "string": _TEXTS,
    "bytes": _BYTES,
    "records": _BYTES,
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _milliseconds(-(2**31), 2**31 - 1),
    "timedelta_i64": _milliseconds(-(10**14), 10**14),
    "datetime_i64": _milliseconds(0, 10**14).map(lambda age: _EPOCH + age),
}


# kio's objects


@dataclasses.dataclass(frozen=True)
class KioMessage:
    """One message in one version, as kio has it and as we have it."""

    package: str
    version: int
    kio_class: Any
    our_class: type[Message]

    def __str__(self) -> str:
        return f"{self.our_class.__name__}-v{self.version}"


def kio_messages() -> list[KioMessage]:
    owners = {package: module for module, packages in STATE_MODULES.items() for package in packages}
    found = []
    for package, version, part in message_modules():
        kio_module = import_module(f"kio.schema.{package}.v{version}.{part}")
        kio_class: Any = [c for c in vars(kio_module).values() if dataclasses.is_dataclass(c)][-1]
        place = f"state.{owners[package]}" if part == "data" else f"messages.{package}"
        our_class = getattr(import_module(f"ottla.wire.{place}"), kio_class.__name__)
        found.append(KioMessage(package, version, kio_class, our_class))
    return found


@cache
def kio_values(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{f.name: _kio_field(hints[f.name], f) for f in dataclasses.fields(cls)})


def _kio_field(hint: Any, f: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(_kio_field(arguments[0], f), max_size=2).map(tuple)
    if type(None) in arguments:
        (inner,) = [a for a in arguments if a is not type(None)]
        return st.none() | _kio_field(inner, f)
    kind = f.metadata.get("kafka_type", "struct")
    if kind == "struct":
        return kio_values(hint)
    return st.uuids() if kind == "uuid" else _LEAVES[kind]


def kio_bytes(value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def ours_from_kio(value: Any, our_class: type[Message]) -> Any:
    """The same message built from our classes."""
    fields = {}
    for f in dataclasses.fields(value):
        kind = f.metadata.get("kafka_type", "struct")
        in_milliseconds = kind in ("timedelta_i32", "timedelta_i64", "datetime_i64")
        name = f.name + "_ms" if in_milliseconds and not f.name.endswith("_ms") else f.name
        is_null_array = getattr(value, f.name) is None and "tuple[" in str(f.type)
        fields[name] = None if is_null_array else _our_value(getattr(value, f.name), kind, our_class)
    return our_class(**fields)


def _our_value(value: Any, kind: str, our_class: type[Message]) -> Any:
    if isinstance(value, tuple):
        return [_our_value(item, kind, our_class) for item in value]
    if value is None:
        return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(kind)
    match value:
        case uuid.UUID():
            return value.bytes
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return (value - _EPOCH) // timedelta(milliseconds=1)
        case _ if dataclasses.is_dataclass(value):
            return ours_from_kio(value, _our_nested_class(type(value).__name__, our_class))
    return value


def _our_nested_class(name: str, our_class: type[Message]) -> type[Message]:
    module = import_module(our_class.__module__)
    prefixes = [kind for kind in ("Request", "Response", our_class.__name__) if kind in our_class.__name__]
    names = [*(prefix + name for prefix in prefixes), name]
    nested: type[Message] = next(getattr(module, n) for n in names if hasattr(module, n))
    return nested


# Our schemas


def schema_records() -> list[tuple[model.Message, type[Message], int]]:
    """Every record of `schemas/` in every version, with its class."""
    return [
        (message, getattr(import_module(f"ottla.wire.state.{path.stem}"), message.name), version)
        for path in sorted(SCHEMAS.glob("*.schema"))
        for message in read_schema(path)
        for version in message.versions
    ]


def own_messages() -> list[tuple[Path, model.Message]]:
    """Requests and responses of APIs that Kafka does not have, with their schemas."""
    return [(path, m) for path in sorted((SCHEMAS / "apis").glob("*.schema")) for m in read_schema(path)]


def own_api_messages() -> list[tuple[model.Message, type[Message], int]]:
    return [
        (message, getattr(import_module(f"ottla.wire.messages.{path.stem}"), message.name), version)
        for path, message in own_messages()
        for version in message.versions
    ]


def record_values(message: model.Message, cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    return _shape_values(message.versions[version], message.name, cls.__module__)


def _shape_values(shapes: dict[str, model.Shape], name: str, module: str) -> st.SearchStrategy[Any]:
    fields = {f.name: _schema_field(shapes, f, module) for f in shapes[name].fields}
    return st.builds(getattr(import_module(module), name), **fields)


def _schema_field(shapes: dict[str, model.Shape], f: model.Field, module: str) -> st.SearchStrategy[Any]:
    one = (
        _shape_values(shapes, f.struct, module)
        if f.struct
        else _LEAVES.get(f.kind, st.binary(min_size=16, max_size=16))
    )
    some = st.lists(one, max_size=2) if f.array else one
    return st.none() | some if f.nullable else some


def our_bytes(value: Message, version: int) -> bytes:
    out = Buffer()
    value.encode(out, version)
    return bytes(out)
