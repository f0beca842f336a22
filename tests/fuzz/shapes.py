"""Requests as lists of parts, so that every length in them can be overwritten.

The parts are laid out from kio's field descriptions; joined, they must be what kio itself encodes.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
import uuid
from collections.abc import Iterator
from typing import Any

from kio.index import load_request_schema

from tests.compat.wire import KEYS, Fields, build, encode_body, encode_header

FIXED, SHORT, INT, VARINT, TAGS = "fixed", "short length", "int length", "varint length", "count of tagged fields"
INTEGERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I"}


@dataclasses.dataclass(frozen=True)
class Part:
    kind: str
    data: bytes
    value: int = 0


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _length(count: int | None, flexible: bool, kind: str) -> Part:
    """A length; null is -1, or 0 where lengths are compact."""
    if flexible:
        value = 0 if count is None else count + 1
        return Part(VARINT, uvarint(value), value)
    value = -1 if count is None else count
    return Part(kind, struct.pack(">h" if kind == SHORT else ">i", value), value)


def parts_of(entity: Any) -> list[Part]:
    flexible = type(entity).__flexible__
    parts: list[Part] = []
    for field in dataclasses.fields(entity):
        if "tag" not in field.metadata:
            parts += _field(field, getattr(entity, field.name), flexible)
    if flexible:
        parts.append(Part(TAGS, b"\x00"))
    return parts


def _field(field: dataclasses.Field[Any], value: Any, flexible: bool) -> list[Part]:
    is_array = "tuple" in str(field.type)
    if is_array:
        parts = [_length(None if value is None else len(value), flexible, INT)]
        for item in value or ():
            parts += _item(field, item, flexible)
        return parts
    return _item(field, value, flexible)


def _item(field: dataclasses.Field[Any], value: Any, flexible: bool) -> list[Part]:
    kind = field.metadata.get("kafka_type")
    if dataclasses.is_dataclass(value):
        return [Part(FIXED, b"\x01")] * _is_nullable_struct(field) + parts_of(value)
    if kind is None:
        return [Part(FIXED, b"\xff")]  # a nullable struct that is null
    if kind == "string":
        return _blob(None if value is None else value.encode(), flexible, SHORT)
    if kind in ("bytes", "records"):
        return _blob(value, flexible, INT)
    return [Part(FIXED, _scalar(kind, value))]


def _is_nullable_struct(field: dataclasses.Field[Any]) -> bool:
    """KIP-893: such a struct is led by one byte that says whether it is there."""
    return "None" in str(field.type) and "tuple" not in str(field.type)


def _blob(data: bytes | None, flexible: bool, kind: str) -> list[Part]:
    return [_length(None if data is None else len(data), flexible, kind), Part(FIXED, data or b"")]


def _scalar(kind: str, value: Any) -> bytes:
    if kind == "uuid":
        return (value or uuid.UUID(int=0)).bytes
    if kind == "bool":
        return b"\x01" if value else b"\x00"
    if kind.startswith("timedelta"):
        milliseconds = value // datetime.timedelta(milliseconds=1)
        return struct.pack(">i" if kind.endswith("i32") else ">q", milliseconds)
    return struct.pack(INTEGERS[kind], value)


class Shape:
    """One good request, taken apart."""

    def __init__(self, api: str, version: int, values: Fields) -> None:
        schema = load_request_schema(KEYS[api], version)
        self.api, self.version = api, version
        self.parts = parts_of(build(api, schema, values))
        assert b"".join(part.data for part in self.parts) == encode_body(api, version, values), f"{api} v{version}"
        self._flexible = schema.__header_schema__.__version__ == 2

    def frame(self, replaced: int = -1, data: bytes = b"", correlation_id: int = 1) -> bytes:
        """The request, with one part replaced."""
        header = encode_header(KEYS[self.api], self.version, correlation_id, "fuzz", self._flexible)
        return header + b"".join(data if at == replaced else part.data for at, part in enumerate(self.parts))

    def bad_lengths(self) -> Iterator[tuple[int, bytes]]:
        """Every length overwritten by every absurd value."""
        for at, part in enumerate(self.parts):
            rest = sum(len(later.data) for later in self.parts[at + 1 :])
            for data in _absurd(part, rest):
                if data != part.data:
                    yield at, data


def _absurd(part: Part, rest: int) -> list[bytes]:
    if part.kind == SHORT:
        return [struct.pack(">h", value) for value in (-(2**15), -2, -1, part.value + 1, min(rest + 1, 32767), 32767)]
    if part.kind == INT:
        return [
            struct.pack(">i", value) for value in (-(2**31), -2, -1, part.value + 1, rest + 1, 10_000_000, 2**31 - 1)
        ]
    if part.kind in (VARINT, TAGS):
        values = (0, part.value + 1, rest + 2, 10_000_000, 2**31, 2**32 - 1)
        return [uvarint(value) for value in values] + [b"\xff" * 5 + b"\x01", b"\xff" * 10 + b"\x01", b"\x80" * 5]
    return []
