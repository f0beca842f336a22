"""What a history proves about each log: which value lies where, and what has been read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tools.chaos.copies import with_found_copies
from tools.chaos.history import Key, Op, Outcome, Send, Value


def _plain(value: Value) -> tuple[bool, str, int]:
    return (True, value, 0) if isinstance(value, str) else (False, "", value)


@dataclass
class Log:
    """One key. An index is the rank of an offset among those known to hold something."""

    at: dict[int, set[Value]] = field(default_factory=dict)
    offsets: dict[Value, set[int]] = field(default_factory=dict)
    order: list[Value] = field(default_factory=list)
    rank: dict[int, int] = field(default_factory=dict)
    _offsets: list[int] = field(default_factory=list)

    def note(self, offset: int, value: Value) -> None:
        self.at.setdefault(offset, set()).add(value)
        self.offsets.setdefault(value, set()).add(offset)

    def settle(self) -> None:
        """All is noted: give the offsets their ranks."""
        self._offsets = ordered = sorted(self.at)
        self.rank = {offset: index for index, offset in enumerate(ordered)}
        self.order = [min(self.at[offset], key=_plain) for offset in ordered]

    def count_below(self, offset: int) -> int:
        return bisect_left(self._offsets, offset)

    def first(self, value: Value) -> int:
        return self.rank[min(self.offsets[value])]

    def last(self, value: Value) -> int:
        return self.rank[max(self.offsets[value])]


class Evidence:
    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops: Sequence[Op] = with_found_copies(sorted(ops, key=lambda op: (op.invoked_ns, op.number)))
        self.read: dict[Key, set[Value]] = {}
        """By operations that are ok."""
        self.writers: dict[Key, dict[Value, tuple[Op, Send]]] = {}
        """Who tried to send it, whatever became of it."""
        self.written_twice: list[tuple[Key, Value]] = []
        self.logs: dict[Key, Log] = {}
        self._proven: set[int] = set()
        for op in self.ops:
            self._note_attempts(op)
        for op in self.ops:
            self._note_proof(op)
        for op in self.ops:
            self._note_places(op)
        for log in self.logs.values():
            log.settle()

    def log(self, key: Key) -> Log:
        return self.logs.setdefault(key, Log())

    def must_commit(self, op: Op, send: Send) -> bool:
        """Done for certain: acknowledged, or unknown but read. One part of a transaction that was read proves all."""
        if op.is_acked(send) or op.number in self._proven:
            return True
        if op.outcome is Outcome.FAIL or op.is_atomic:
            return False
        return send.value in self.read.get(send.key, ())

    def is_done(self, op: Op) -> bool:
        """Whether any part of it is known to have happened."""
        return op.is_ok or any(self.must_commit(op, send) for send in op.sends())

    def index_of(self, send: Send) -> int | None:
        """The place of a sent value; by its acknowledgement, else by where it was read first."""
        log = self.log(send.key)
        if send.offset is not None and send.offset in log.rank:
            return log.rank[send.offset]
        return log.first(send.value) if send.value in log.offsets else None

    def _note_attempts(self, op: Op) -> None:
        for send in op.sends():
            writers = self.writers.setdefault(send.key, {})
            if send.value in writers:
                self.written_twice.append((send.key, send.value))
            writers[send.value] = (op, send)
        if op.is_ok:
            for key, seen in op.reads().items():
                self.read.setdefault(key, set()).update(value for _, value in seen)

    def _note_proof(self, op: Op) -> None:
        is_unknown = op.is_atomic and op.outcome is Outcome.INFO
        if is_unknown and any(send.value in self.read.get(send.key, ()) for send in op.sends()):
            self._proven.add(op.number)

    def _note_places(self, op: Op) -> None:
        for send in op.sends():
            if send.offset is not None and self.must_commit(op, send):
                self.log(send.key).note(send.offset, send.value)
        for key, seen in op.reads().items():  # of failed and unknown polls too: nobody may ever see unsafe data
            log = self.log(key)
            for offset, value in seen:
                log.note(offset, value)
