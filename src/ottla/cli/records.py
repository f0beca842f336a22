"""Records as text: how a line becomes a record, and a record a line."""

import codecs
import json
import string
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from ottla.cli.failure import Failed, Misused

Headers = list[tuple[str, bytes | None]]
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


@dataclass(slots=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class LineParser:
    """`key<separator>value` lines; a part that equals `null` is no part at all."""

    key_separator: bytes | None = None
    null: bytes | None = None

    def __call__(self, line: bytes, number: int) -> Record:
        if self.key_separator is None:
            return Record(self._part(line))
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            raise Failed(f"line {number} has no key separator {self.key_separator.decode(errors='replace')!r}")
        return Record(self._part(value), self._part(key))

    def _part(self, text: bytes) -> bytes | None:
        return None if text == self.null else text


def parse_json_line(line: bytes, number: int) -> Record:
    """One object a line, as `ottla consume --format json` prints them; offset and topic are not taken over."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise Failed(f"line {number} is not JSON: {error}") from None
    if not isinstance(given, dict) or not ({"value", "value_base64"} & given.keys()):
        raise Failed(f"line {number} is no JSON object with a `value`")
    partition, timestamp = given.get("partition"), given.get("timestamp")
    if not all(number_ is None or type(number_) is int for number_ in (partition, timestamp)):
        raise Failed(f"line {number}: partition and timestamp are whole numbers")
    headers = given.get("headers") or []
    if not isinstance(headers, list) or not all(
        isinstance(h, dict) and isinstance(h.get("name"), str) for h in headers
    ):
        raise Failed(f"line {number}: headers are a list of objects with `name` and `value`")
    return Record(
        _from_json(given, "value", number),
        _from_json(given, "key", number),
        [(header["name"], _from_json(header, "value", number)) for header in headers],
        partition,
        timestamp,
    )


def _from_json(given: dict[str, Any], name: str, number: int) -> bytes | None:
    if isinstance(encoded := given.get(f"{name}_base64"), str):
        try:
            return b64decode(encoded, validate=True)
        except ValueError:
            raise Failed(f"line {number}: {name}_base64 is not base64") from None
    value = given.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def value_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text as text; what is not UTF-8 as base64, under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode("ascii")}


Formatter = Callable[[Message], bytes]


def formatter(format_: str, null: str) -> Formatter:
    if format_ == "raw":
        return lambda message: (null.encode() if (value := message.value()) is None else value) + b"\n"
    if format_ == "json":
        return _json_line
    return _template(format_, null)


def _json_line(message: Message) -> bytes:
    kind, timestamp = message.timestamp()
    data = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
        **value_json("key", message.key()),
        **value_json("value", message.value()),
        "headers": [{"name": name, **value_json("value", value)} for name, value in _headers(message)],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _headers(message: Message) -> Headers:
    headers: Any = message.headers() or []  # the stubs also allow a dict, which is never given
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in headers]


def _template(template: str, null: str) -> Formatter:
    """`{key}: {value}\\n`. A newline ends each record unless the template brings its own."""
    text = codecs.decode(template.encode("latin-1", "backslashreplace"), "unicode_escape")
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise Misused(f"--format {template!r}: {error}") from None
    for part in parts:
        if part[1] is not None and part[1] not in FIELDS:
            known = " ".join(f"{{{name}}}" for name in FIELDS)
            raise Misused(f"--format takes raw, json, or a template of {known}, not {{{part[1]}}}")
    pieces = [(part[0].encode(), part[1]) for part in parts]
    ending = b"" if text.endswith("\n") else b"\n"
    absent = null.encode()

    def line(message: Message) -> bytes:
        out = []
        for literal, name in pieces:
            out.append(literal)
            if name is not None:
                found = _field(message, name)
                out.append(absent if found is None else found)
        return b"".join(out) + ending

    return line


def _field(message: Message, name: str) -> bytes | None:
    match name:
        case "key":
            return message.key()
        case "value":
            return message.value()
        case "headers":
            return b",".join(key.encode() + b"=" + (value or b"") for key, value in _headers(message))
        case "timestamp":
            return str(message.timestamp()[1]).encode()
    return str(getattr(message, name)()).encode()
