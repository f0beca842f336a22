"""A log in memory whose clients overlap, and that breaks its promises in one chosen way; told as a history."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tools.chaos.history import Function, Op, Outcome, Poll, Send, Value

KEYS = ("t/0", "t/1")
SOUND = "sound"
CRIMES = {
    SOUND: set[str](),
    "drop an acknowledged record": {"lost-write", "unseen"},
    "serve above the high watermark": {"inconsistent-offsets"},
    "use an offset again": {"inconsistent-offsets", "lost-write", "unseen"},
    "show an aborted batch": {"G1a"},
    "store two sends in the wrong order": {"int-nonmonotonic-send", "nonmonotonic-send"},
    "store a batch twice": {"duplicate"},
    "leave out a record of a poll": {"int-poll-skip", "poll-skip"},
    "give a record twice": {"int-nonmonotonic-poll"},
    "change a record": {"never-written", "lost-write", "unseen"},
}
"""By what is done, what the judge must find: at least one of these."""


@dataclass
class FaultyLog:
    rng: Random
    crime: str = SOUND
    records: dict[str, list[Value | None]] = field(default_factory=lambda: {key: [] for key in KEYS})
    """None: a hole, as a control record leaves it."""
    is_done: bool = False

    def _commits_crime(self, crime: str) -> bool:
        """Once, and not always at the first occasion."""
        if self.crime != crime or self.is_done or self.rng.random() < 0.5:
            return False
        self.is_done = True
        return True

    def append(self, sends: list[Send], is_acked: bool) -> list[Send]:
        """Only of what is acknowledged can a crime be proven."""
        if self.rng.random() < 0.2:
            self.records[sends[0].key].append(None)
        if not is_acked:
            return self._append_each(sends)
        if len(sends) > 1 and self._commits_crime("store two sends in the wrong order"):
            return self._append_each(sends[::-1])[::-1]
        done = self._append_each(sends)
        last = self.records[sends[-1].key]
        if self._commits_crime("store a batch twice"):
            last.append(last[-1])
        if self._commits_crime("drop an acknowledged record"):
            last[-1] = None
            last.append(None)
        if self._commits_crime("use an offset again"):
            last.pop()
        if self._commits_crime("change a record"):
            last[-1] = "b'garbage'"
        return done

    def _append_each(self, sends: list[Send]) -> list[Send]:
        done = []
        for send in sends:
            log = self.records[send.key]
            done.append(Send(send.key, send.value, len(log), True))
            log.append(send.value)
        return done

    def abort(self, sends: list[Send]) -> None:
        """What is aborted leaves holes."""
        shows = self._commits_crime("show an aborted batch")
        for send in sends:
            self.records[send.key].append(send.value if shows else None)

    def read(self, key: str, offset: int, count: int) -> list[tuple[int, Value]]:
        log = self.records[key]
        found = [(at, value) for at in range(offset, len(log)) if (value := log[at]) is not None][:count]
        if len(found) > 2 and self._commits_crime("leave out a record of a poll"):
            del found[1]
        if found and self._commits_crime("give a record twice"):
            found.append(found[-1])
        if self._commits_crime("serve above the high watermark"):
            found.append((len(log), -1 - len(log)))
            log.append("b'another'")
        return found


class World:
    """Processes begin operations, these take effect, and end: in any order that is possible."""

    def __init__(self, seed: int, crime: str = SOUND, processes: int = 4) -> None:
        self.rng = Random(seed)
        self.log = FaultyLog(self.rng, crime)
        self.ops: list[Op] = []
        self._processes = processes
        self._clock = 0
        self._open: dict[int, Op] = {}
        self._effective: set[int] = set()
        self._positions: dict[tuple[int, str], int] = {}
        self._values = dict.fromkeys(KEYS, 0)

    def run(self, steps: int) -> list[Op]:
        for _ in range(steps):
            self._step(self.rng.randrange(self._processes))
        for process in list(self._open):
            while process in self._open:
                self._step(process)
        self._processes += 1
        self._read_all(self._processes)
        return self.ops

    def _now(self) -> int:
        self._clock += 1
        return self._clock

    def _step(self, process: int) -> None:
        op = self._open.get(process)
        if op is None:
            self._begin(process)
        elif op.number not in self._effective:
            self._effective.add(op.number)
            self._take_effect(op)
        else:
            op.ended_ns = self._now()
            del self._open[process]

    def _begin(self, process: int) -> None:
        op = Op(len(self.ops), process, Function.POLL, invoked_ns=self._now())
        if self.rng.random() < 0.5:
            op.f = Function.SEND
            key = self.rng.choice(KEYS)
            first = self._values[key]
            self._values[key] += self.rng.randint(1, 3)
            op.mops = tuple(Send(key, value) for value in range(first, self._values[key]))
        elif self.rng.random() < 0.1:
            op.f = Function.ASSIGN
            op.keys = dict.fromkeys(KEYS[: self.rng.randint(0, 2)])
        self.ops.append(op)
        self._open[process] = op

    def _take_effect(self, op: Op) -> None:
        op.outcome = Outcome.OK
        if op.f is Function.SEND:
            self._send(op)
        elif op.f is Function.POLL:
            op.mops = (Poll({key: tuple(self._read(op.process, key)) for key in KEYS}),)
        else:
            for key in KEYS:
                if key not in op.keys:
                    self._positions.pop((op.process, key), None)

    def _send(self, op: Op) -> None:
        sends, chance = list(op.sends()), self.rng.random()
        if chance < 0.1:
            op.outcome = Outcome.FAIL
            self.log.abort(sends)
        elif chance < 0.2:
            op.outcome = Outcome.INFO  # done or not, the client does not know
            if chance < 0.15:
                self.log.append(sends, is_acked=False)
        else:
            op.mops = tuple(self.log.append(sends, is_acked=True))

    def _read(self, process: int, key: str) -> list[tuple[int, Value]]:
        found = self.log.read(key, self._positions.get((process, key), 0), self.rng.randint(1, 8))
        if found:
            self._positions[process, key] = found[-1][0] + 1
        return found

    def _read_all(self, process: int) -> None:
        for key, log in self.log.records.items():
            seen = tuple((at, value) for at, value in enumerate(log) if value is not None)
            poll = Op(len(self.ops), process, Function.POLL, Outcome.OK, (Poll({key: seen}),))
            poll.invoked_ns, poll.ended_ns = self._now(), self._now()
            self.ops.append(poll)
