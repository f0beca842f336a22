"""Reads kio's per-version dataclasses into the generator's model."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import uuid
from collections import defaultdict
from types import ModuleType, NoneType
from typing import Any, get_args, get_origin, get_type_hints

import kio.schema
from kio.schema.index import api_key_map

from tools.gen.model import Field, Message, Shape

_MILLISECONDS = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}


def read_messages() -> dict[str, dict[str, Message]]:
    """By kio's package name, then by `request`, `response` or `data`."""
    keys = {name: key for key, name in api_key_map.items()}
    found: dict[str, dict[str, Message]] = defaultdict(dict)
    for package, version, part in message_modules():
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{part}")
        shapes = _shapes(module)
        top = list(shapes)[-1]
        message = found[package].setdefault(part, Message(top, keys.get(package)))
        message.versions[version] = shapes
    return dict(found)


def message_modules() -> list[tuple[str, int, str]]:
    """Package, version and part of everything but headers, in order."""
    found = []
    for info in pkgutil.walk_packages(kio.schema.__path__, "kio.schema."):
        parts = info.name.split(".")[2:]
        if len(parts) == 3 and not info.ispkg and parts[2] != "header":
            found.append((parts[0], int(parts[1][1:]), parts[2]))
    return sorted(found)


def _shapes(module: ModuleType) -> dict[str, Shape]:
    classes = [c for c in vars(module).values() if dataclasses.is_dataclass(c) and c.__module__ == module.__name__]
    return {c.__name__: _shape(c) for c in classes if isinstance(c, type)}


def _shape(cls: Any) -> Shape:
    hints = get_type_hints(cls)
    return Shape(cls.__name__, cls.__flexible__, tuple(_field(f, hints[f.name]) for f in dataclasses.fields(cls)))


def _field(source: dataclasses.Field[Any], hint: Any) -> Field:
    kafka_type = source.metadata.get("kafka_type", "struct")
    hint, nullable = _without_none(hint)
    array = get_origin(hint) is tuple
    if array:
        hint, _ = _without_none(get_args(hint)[0])
    in_milliseconds = kafka_type in _MILLISECONDS
    kind = _MILLISECONDS.get(kafka_type, "int16" if kafka_type == "error_code" else kafka_type)
    return Field(
        name=source.name + "_ms" if in_milliseconds and not source.name.endswith("_ms") else source.name,
        kind=kind,
        struct=hint.__name__ if kind == "struct" else "",
        array=array,
        # kio says None for the zero UUID and for a datetime of -1; both are plain values here.
        nullable=nullable and (array or (kind != "uuid" and not in_milliseconds)),
        tag=source.metadata.get("tag"),
        default=_default(source.default, kind, array, in_milliseconds),
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    arguments = get_args(hint)
    if get_origin(hint) is tuple or NoneType not in arguments:
        return hint, False
    (inner,) = [a for a in arguments if a is not NoneType]
    return inner, True


def _default(value: Any, kind: str, array: bool, in_milliseconds: bool) -> str | None:
    if value is dataclasses.MISSING or value == () or dataclasses.is_dataclass(value):
        return None
    if value is None:
        if in_milliseconds:
            return "-1"
        return None if kind == "uuid" and not array else "None"
    if in_milliseconds:
        return str(round(value.total_seconds() * 1000))
    if kind == "uuid":
        assert value == uuid.UUID(int=0)
        return None
    if kind == "string":
        return repr(str(value))
    if kind in ("bool", "bytes"):
        return repr(value)
    return repr(float(value)) if kind == "float64" else str(int(value))
