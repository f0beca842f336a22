"""Reads schemas into the generator's model: a line for the record or message, then one per field, nested ones indented.

    record|message Name key=N versions=LOW-HIGH flexible=LOW+|never
      field type [since=V] [until=V] [tag=N] [nullable] [default=VALUE]

A type is a Kafka type, the name of a nested class, or one of these behind `[]`. The fields of a nested class follow its
first use, two spaces deeper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tools.gen.model import FIXED_FORMATS, Field, Message, Shape

_KINDS = {*FIXED_FORMATS, "string", "bytes", "records"}
_LITERALS = {"null": "None", "true": "True", "false": "False"}
_PROPERTIES = {"since", "until", "tag", "nullable", "default"}


@dataclass(slots=True)
class _Line:
    """A field over all versions."""

    field: Field
    since: int
    until: int


@dataclass(slots=True)
class _Record:
    message: Message
    versions: range
    flexible_from: int | None
    classes: dict[str, list[_Line]] = field(default_factory=dict)


def read_schema(path: Path) -> list[Message]:
    records: list[_Record] = []
    open_classes: list[str] = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        try:
            if text.startswith(("record ", "message ")):
                records.append(_record(text))
                open_classes = [records[-1].message.name]
            else:
                _add_field(records[-1], open_classes, text)
        except (ValueError, KeyError, IndexError) as wrong:
            raise ValueError(f"{path.name}:{number}: {wrong}: {text.strip()}") from wrong
    return [_message(record) for record in records]


def _record(text: str) -> _Record:
    _, name, *words = text.split()
    properties = dict(word.split("=") for word in words)
    low, high = properties["versions"].split("-")
    flexible = properties["flexible"]
    return _Record(
        Message(name, int(properties["key"])),
        range(int(low), int(high) + 1),
        None if flexible == "never" else int(flexible.removesuffix("+")),
        {name: []},
    )


def _add_field(record: _Record, open_classes: list[str], text: str) -> None:
    depth = (len(text) - len(text.lstrip())) // 2
    del open_classes[depth:]
    line = _line(text)
    record.classes[open_classes[depth - 1]].append(line)
    struct = line.field.struct
    if struct:
        record.classes.setdefault(struct, [])
        open_classes.append(struct)


def _line(text: str) -> _Line:
    name, kind, *words = text.split()
    properties = dict(word.partition("=")[::2] for word in words)
    if not properties.keys() <= _PROPERTIES:
        raise ValueError(f"unknown property among {sorted(properties)}")
    array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    struct = "" if kind in _KINDS else kind
    if struct and not struct[0].isupper():
        raise ValueError(f"unknown type {struct}")
    default = properties.get("default")
    return _Line(
        Field(
            name,
            "struct" if struct else kind,
            struct,
            array,
            "nullable" in properties,
            int(properties["tag"]) if "tag" in properties else None,
            None if default is None else _LITERALS.get(default, default),
        ),
        int(properties.get("since", 0)),
        int(properties.get("until", 1 << 15)),
    )


def _message(record: _Record) -> Message:
    for name, lines in record.classes.items():
        if not lines and name != record.message.name:
            raise ValueError(f"{record.message.name} uses {name}, which has no fields")
    order = [*reversed([n for n in record.classes if n != record.message.name]), record.message.name]
    for version in record.versions:
        flexible = record.flexible_from is not None and version >= record.flexible_from
        record.message.versions[version] = {
            name: Shape(name, flexible, tuple(x.field for x in record.classes[name] if x.since <= version <= x.until))
            for name in order
        }
    return record.message
