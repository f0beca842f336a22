"""Values as bytes that cannot be mistaken for others, nor damaged unnoticed."""

from __future__ import annotations

from random import Random

from tools.chaos.history import Key, Value

TEXT_MAX = 80
"""So much of what is no value of ours goes into the history."""


def seal(key: Key, value: int, size: int) -> bytes:
    """About `size` bytes that do not compress."""
    head = f"{key}|{value}|".encode()
    return head + Random(value).randbytes(max(0, size - len(head)))


def unseal(key: Key, data: bytes | None) -> Value:
    """The value, if it is whole and of this key; else what was found, as text."""
    data = data or b""
    parts = data.split(b"|", 2)
    if len(parts) == 3 and parts[1].isdigit() and data == seal(key, int(parts[1]), len(data)):
        return int(parts[1])
    return repr(data[:TEXT_MAX])


def split_key(key: Key) -> tuple[str, int]:
    topic, _, partition = key.rpartition("/")
    return topic, int(partition)
