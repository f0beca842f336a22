"""All or nothing: transactions of which some is there and some is not, and copies that disagree with their offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.chaos.copies import is_copy, source_of
from tools.chaos.evidence import Evidence
from tools.chaos.history import Function, Key, Op, Outcome, Send

Finding = tuple[str, dict[str, Any]]


def torn_transactions(evidence: Evidence) -> Iterator[Finding]:
    """Some of its values have been read, and others never, although somebody went past where they should be."""
    passed = _Passed(evidence)
    for op in evidence.ops:
        if not op.is_atomic or op.outcome is Outcome.FAIL:
            continue
        seen = [send for send in op.sends() if send.value in evidence.read.get(send.key, ())]
        if not seen:
            continue
        decided_ns = min(passed.first_read_ns[send.key, send.value] for send in seen)
        missing = [
            send
            for send in op.sends()
            if send.value not in evidence.read.get(send.key, ()) and passed.has_passed(send, decided_ns)
        ]
        if missing:
            yield "torn", {"ops": [op.number], "seen": _named(seen), "missing": _named(missing)}


def _named(sends: list[Send]) -> list[list[Any]]:
    return [[send.key, send.value, send.offset] for send in sends]


class _Passed:
    """How far anybody has read each log: to which offset, and to how late a send."""

    def __init__(self, evidence: Evidence) -> None:
        self.first_read_ns: dict[tuple[Key, Any], int] = {}
        self._offsets: dict[Key, int] = {}
        self._sent_ns: dict[Key, int] = {}
        for op in evidence.ops:
            if op.is_ok:
                self._note(op, evidence)

    def _note(self, op: Op, evidence: Evidence) -> None:
        ended_ns = op.ended_ns or op.invoked_ns
        for key, seen in op.reads().items():
            writers = evidence.writers.get(key, {})
            for offset, value in seen:
                first_ns = self.first_read_ns.get((key, value), ended_ns)
                self.first_read_ns[key, value] = min(first_ns, ended_ns)
                self._offsets[key] = max(self._offsets.get(key, -1), offset)
                if value in writers:
                    self._sent_ns[key] = max(self._sent_ns.get(key, 0), writers[value][0].invoked_ns)

    def has_passed(self, send: Send, decided_ns: int) -> bool:
        """Its offset; or, if that is unknown, something that was sent after the whole had been decided."""
        if send.offset is not None and self._offsets.get(send.key, -1) > send.offset:
            return True
        return self._sent_ns.get(send.key, 0) > decided_ns


def copying(evidence: Evidence) -> Iterator[Finding]:
    """Each record below the committed offset has one copy, and none above has any."""
    copies: dict[tuple[Key, int], list[int]] = {}
    for key, values in evidence.read.items():
        for value in values:
            if is_copy(key) and isinstance(value, int):
                copies.setdefault(source_of(key, value), []).append(value)
    for (key, offset), made in copies.items():
        if len(made) > 1:
            yield "copied-twice", {"key": key, "offset": offset, "copies": sorted(made)}
    committed = _committed(evidence)
    for key, end in committed.items():
        for offset in sorted(offset for source, offset in copies if source == key and offset >= end):
            yield "copied-without-offset", {"key": key, "offset": offset, "committed": end}
        yield from _not_copied(evidence, key, end, copies)


def _committed(evidence: Evidence) -> Mapping[Key, int]:
    """As the last that asked was told."""
    told = [op for op in evidence.ops if op.f is Function.OFFSETS and op.is_ok]
    return {key: offset for key, offset in told[-1].keys.items() if offset is not None} if told else {}


def _not_copied(evidence: Evidence, key: Key, end: int, copies: Mapping[tuple[Key, int], Any]) -> Iterator[Finding]:
    read = evidence.read.get(key, set())
    for offset, values in evidence.log(key).at.items():
        if offset < end and values & read and (key, offset) not in copies:
            yield "not-copied", {"key": key, "offset": offset, "committed": end}
