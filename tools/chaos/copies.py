"""Names for copies: what a transaction has polled is written elsewhere, and its offsets are committed with it.

A copy says of what it is one, and which attempt has made it, so that a client may die without a word: what others read
of its copies tells what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tools.chaos.history import Key, Op, Outcome, Poll, Send, Value

SUFFIX = "-copy"
ATTEMPTS_MAX = 1_000_000


def copy_key(key: Key) -> Key:
    topic, _, partition = key.rpartition("/")
    return f"{topic}{SUFFIX}/{partition}"


def copy_value(offset: int, attempt: int) -> int:
    assert attempt < ATTEMPTS_MAX
    return offset * ATTEMPTS_MAX + attempt


def is_copy(key: Key) -> bool:
    return key.rpartition("/")[0].endswith(SUFFIX)


def source_of(key: Key, value: int) -> tuple[Key, int]:
    """The key and the offset of what was copied."""
    topic, _, partition = key.rpartition("/")
    return f"{topic.removesuffix(SUFFIX)}/{partition}", value // ATTEMPTS_MAX


def with_found_copies(ops: Sequence[Op]) -> list[Op]:
    """Attempts of which nobody has heard again get the copies that were read as their sends."""
    silent = {op.attempt: op for op in ops if op.attempt is not None and op.outcome is Outcome.INFO and not op.mops}
    found: dict[int, set[tuple[Key, int]]] = {}
    for key, value in _copies_read(ops) if silent else ():
        if value % ATTEMPTS_MAX in silent:
            found.setdefault(value % ATTEMPTS_MAX, set()).add((key, value))
    by_number = {
        silent[attempt].number: replace(silent[attempt], mops=tuple(Send(*copy) for copy in sorted(copies)))
        for attempt, copies in found.items()
    }
    return [by_number.get(op.number, op) for op in ops]


def _copies_read(ops: Sequence[Op]) -> set[tuple[Key, int]]:
    return {(key, value) for op in ops for key, value in _values_read(op) if isinstance(value, int) and is_copy(key)}


def _values_read(op: Op) -> list[tuple[Key, Value]]:
    polls = [mop for mop in op.mops if isinstance(mop, Poll)]
    return [(key, value) for poll in polls for key, seen in poll.seen.items() for _, value in seen]
