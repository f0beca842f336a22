"""The records of internal topics, spelt out: what the cluster, a group or a transaction has decided."""

from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import Any

from ottla.base.types import uuid_text
from ottla.core.groups import codec as groups
from ottla.core.transactions import codec as transactions
from ottla.wire.batch import Record
from ottla.wire.primitives import Message
from ottla.wire.state.metadata_frame import decode_metadata_record

Line = dict[str, Any]

_METADATA = "__cluster_metadata"
_COORDINATORS: dict[str, Callable[[bytes, bytes | None], object]] = {
    "__consumer_offsets": groups.decode,
    "__transaction_state": transactions.decode,
}


def spelt_out(topic: str, record: Record) -> Line | None:
    """None for a record of an ordinary topic, and for a kind that is not known here. Raises Malformed."""
    decided: object = None
    if topic == _METADATA:
        decided = decode_metadata_record(record.value or b"")
    elif topic in _COORDINATORS and record.key is not None:
        decided = _COORDINATORS[topic](record.key, record.value)
    if decided is None:
        return None
    place = {"kind": "metadata" if topic == _METADATA else "state", "offset": record.offset}
    fields: Line = plain(decided)
    return place | {"timestamp": record.timestamp, "type": type(decided).__name__} | fields


def plain(value: Any) -> Any:
    """A message, a dataclass or a named tuple as JSON has it: objects, lists, and ids as Kafka prints them."""
    if isinstance(value, Message):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields_of(value)}
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, frozenset | set):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | memoryview):
        return uuid_text(bytes(value)) if len(value) == 16 else bytes(value).hex()
    return value
