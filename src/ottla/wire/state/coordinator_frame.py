"""How coordinators write to `__consumer_offsets`, `__transaction_state` and `__share_group_state`.

A key is an int16 that names the record, then the fields; a value is an int16 version, then the fields. A null value is
a tombstone and the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TypeVar

from ottla.wire.primitives import Buffer, Malformed, Message

_KEY_VERSION = 0
_int16 = Struct(">h")
M = TypeVar("M", bound=Message)


def encode_key(key: Message) -> bytes:
    out = Buffer()
    out += _int16.pack(key.API_KEY)
    key.encode(out, _KEY_VERSION)
    return bytes(out)


def decode_key(data: bytes | memoryview, keys: Mapping[int, type[Message]]) -> Message | None:
    """The key, or None if a later version of Kafka wrote it and it is to be passed over."""
    buf = memoryview(data)
    key_class = keys.get(_leading_int16(buf))
    if key_class is None:
        return None
    return _decode_whole(buf, key_class, _KEY_VERSION)


def encode_value(value: Message, version: int) -> bytes:
    out = Buffer()
    out += _int16.pack(version)
    value.encode(out, version)
    return bytes(out)


def decode_value(data: bytes | memoryview, value_class: type[M]) -> M:
    buf = memoryview(data)
    return _decode_whole(buf, value_class, _leading_int16(buf))


def _leading_int16(buf: memoryview) -> int:
    if len(buf) < _int16.size:
        raise Malformed(f"a coordinator record of {len(buf)} bytes")
    number: int = _int16.unpack_from(buf)[0]
    return number


def _decode_whole(buf: memoryview, message_class: type[M], version: int) -> M:
    message, at = message_class.decode(buf, _int16.size, version)
    if at != len(buf):
        raise Malformed(f"{message_class.__name__} leaves {len(buf) - at} bytes behind")
    return message
