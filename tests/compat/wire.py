"""Raw requests over a socket, encoded and decoded by kio: an encoder that nobody of this project wrote.

Requests are given as plain dicts and answers come back as plain dicts. Fields that a version lacks are left out,
so one dict serves all versions of an API; a name that no version knows is an error in the test.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import socket
import struct
import typing
import uuid
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

Fields = dict[str, Any]
KEYS = {name: key for key, name in api_key_map.items()}
ANSWER_SECONDS_MAX = 30.0
NO_TOPIC_ID = uuid.UUID(int=0)


class Closed(ConnectionError):
    """The node closed the connection instead of answering."""


def versions(api: str) -> range:
    """Every version that kio knows of an API."""
    known = schema_name_map[api]
    return range(min(known), max(known) + 1)


@functools.cache
def _known_fields(api: str, path: str) -> frozenset[str]:
    """Names a request has in any version, for the class with this name; `path` is the nested class's name."""
    names: set[str] = set()
    for version in versions(api):
        for cls in _nested(load_request_schema(KEYS[api], version)):
            if cls.__name__ == path:
                names.update(field.name for field in dataclasses.fields(cls))
    return frozenset(names)


def _nested(cls: type) -> list[type]:
    found = [cls]
    for field in dataclasses.fields(cls):
        inner = _entity_of(field.type)
        if inner is not None:
            found += _nested(inner)
    return found


def _entity_of(annotation: Any) -> Any:
    """The dataclass inside `X`, `X | None`, `tuple[X, ...]`, `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    for argument in typing.get_args(annotation):
        inner = _entity_of(argument)
        if inner is not None:
            return inner
    return None


def build(api: str, cls: type, values: Fields) -> Any:
    """An instance of kio's class with these values; what is not given is zero, empty or Kafka's default."""
    unknown = values.keys() - _known_fields(api, cls.__name__)
    assert not unknown, f"no version of {api} has {sorted(unknown)} in {cls.__name__}"
    arguments = {}
    for field in dataclasses.fields(cls):
        if field.name in values:
            arguments[field.name] = _convert(api, field, values[field.name])
        elif field.default is dataclasses.MISSING:
            arguments[field.name] = _zero(field)
    return cls(**arguments)


def _convert(api: str, field: dataclasses.Field[Any], value: Any) -> Any:
    entity = _entity_of(field.type)
    if value is None:
        return None
    if entity is not None:
        return build(api, entity, value) if isinstance(value, dict) else tuple(build(api, entity, v) for v in value)
    if isinstance(value, list):
        return tuple(value)
    if field.metadata.get("kafka_type", "").startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if field.metadata.get("kafka_type") == "uuid" and value == NO_TOPIC_ID:
        return None
    return value


def _zero(field: dataclasses.Field[Any]) -> Any:
    text = str(field.type)
    if "None" in text or field.metadata.get("kafka_type") == "uuid":
        return None
    if "tuple" in text:
        return ()
    if field.metadata["kafka_type"] in ("bytes", "records"):
        return b""
    if field.metadata["kafka_type"].startswith("timedelta"):
        return datetime.timedelta(0)
    return {"string": "", "bool": False}.get(field.metadata["kafka_type"], 0)


def plain(value: Any) -> Any:
    """kio's objects as dicts, lists and numbers; times are milliseconds."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    return value


def encode_body(api: str, version: int, values: Fields) -> bytes:
    schema = load_request_schema(KEYS[api], version)
    out = io.BytesIO()
    entity_writer(schema)(out, build(api, schema, values))
    return out.getvalue()


def encode_header(key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool) -> bytes:
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", key, version, correlation_id) + name + (b"\x00" if flexible else b"")


def encode_request(api: str, version: int, values: Fields, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """A whole frame without its length."""
    flexible = load_request_schema(KEYS[api], version).__header_schema__.__version__ == 2
    return encode_header(KEYS[api], version, correlation_id, client_id, flexible) + encode_body(api, version, values)


def decode_answer(api: str, version: int, frame: bytes) -> tuple[int, Fields]:
    """The correlation id and the body of an answer; it must fill its frame exactly."""
    schema = load_response_schema(KEYS[api], version)
    header, at = entity_reader(schema.__header_schema__)(frame, 0)
    body, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame), f"{api} v{version}: {len(frame) - at - size} bytes after the body"
    return int(header.correlation_id), plain(body)


class Wire:
    """One connection to a node."""

    def __init__(self, host: str, port: int, seconds_max: float = ANSWER_SECONDS_MAX) -> None:
        self.socket = socket.create_connection((host, port), timeout=seconds_max)
        self._correlation_id = 0
        self.answered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_frame(self, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                chunk = self.socket.recv(count - len(parts))
            except ConnectionResetError as error:
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed(f"closed after {len(parts)} of {count} bytes")
            parts += chunk
        return bytes(parts)

    def send(self, api: str, version: int, values: Fields) -> int:
        self._correlation_id += 1
        self.send_frame(encode_request(api, version, values, self._correlation_id))
        return self._correlation_id

    def receive(self, api: str, version: int) -> Fields:
        correlation_id, body = decode_answer(api, version, self.receive_frame())
        self.answered = correlation_id
        return body

    def ask(self, api: str, version: int, **values: Any) -> Fields:
        """One request and its answer."""
        sent = self.send(api, version, values)
        body = self.receive(api, version)
        assert self.answered == sent, f"answer to {self.answered}, asked {sent}"
        return body
