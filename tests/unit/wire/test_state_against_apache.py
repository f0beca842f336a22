"""The records of our schemas against what Apache Kafka's own classes made of the same bytes."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.types import uuid_text
from ottla.wire.primitives import Message
from tests.unit.wire.message_values import our_bytes, record_values, schema_records

GOLDEN = Path(__file__).with_name("apache_log_records.txt")
CLASSES = {cls.__name__: cls for _, cls, _ in schema_records()}
NOT_IN_APACHE_4_3 = {"UnregisterControllerRecord"}


class Golden(NamedTuple):
    cls: type[Message]
    version: int
    data: bytes
    text: str


def golden_records() -> list[Golden]:
    found = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, version, data, text = line.split(" ", 3)
            found.append(Golden(CLASSES[name], int(version), bytes.fromhex(data.strip("-")), text))
    return found


def java_text(value: Any, uuids: bool = False) -> str:
    """A value the way Kafka's generated classes print it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case bytes():
            return uuid_text(value) if uuids else f"[{', '.join(str(b - 256 if b > 127 else b) for b in value)}]"
        case list():
            return f"[{', '.join(item if isinstance(item, str) else java_text(item, uuids) for item in value)}]"
        case Message():
            fields = (f"{camel(name)}={java_text(getattr(value, name), is_uuid(name))}" for name in value.__slots__)
            return f"{type(value).__name__}({', '.join(fields)})"
    return str(value)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def is_uuid(name: str) -> bool:
    return name in ("id", "topic_id", "incarnation_id", "directories", "log_dirs", "cordoned_log_dirs")


def without_class_names(text: str) -> str:
    """Nested classes of ours have names of their own, where Kafka has the same name twice."""
    for ours in (
        "CurrentTopicPartitions",
        "ShareTopicPartitions",
        "TargetTopicPartitions",
        "CurrentTaskIds",
        "TargetTaskIds",
    ):
        text = text.replace(ours, "")
    for theirs in ("TopicPartitions(", "TopicPartition(", "TaskIds("):
        text = text.replace(theirs, "(")
    return text


@pytest.mark.parametrize("golden", golden_records(), ids=lambda g: f"{g.cls.__name__}-v{g.version}-{len(g.data)}")
def test_apaches_bytes_mean_the_same_to_us(golden: Golden) -> None:
    record, end = golden.cls.decode(memoryview(golden.data), 0, golden.version)
    assert end == len(golden.data)
    assert without_class_names(java_text(record)) == without_class_names(golden.text)
    assert our_bytes(record, golden.version) == golden.data


def test_every_record_and_version_has_golden_bytes() -> None:
    golden = {(g.cls.__name__, g.version) for g in golden_records()}
    ours = {(cls.__name__, version) for _, cls, version in schema_records()}
    assert {name for name, _ in ours - golden} == NOT_IN_APACHE_4_3


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("message, cls, version", schema_records(), ids=lambda value: getattr(value, "__name__", None))
def test_a_record_survives_encoding_and_decoding(message: Any, cls: type[Message], version: int, data: Any) -> None:
    record = data.draw(record_values(message, cls, version))
    encoded = our_bytes(record, version)
    assert cls.decode(memoryview(encoded), 0, version) == (record, len(encoded))
