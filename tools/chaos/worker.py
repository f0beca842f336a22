"""A client's place: a child process that does operations, and its successors when it dies; all is written down."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Any

from tools.chaos.client import SAY_WHERE
from tools.chaos.client_port import CALL_SECONDS_MAX, SEND_SECONDS_MAX, Settings
from tools.chaos.history import Function, Key, Op, Outcome, Send, completion, invocation, mop_from_json
from tools.chaos.workload import Role, Workload

START_SECONDS_MAX = 40.0
ANSWER_SECONDS_MAX = SEND_SECONDS_MAX + 2 * CALL_SECONDS_MAX + 5
"""Whoever is silent for longer hangs, and is killed."""
LOOK_SECONDS = 0.2
"""So often somebody who waits for an answer looks whether it still can come."""
ZOMBIE_SECONDS = 2.0
ROOT = Path(__file__).resolve().parents[2]


class Recorder:
    """The history, in memory and on disk."""

    def __init__(self, file: IO[str], errors: IO[str]) -> None:
        self.errors = errors
        """Where clients say why they die."""
        self.ops: list[Op] = []
        self._file = file
        self._lock = threading.Lock()
        self._processes = itertools.count()

    def new_process(self) -> int:
        with self._lock:
            return next(self._processes)

    def begin(self, process: int, request: dict[str, Any]) -> Op:
        wanted = [*request.get("sends", ()), *(mop[1:] for mop in request.get("mops", ()) if mop[0] == "send")]
        sends = tuple(Send(key, value) for key, value, _ in wanted)
        with self._lock:
            op = Op(len(self.ops), process, Function(request["f"]), mops=sends, keys=request.get("keys", {}))
            op.attempt = request.get("attempt")
            op.invoked_ns = time.monotonic_ns()
            self.ops.append(op)
            self._write(invocation(op))
        return op

    def end(self, op: Op) -> None:
        with self._lock:
            op.ended_ns = time.monotonic_ns()
            self._write(completion(op))

    def tell(self, **what: Any) -> None:
        """Something that is no operation: a fault, a setting."""
        with self._lock:
            self._write({"at_ns": time.monotonic_ns(), **what})

    def snapshot(self) -> list[Op]:
        with self._lock:
            return [dataclasses.replace(op) for op in self.ops]

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class Pace:
    rng: Random
    ops_per_second: float


class Worker:
    def __init__(self, role: Role, settings: Settings, workload: Workload, recorder: Recorder) -> None:
        self._errors = recorder.errors
        self.role = role
        self.settings = settings
        self.process = -1
        self.crashes = 0
        self.hangs = 0
        self.replacements = 0
        """Clients that gave up by themselves."""
        self._is_broken = False
        self._workload = workload
        self._recorder = recorder
        self._child: subprocess.Popen[str] | None = None
        self._zombie: subprocess.Popen[str] | None = None
        """Stands still, has a successor, and knows nothing of it."""

    # --- the child

    def crash(self) -> None:
        """SIGKILL, at any moment, from any thread."""
        child = self._child
        if child is not None:
            child.kill()

    def freeze(self) -> None:
        """SIGSTOP, and a successor begins its work. From any thread."""
        child = self._child
        if child is not None and self._zombie is None:
            self._zombie = child
            child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it stood, for a moment."""
        zombie = self._zombie
        if zombie is not None:
            zombie.send_signal(signal.SIGCONT)
            time.sleep(ZOMBIE_SECONDS)
            _end(zombie)
            self._zombie = None

    def begin_anew(self) -> None:
        """A new process. While the node is away a library may not be able to start: then it is tried again."""
        self._bury()
        self._is_broken = False
        self.process = self._recorder.new_process()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tools.chaos.client", json.dumps(dataclasses.asdict(self.settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
        )
        self._recorder.tell(process=self.process, role=str(self.role), pid=self._child.pid)

    def _bury(self) -> None:
        child, self._child = self._child, None
        if child is not None and child is not self._zombie:
            _end(child)

    def _say_where(self) -> None:
        assert self._child is not None
        self._errors.write(f"process {self.process} ({self.role}) is silent\n")
        self._errors.flush()
        self._child.send_signal(SAY_WHERE)
        time.sleep(0.5)

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """None if the child is dead, or silent for too long."""
        assert self._child is not None and self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + seconds
            while not selector.select(LOOK_SECONDS):
                if self._child is self._zombie:
                    return None
                if time.monotonic() > deadline:
                    self.hangs += 1
                    self._say_where()
                    return None
        # One line an answer, so nothing is left over in the buffer.
        line = self._child.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    # --- operations

    def source_keys(self) -> list[Key]:
        return self._workload.keys_of(self.role.source)

    def do(self, request: dict[str, Any]) -> Op | None:
        """None if the child died of it; then what it did is unknown. It may also say that it can do no more."""
        assert self._child is not None and self._child.stdin is not None
        op = self._recorder.begin(self.process, request)
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            answer = self._answer(ANSWER_SECONDS_MAX)
        except OSError:
            answer = None
        if answer is None:
            op.error = "client died"
            self._recorder.end(op)
            self.crashes += 1
            return None
        op.outcome, op.error = Outcome(answer["outcome"]), answer.get("error", "")
        op.mops = tuple(map(mop_from_json, answer["mops"]))
        op.rebalanced = frozenset(answer.get("rebalanced", ()))
        self._recorder.end(op)
        self._workload.note(op)
        self._is_broken = answer.get("is_broken", False)
        self.replacements += self._is_broken
        return op

    def run(self, stop: threading.Event, pace: Pace) -> None:
        is_fresh, is_alive = True, False
        while not stop.is_set():
            if not is_alive:
                self.begin_anew()
                is_fresh, is_alive = True, self._answer(START_SECONDS_MAX) is not None
                stop.wait(0.2)
                continue
            op = self.do(self._workload.next_request(self.role, is_fresh))
            is_alive = op is not None and not self._is_broken
            is_fresh = False
            stop.wait(pace.rng.expovariate(pace.ops_per_second))

    def read_everything(self, deadline: float) -> bool:
        """As a new process, from the beginning until every end that anybody has seen; whether it got there."""
        while time.monotonic() < deadline:
            self.begin_anew()
            is_ready = self._answer(START_SECONDS_MAX) and self.do(self._workload.assign_everything())
            if is_ready and self._read_to(self._workload.ends(), deadline):
                return True
        return False

    def _read_to(self, missing: dict[str, int], deadline: float) -> bool:
        while missing and time.monotonic() < deadline:
            op = self.do(self._workload.poll())
            if op is None:
                return False
            for key, seen in op.reads().items():
                if seen[-1][0] + 1 >= missing.get(key, 0):
                    missing.pop(key, None)
        return not missing

    def close(self) -> None:
        zombie, self._zombie = self._zombie, None
        if zombie is not None:
            _end(zombie)
        self._bury()


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # a request that it did not live to read
                pipe.close()


def in_threads(work: Callable[[Worker], Any], workers: list[Worker]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    return threads
