"""What clients did and what came of it: operations as lists of micro-operations, one JSON line an event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Key = str
"""A topic-partition, written `topic/partition`."""
Value = int | str
"""A number that is unique in its key. Text is what was read and cannot have been written."""
Seen = tuple[tuple[int, Value], ...]
"""Offsets and values, in the order they were read."""


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    """Certainly not done."""
    INFO = "info"
    """Nobody knows."""


class Function(StrEnum):
    SEND = "send"
    """Each micro-operation stands alone."""
    POLL = "poll"
    TXN = "txn"
    """All or nothing, sends and polls mixed."""
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    OFFSETS = "offsets"
    """What a group has committed; see `tools.chaos.copies`."""
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Send:
    key: Key
    value: Value
    offset: int | None = None
    is_acked: bool = False
    """Acknowledged, whatever came of the rest of its operation; perhaps without an offset."""

    def to_json(self) -> list[Any]:
        return ["send", self.key, self.value, self.offset, self.is_acked]


@dataclass(frozen=True, slots=True)
class Poll:
    seen: Mapping[Key, Seen] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        return ["poll", {key: [list(pair) for pair in seen] for key, seen in self.seen.items()}]


Mop = Send | Poll


def mop_from_json(row: list[Any]) -> Mop:
    if row[0] == "send":
        return Send(*row[1:])
    return Poll({key: tuple((offset, value) for offset, value in seen) for key, seen in row[1].items()})


@dataclass(slots=True)
class Op:
    """One operation from its beginning to its end."""

    number: int
    process: int
    f: Function
    outcome: Outcome = Outcome.INFO
    mops: tuple[Mop, ...] = ()
    keys: Mapping[Key, int | None] = field(default_factory=dict)
    """Of assign: where to begin; of subscribe: all keys of the topics; of offsets: what is committed."""
    rebalanced: frozenset[Key] = frozenset()
    """Keys taken or given since the last poll of this process."""
    attempt: int | None = None
    """Of a transaction that copies what it polls: which of all attempts to do so it is."""
    invoked_ns: int = 0
    ended_ns: int | None = None
    """None: nobody knows when, or if, it was done."""
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def is_atomic(self) -> bool:
        return self.f is Function.TXN

    def is_acked(self, send: Send) -> bool:
        """An acknowledged part of a transaction is nothing without the whole."""
        return self.is_ok or (send.is_acked and not self.is_atomic and self.outcome is not Outcome.FAIL)

    def sends(self) -> Iterator[Send]:
        return (mop for mop in self.mops if isinstance(mop, Send))

    def sends_by_key(self) -> dict[Key, list[Send]]:
        by_key: dict[Key, list[Send]] = {}
        for send in self.sends():
            by_key.setdefault(send.key, []).append(send)
        return by_key

    def reads(self) -> dict[Key, list[tuple[int, Value]]]:
        """Of all polls, one behind the other."""
        by_key: dict[Key, list[tuple[int, Value]]] = {}
        for mop in self.mops:
            if isinstance(mop, Poll):
                for key, seen in mop.seen.items():
                    by_key.setdefault(key, []).extend(seen)
        return {key: seen for key, seen in by_key.items() if seen}


# --- events


def invocation(op: Op) -> dict[str, Any]:
    row: dict[str, Any] = {"op": op.number, "event": "invoke", "at_ns": op.invoked_ns, "process": op.process, "f": op.f}
    if op.mops:
        row["mops"] = [mop.to_json() for mop in op.mops]
    if op.keys:
        row["keys"] = dict(op.keys)
    if op.attempt is not None:
        row["attempt"] = op.attempt
    return row


def completion(op: Op) -> dict[str, Any]:
    row: dict[str, Any] = {"op": op.number, "event": op.outcome, "at_ns": op.ended_ns}
    if op.mops:
        row["mops"] = [mop.to_json() for mop in op.mops]
    if op.f is Function.OFFSETS:
        row["keys"] = dict(op.keys)
    if op.rebalanced:
        row["rebalanced"] = sorted(op.rebalanced)
    if op.error:
        row["error"] = op.error
    return row


def pair(events: Iterable[Mapping[str, Any]]) -> list[Op]:
    """Operations in the order of their beginning. What has no end is `info`."""
    ops: dict[int, Op] = {}
    for row in events:
        if row["event"] == "invoke":
            ops[row["op"]] = Op(row["op"], row["process"], Function(row["f"]), attempt=row.get("attempt"))
            ops[row["op"]].invoked_ns = row["at_ns"]
        op = ops[row["op"]]
        op.keys = row.get("keys", op.keys)
        if "mops" in row:
            op.mops = tuple(map(mop_from_json, row["mops"]))
        if row["event"] != "invoke":
            op.outcome, op.error = Outcome(row["event"]), row.get("error", "")
            op.ended_ns, op.rebalanced = row["at_ns"], frozenset(row.get("rebalanced", ()))
    return list(ops.values())


def read_lines(lines: Iterable[str]) -> list[Op]:
    """A stored history. Lines that tell of something else (faults, settings) are passed over."""
    rows = (json.loads(line) for line in lines if line.strip())
    return pair(row for row in rows if "op" in row)
