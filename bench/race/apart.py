"""Work done in a fresh process, so that a client's state is the same in every run and its processor time is known."""

import gc
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

SECONDS_MAX = 900.0


@dataclass
class Load:
    """What a client did between its first and its last record."""

    records: int
    seconds: float
    cpu_seconds: float
    figures: dict[str, float] = field(default_factory=dict)
    process_seconds: float = 0.0
    """How long the processor time took to come together, if that is longer: a JVM starts and ends as well."""

    @property
    def client_cores(self) -> float:
        seconds = max(self.seconds, self.process_seconds)
        return self.cpu_seconds / seconds if seconds else 0.0


class Stopwatch:
    """Time on the wall and on the processors, of this process and all its threads."""

    def __init__(self) -> None:
        gc.collect()
        gc.disable()
        self._begun, self._cpu = time.monotonic(), own_cpu_seconds()

    def load(self, records: int, **figures: float) -> Load:
        return Load(records, time.monotonic() - self._begun, own_cpu_seconds() - self._cpu, figures)


def own_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class ClientFailed(RuntimeError):
    """A client's process ended without a result."""


class Apart:
    """One call under way in a process of its own; `result()` waits for it. To be used with `with`."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._answer, answer = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(answer, work, arguments), daemon=True)
        self._process.start()
        # With only the child holding the other end, its death is the end of the stream.
        answer.close()

    def result(self) -> Any:
        if not self._answer.poll(SECONDS_MAX):
            raise ClientFailed(f"no result after {SECONDS_MAX:.0f} s")
        try:
            is_done, value = self._answer.recv()
        except EOFError:
            self._process.join()
            raise ClientFailed(f"the client ended with {self._process.exitcode}") from None
        if not is_done:
            raise ClientFailed(value)
        return value

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._answer.close()


def _work(answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        told = (True, work(*arguments))
    except Exception as problem:  # noqa: BLE001 - whatever it was, it is told in the process that waits
        told = (False, f"{type(problem).__name__}: {str(problem)[:500]}")
    answer.send(told)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    with Apart(work, *arguments) as running:
        return running.result()
