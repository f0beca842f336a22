"""Partitions in memory with transactions, and a copier, that break one promise in one chosen way; told as a history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tools.chaos.copies import copy_key, copy_value
from tools.chaos.history import Function, Key, Mop, Op, Outcome, Poll, Send, Value

KEYS = ("t/0", "t/1")
SOURCE = "source/0"
COPY = copy_key(SOURCE)
SOUND = "sound"
CRIMES = {
    SOUND: set[str](),
    "commit in one partition and abort in the other": {"torn", "lost-write"},
    "lose one partition of a commit": {"torn", "lost-write", "unseen"},
    "commit what was aborted": {"G1a", "copied-twice"},
    "show what is still open": {"G1a"},
    "show a producer its own": {"precommitted-read"},
    "commit copies and not their offsets": {"copied-without-offset", "copied-twice"},
    "commit offsets and not their copies": {"not-copied", "torn", "unseen"},
    "commit the copies of a dead instance": {"copied-twice", "G1a"},
}
"""By what is done, what the judge must find: at least one of these."""


@dataclass(eq=False)
class Entry:
    value: Value | None
    """None: aborted, or a marker."""
    owner: int | None = None
    """The operation whose open transaction it belongs to."""


@dataclass
class FaultyPartitions:
    rng: Random
    crime: str = SOUND
    logs: dict[Key, list[Entry]] = field(default_factory=lambda: {key: [] for key in (*KEYS, SOURCE, COPY)})
    committed: int = 0
    """Of the copier's group."""
    is_done: bool = False
    fates: dict[int, Outcome] = field(default_factory=dict)
    """What must become of operations, so that a crime can be proven."""

    def commits_crime(self, crime: str) -> bool:
        """Once, and not always at the first occasion."""
        if self.crime != crime or self.is_done or self.rng.random() < 0.5:
            return False
        self.is_done = True
        return True

    def append(self, key: Key, value: Value, owner: int | None) -> int:
        self.logs[key].append(Entry(value, owner))
        return len(self.logs[key]) - 1

    def end(self, owner: int, commits: bool, is_told: bool = True) -> None:
        touched = [key for key, log in self.logs.items() if any(entry.owner == owner for entry in log)]
        if is_told and not commits and touched and self.commits_crime("commit what was aborted"):
            commits = True
        fates = dict.fromkeys(touched, commits)
        if commits and len(touched) > 1:
            victim = self.rng.choice(touched)
            if self.commits_crime("commit in one partition and abort in the other"):
                fates[victim] = False
            if self.commits_crime("lose one partition of a commit"):
                fates[victim] = False
        for key, fate in fates.items():
            for entry in self.logs[key]:
                if entry.owner == owner:
                    entry.owner = None
                    entry.value = entry.value if fate else None
            self.logs[key].append(Entry(None))

    def read(self, key: Key, offset: int, count: int, reader: int) -> list[tuple[int, Value]]:
        """Up to the first open transaction."""
        found: list[tuple[int, Value]] = []
        for at, entry in enumerate(self.logs[key][offset:], start=offset):
            if len(found) == count:
                break
            if entry.owner is not None and not self._shows(entry.owner, reader):
                break
            if entry.value is not None:
                found.append((at, entry.value))
        return found

    def _shows(self, owner: int, reader: int) -> bool:
        if owner == reader:
            return self.commits_crime("show a producer its own")
        if owner in self.fates or not self.commits_crime("show what is still open"):
            return False
        self.fates |= {owner: Outcome.FAIL, reader: Outcome.OK}
        return True


