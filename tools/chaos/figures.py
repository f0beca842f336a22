"""What a history tells besides right and wrong: how much, how late, how often."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tools.chaos.evidence import Evidence
from tools.chaos.history import Function, Key, Op, Outcome, Poll, Value

NS_PER_SECOND = 1_000_000_000


@dataclass
class Figures:
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """By function, then by outcome."""
    sent: int = 0
    acked: int = 0
    read: int = 0
    keys: int = 0
    ack_stall_seconds: float = 0.0
    """The longest time in which nothing was acknowledged."""
    read_stall_seconds: float = 0.0
    """The longest time in which nothing was read."""
    lag_seconds: float = 0.0
    """The worst realtime lag: how long the next record had been there when a poll began."""
    read_again: int = 0
    """Values that one subscribed process has been given more than once."""


def figures_of(evidence: Evidence) -> Figures:
    figures = Figures(keys=len(evidence.logs))
    for op in evidence.ops:
        figures.outcomes.setdefault(op.f, Counter())[op.outcome] += 1
        for send in op.sends():
            figures.sent += 1
            figures.acked += op.is_acked(send)
        figures.read += sum(map(len, op.reads().values()))
    figures.ack_stall_seconds = _longest_gap(op for op in evidence.ops if op.is_ok and any(op.sends()))
    figures.read_stall_seconds = _longest_gap(op for op in evidence.ops if op.is_ok and op.reads())
    figures.lag_seconds = realtime_lag(evidence)
    figures.read_again = sum(count > 1 for counts in consume_counts(evidence).values() for count in counts.values())
    return figures


def _longest_gap(ops: Iterable[Op]) -> float:
    moments = sorted(op.ended_ns for op in ops if op.ended_ns is not None)
    gaps = (later - earlier for earlier, later in pairwise(moments))
    return max(gaps, default=0) / NS_PER_SECOND


def consume_counts(evidence: Evidence) -> dict[int, Counter[tuple[Key, Value]]]:
    """By subscribed process, how often it was given each value. More than once is not exactly once."""
    counts: dict[int, Counter[tuple[Key, Value]]] = {}
    subscribed: set[int] = set()
    for op in evidence.ops:
        if op.f is Function.SUBSCRIBE:
            subscribed.add(op.process)
        elif op.f is Function.ASSIGN:
            subscribed.discard(op.process)
        elif op.is_ok and op.process in subscribed:
            count = counts.setdefault(op.process, Counter())
            for key, seen in op.reads().items():
                count.update((key, value) for _, value in seen)
    return counts


def realtime_lag(evidence: Evidence) -> float:
    """In seconds: from when the next record was known to exist until a poll that began later and did not bring it.

    Of assigned processes, and from their assignment on: whoever begins in the past is not late for that.
    """
    known = {key: _KnownEnds() for key in evidence.logs}
    for op in sorted((op for op in evidence.ops if op.ended_ns is not None), key=lambda op: op.ended_ns or 0):
        for key, offset in _offsets_shown(op):
            known[key].note(op.ended_ns or 0, offset)
    positions: dict[int, dict[Key, int]] = {}
    assigned_ns: dict[int, int] = {}
    worst = 0
    for op in evidence.ops:
        if op.f in (Function.ASSIGN, Function.SUBSCRIBE):
            positions[op.process] = _positions_after(op, positions.get(op.process, {}))
            assigned_ns[op.process] = op.ended_ns or op.invoked_ns
        if not op.is_ok or not any(isinstance(mop, Poll) for mop in op.mops):
            continue
        stand = positions.get(op.process, {})
        for key, seen in op.reads().items():
            if key in stand:
                stand[key] = max(stand[key], seen[-1][0] + 1)
        for key, position in stand.items():
            if key in known and (since := known[key].since(position)) is not None:
                worst = max(worst, op.invoked_ns - max(since, assigned_ns[op.process]))
    return worst / NS_PER_SECOND


def _positions_after(op: Op, before: dict[Key, int]) -> dict[Key, int]:
    if op.f is not Function.ASSIGN or op.outcome is Outcome.FAIL:
        return {}
    return {key: before.get(key, begin) for key, begin in op.keys.items() if begin is not None}


def _offsets_shown(op: Op) -> Iterable[tuple[Key, int]]:
    for send in op.sends():
        if send.offset is not None and op.is_acked(send):
            yield send.key, send.offset
    for key, seen in op.reads().items():
        yield key, max(offset for offset, _ in seen)


class _KnownEnds:
    """When the last known offset of a log had grown, and to what."""

    def __init__(self) -> None:
        self._moments: list[int] = []
        self._offsets: list[int] = []

    def note(self, moment_ns: int, offset: int) -> None:
        if not self._offsets or offset > self._offsets[-1]:
            self._moments.append(moment_ns)
            self._offsets.append(offset)

    def since(self, position: int) -> int | None:
        """Since when a record at `position` or behind it is known."""
        at = bisect_right(self._offsets, position - 1)
        return self._moments[at] if at < len(self._moments) else None
