"""From one record to the next: does a process go through a log without gaps and never back?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tools.chaos.evidence import Evidence
from tools.chaos.history import Function, Key, Op, Outcome

Finding = tuple[str, dict[str, Any]]


def between_operations(evidence: Evidence) -> Iterator[Finding]:
    """Successive operations of one process."""
    walks: dict[int, _Walk] = {}
    for op in evidence.ops:
        yield from walks.setdefault(op.process, _Walk(evidence)).step(op)


class _Walk:
    """Where one process stands in each log."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._polled: dict[Key, tuple[int, Op]] = {}
        self._sent: dict[Key, tuple[int, Op]] = {}

    def step(self, op: Op) -> Iterator[Finding]:
        if op.f in (Function.ASSIGN, Function.SUBSCRIBE):
            if op.outcome is not Outcome.FAIL:
                self._begin(op)
            return
        yield from self._step_polls(op)
        if op.outcome is not Outcome.FAIL:
            yield from self._step_sends(op)

    def _begin(self, op: Op) -> None:
        """Keys that stay go on where they are; a new one, just before the first record that is not left out."""
        stands = {key: stand for key, stand in self._polled.items() if key in op.keys}
        for key, begin in op.keys.items() if op.f is Function.ASSIGN else ():
            if begin is not None and key not in stands:
                stands[key] = self._evidence.log(key).count_below(begin) - 1, op
        self._polled = stands

    def _step_polls(self, op: Op) -> Iterator[Finding]:
        for key in op.rebalanced:
            self._polled.pop(key, None)
        for key, seen in op.reads().items():
            rank = self._evidence.log(key).rank
            stand = self._polled.get(key)
            if stand is not None:
                delta = rank[seen[0][0]] - stand[0]
                if delta != 1:
                    name = "poll-skip" if delta > 1 else "nonmonotonic-poll"
                    yield name, _account(key, delta, stand[1], op, seen[0])
            if op.is_ok and key not in op.rebalanced:
                self._polled[key] = rank[seen[-1][0]], op

    def _step_sends(self, op: Op) -> Iterator[Finding]:
        for key, sends in op.sends_by_key().items():
            places = [place for send in sends if (place := self._evidence.index_of(send)) is not None]
            if not places:
                continue
            stand = self._sent.get(key)
            if stand is not None and places[0] - stand[0] < 1:
                account = _account(key, places[0] - stand[0], stand[1], op, (sends[0].offset, sends[0].value))
                yield "nonmonotonic-send", account
            self._sent[key] = places[-1], op


def _account(key: Key, delta: int, earlier: Op, later: Op, what: tuple[int | None, Any]) -> dict[str, Any]:
    return {
        "key": key,
        "process": later.process,
        "delta": delta,
        "ops": [earlier.number, later.number],
        "offset": what[0],
        "value": what[1],
    }


def within_operations(evidence: Evidence) -> Iterator[Finding]:
    """Consecutive micro-operations of one operation."""
    for op in evidence.ops:
        yield from _polls_within(evidence, op)
        if op.outcome is not Outcome.FAIL:
            yield from _sends_within(evidence, op)


def _polls_within(evidence: Evidence, op: Op) -> Iterator[Finding]:
    for key, seen in op.reads().items():
        if key in op.rebalanced:
            continue
        rank = evidence.log(key).rank
        for (before, _), (offset, value) in pairwise(seen):
            delta = rank[offset] - rank[before]
            if delta != 1:
                name = "int-poll-skip" if delta > 1 else "int-nonmonotonic-poll"
                yield name, _account(key, delta, op, op, (offset, value))


def _sends_within(evidence: Evidence, op: Op) -> Iterator[Finding]:
    for key, sends in op.sends_by_key().items():
        places = [(place, send) for send in sends if (place := evidence.index_of(send)) is not None]
        for (before, _), (place, send) in pairwise(places):
            if place - before != 1:
                name = "int-send-skip" if place - before > 1 else "int-nonmonotonic-send"
                yield name, _account(key, place - before, op, op, (send.offset, send.value))


def against_time(evidence: Evidence) -> Iterator[Finding]:
    """A record lies behind every other that was known before it was sent, whoever sent that."""
    moments = [(op.invoked_ns, False, at) for at, op in enumerate(evidence.ops)]
    moments += [(op.ended_ns, True, at) for at, op in enumerate(evidence.ops) if op.ended_ns is not None]
    known: dict[Key, int] = {}
    bounds: dict[int, dict[Key, int]] = {}
    for _, is_end, at in sorted(moments):  # at one instant beginnings come first: such operations overlap
        op = evidence.ops[at]
        if not is_end:
            bounds[at] = {send.key: known.get(send.key, -1) for send in op.sends()}
            continue
        for send in op.sends():
            if send.offset is None or not op.is_acked(send):
                continue
            if send.offset <= (bound := bounds[at].get(send.key, -1)):
                case = {"key": send.key, "offset": send.offset, "value": send.value, "known": bound}
                yield "late-append", {**case, "ops": [op.number]}
        for key, offset in _offsets_of(op):
            known[key] = max(known.get(key, -1), offset)


def _offsets_of(op: Op) -> Iterator[tuple[Key, int]]:
    for send in op.sends():
        if send.offset is not None and op.is_acked(send):
            yield send.key, send.offset
    for key, seen in op.reads().items():
        yield key, max(offset for offset, _ in seen)
