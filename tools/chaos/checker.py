"""The judge of a history: every anomaly in it, and which of them the promises allow. Pure, and linear but for cycles.

The anomalies are those of Jepsen's kafka workload, and some of our own: `never-written`, `late-append`, `torn`, and
what can go wrong with copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.chaos.cycles import find_cycles
from tools.chaos.evidence import Evidence
from tools.chaos.figures import Figures, figures_of
from tools.chaos.history import Key, Op, Outcome, Value
from tools.chaos.steps import Finding, against_time, between_operations, within_operations
from tools.chaos.wholeness import copying, torn_transactions

ALWAYS_LEGAL = frozenset({"G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime", "int-send-skip"})
"""Writes are not isolated from each other; only what was read must make sense without their order."""
UNLESS_IDEMPOTENT = frozenset({"duplicate", "nonmonotonic-send", "int-nonmonotonic-send"})
UNLESS_COMMITTED = frozenset({"G1a", "precommitted-read"})
UNLESS_DURABLE = frozenset({"lost-write", "unseen"})
UNLESS_STEADY = frozenset({"poll-skip", "nonmonotonic-poll"})


@dataclass(frozen=True)
class Promises:
    """What the settings of the clients let one expect."""

    is_idempotent: bool = True
    reads_committed: bool = True
    is_durable: bool = True
    """Acknowledged by all that count (acks=all; on one node acks=1 too)."""
    is_steady: bool = True
    """Every rebalance is in the history, so that what is read anew or left out has no other excuse."""

    def legal(self) -> frozenset[str]:
        legal = ALWAYS_LEGAL
        for kept, names in (
            (self.is_idempotent, UNLESS_IDEMPOTENT),
            (self.reads_committed, UNLESS_COMMITTED),
            (self.is_durable, UNLESS_DURABLE),
            (self.is_steady, UNLESS_STEADY),
        ):
            legal |= frozenset() if kept else names
        return legal


@dataclass
class Verdict:
    anomalies: dict[str, list[dict[str, Any]]]
    figures: Figures
    legal: frozenset[str] = field(default_factory=frozenset)

    @property
    def illegal(self) -> dict[str, list[dict[str, Any]]]:
        return {name: cases for name, cases in self.anomalies.items() if name not in self.legal}

    @property
    def is_valid(self) -> bool:
        return not self.illegal


def check(ops: Iterable[Op], promises: Promises | None = None) -> Verdict:
    evidence = Evidence(ops)
    anomalies: dict[str, list[dict[str, Any]]] = {}
    for find in (
        _bad_values,
        _inconsistent_offsets,
        _duplicates,
        _aborted_reads,
        _precommitted_reads,
        _lost_writes,
        _unseen,
        torn_transactions,
        copying,
        between_operations,
        within_operations,
        against_time,
        find_cycles,
    ):
        for name, case in find(evidence):
            anomalies.setdefault(name, []).append(case)
    return Verdict(anomalies, figures_of(evidence), (promises or Promises()).legal())


def _bad_values(evidence: Evidence) -> Iterator[Finding]:
    """Read, but never sent; or a history that is none, because a value was sent twice."""
    for key, value in evidence.written_twice:
        yield "written-twice", {"key": key, "value": value}
    for key, log in evidence.logs.items():
        for value in log.offsets.keys() - evidence.writers.get(key, {}).keys():
            yield "never-written", {"key": key, "value": value, "offsets": sorted(log.offsets[value])}


def _inconsistent_offsets(evidence: Evidence) -> Iterator[Finding]:
    for key, log in evidence.logs.items():
        for offset, values in log.at.items():
            if len(values) > 1:
                yield "inconsistent-offsets", {"key": key, "offset": offset, "values": sorted(values, key=str)}


def _duplicates(evidence: Evidence) -> Iterator[Finding]:
    for key, log in evidence.logs.items():
        for value, offsets in log.offsets.items():
            if len(offsets) > 1:
                yield "duplicate", {"key": key, "value": value, "offsets": sorted(offsets)}


def _aborted_reads(evidence: Evidence) -> Iterator[Finding]:
    for op in evidence.ops:
        if not op.is_ok:
            continue
        for key, seen in op.reads().items():
            for offset, value in seen:
                writer = evidence.writers.get(key, {}).get(value)
                if writer and writer[0].outcome is Outcome.FAIL:
                    case = {"key": key, "offset": offset, "value": value, "ops": [writer[0].number, op.number]}
                    yield "G1a", case


def _precommitted_reads(evidence: Evidence) -> Iterator[Finding]:
    for op in evidence.ops:
        if op.is_atomic:
            sent = {(send.key, send.value) for send in op.sends()}
            for key, seen in op.reads().items():
                for offset, value in seen:
                    if (key, value) in sent:
                        yield "precommitted-read", {"key": key, "offset": offset, "value": value, "ops": [op.number]}


def _lost_writes(evidence: Evidence) -> Iterator[Finding]:
    """Written for certain, before something that has been read, and read by nobody."""
    for key, log in evidence.logs.items():
        read = evidence.read.get(key, set())
        bound = max((log.first(value) for value in read if value in log.offsets), default=-1)
        for value in log.offsets:
            if log.last(value) <= bound and value not in read and _is_written(evidence, key, value):
                yield "lost-write", _whereabouts(evidence, key, value)


def _unseen(evidence: Evidence) -> Iterator[Finding]:
    """Acknowledged, and read by nobody until the end. Only a history with a final phase can tell."""
    for key, writers in evidence.writers.items():
        read = evidence.read.get(key, set())
        for value, (op, send) in writers.items():
            if op.is_acked(send) and value not in read:
                yield "unseen", _whereabouts(evidence, key, value)


def _is_written(evidence: Evidence, key: Key, value: Value) -> bool:
    writer = evidence.writers.get(key, {}).get(value)
    return writer is not None and evidence.must_commit(*writer)


def _whereabouts(evidence: Evidence, key: Key, value: Value) -> dict[str, Any]:
    op, send = evidence.writers[key][value]
    return {"key": key, "value": value, "offset": send.offset, "ops": [op.number]}