class TransactionWorld:
    """Processes whose transactions overlap, step by step, and one that copies and now and then dies over it."""

    def __init__(self, seed: int, crime: str = SOUND, processes: int = 4) -> None:
        self.rng = Random(seed)
        self.partitions = FaultyPartitions(self.rng, crime)
        self.ops: list[Op] = []
        self._processes = processes
        self._clock = 0
        self._open: dict[int, tuple[Op, Iterator[None]]] = {}
        self._positions: dict[tuple[int, Key], int] = {}
        self._values = dict.fromkeys((*KEYS, SOURCE), 0)
        self._attempts = 0
        self._copiers = 0

    def run(self, steps: int) -> list[Op]:
        for _ in range(steps):
            self._step(self.rng.randrange(self._processes + 1))
        for process in list(self._open):
            while process in self._open:
                self._step(process)
        self._finish()
        return self.ops

    def _now(self) -> int:
        self._clock += 1
        return self._clock

    def _step(self, process: int) -> None:
        """The last process is the copier."""
        if process not in self._open:
            op = Op(len(self.ops), process, Function.TXN, Outcome.FAIL, invoked_ns=self._now())
            self.ops.append(op)
            if process == self._processes:
                op.process += self._copiers
                course = self._copy(op)
            else:
                course = self._transact(op)
            self._open[process] = op, course
            return
        op, course = self._open[process]
        if next(course, "over") == "over":
            op.ended_ns = self._now()
            del self._open[process]

    # --- what processes do

    def _transact(self, op: Op) -> Iterator[None]:
        mops: list[Mop] = []
        ends = dict(self._positions)
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.4:
                mops.append(self._poll(op, self.rng.choice(KEYS)))
            else:
                mops.append(self._send(op, self.rng.choice((*KEYS, SOURCE))))
            op.mops = tuple(mops)
            yield
        self._decide(op, commits=self.rng.random() > 0.2)
        if not op.is_ok:
            self._rewind(op.process, ends)

    def _copy(self, op: Op) -> Iterator[None]:
        self._attempts += 1
        op.attempt = self._attempts
        begin = self.partitions.committed
        poll = Poll({SOURCE: tuple(self.partitions.read(SOURCE, begin, 5, op.number))})
        seen = poll.seen[SOURCE]
        sends = []
        for offset, _ in seen:
            value = copy_value(offset, op.attempt)
            sends.append(Send(COPY, value, self.partitions.append(COPY, value, op.number), True))
            yield
        op.mops = (poll, *sends)
        fate = self.rng.random()
        commits = bool(seen) and fate > 0.3
        if commits and not self.partitions.commits_crime("commit copies and not their offsets"):
            self.partitions.committed = seen[-1][0] + 1
        if commits and self.partitions.commits_crime("commit offsets and not their copies"):
            self.partitions.end(op.number, commits=False)
            op.outcome = Outcome.OK
            return
        if seen and not commits and self.partitions.commits_crime("commit the copies of a dead instance"):
            self.partitions.end(op.number, commits=True)
            return
        self._decide(op, commits)
        if op.number in self.partitions.fates:
            return
        if fate < 0.15 or 0.5 < fate < 0.6:  # it died, and whether before or after it was decided nobody knows
            op.outcome, op.mops = Outcome.INFO, ()
        if op.outcome is Outcome.INFO:
            self._copiers += 1  # the next one begins where the offsets say

    def _decide(self, op: Op, commits: bool) -> None:
        is_told = self.rng.random() > 0.15
        if op.number in self.partitions.fates:
            is_told, commits = True, self.partitions.fates[op.number] is Outcome.OK
        self.partitions.end(op.number, commits, is_told)
        op.outcome = Outcome.INFO if not is_told else Outcome.OK if commits else Outcome.FAIL

    def _send(self, op: Op, key: Key) -> Send:
        value = self._values[key]
        self._values[key] += 1
        return Send(key, value, self.partitions.append(key, value, op.number), True)

    def _poll(self, op: Op, key: Key) -> Poll:
        found = self.partitions.read(key, self._positions.get((op.process, key), 0), self.rng.randint(1, 8), op.number)
        if found:
            self._positions[op.process, key] = found[-1][0] + 1
        return Poll({key: tuple(found)})

    def _rewind(self, process: int, ends: dict[tuple[int, Key], int]) -> None:
        for key in KEYS:
            self._positions[process, key] = ends.get((process, key), 0)

    def _finish(self) -> None:
        """Somebody reads everything, and asks for the offsets."""
        for key, log in self.partitions.logs.items():
            seen = tuple((at, entry.value) for at, entry in enumerate(log) if entry.value is not None)
            self._add(Op(len(self.ops), -1, Function.POLL, Outcome.OK, (Poll({key: seen}),)))
        self._add(Op(len(self.ops), -1, Function.OFFSETS, Outcome.OK, keys={SOURCE: self.partitions.committed}))

    def _add(self, op: Op) -> None:
        op.invoked_ns, op.ended_ns = self._now(), self._now()
        self.ops.append(op)
