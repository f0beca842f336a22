"""A run: starts the queries of all flows, keeps them going, and tells how they do."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.definitions import Faulty
from ottla.spark.pipelines.progress import Progress
from ottla.spark.pipelines.state import StateDirectory, now_ms
from ottla.spark.pipelines.supervision import State, Supervisor

LOOK_SECONDS = 0.25
HEARTBEAT_MS = 1_000
_SET_BACK = ("WrongBatch: ", "WrongEpoch: ")
"""How failures begin that come of a checkpoint that is not the one the output was written with."""


class RunningQuery(Protocol):
    """A streaming query, as far as a run needs it."""

    def is_active(self) -> bool: ...

    def failure(self) -> str | None:
        """Why it ended; None if it came to its end."""

    def reports(self) -> Iterable[Mapping[str, Any]]:
        """Of the last batches, the oldest first."""

    def stop(self) -> None: ...


class Startable(Protocol):
    """A flow that is planned and can be started, again and again."""

    @property
    def name(self) -> str: ...

    @property
    def mode(self) -> str: ...

    @property
    def restarts(self) -> int: ...

    @property
    def scans(self) -> Sequence[int]:
        """How often each of its sources is read; empty where nobody knows."""

    def start(self) -> RunningQuery: ...


@dataclass(slots=True)
class PipelineRun:
    pipeline: str
    flows: Sequence[Startable]
    state: StateDirectory
    tell: Callable[[dict[str, Any]], None] = lambda entry: None
    """Hears of every event as it happens."""
    clock: Callable[[], int] = now_ms
    supervisor: Supervisor = field(init=False)
    _flows: dict[str, Startable] = field(init=False)
    _queries: dict[str, RunningQuery] = field(default_factory=dict)
    _progress: dict[str, Progress] = field(init=False)
    _started_ms: int = 0
    _written_ms: int = 0
    _ended: bool = False

    def __post_init__(self) -> None:
        self._flows = {flow.name: flow for flow in self.flows}
        self.supervisor = Supervisor({flow.name: flow.restarts for flow in self.flows})
        self._progress = {flow.name: Progress() for flow in self.flows}
        self._started_ms = self.clock()

    def go(self, stop: threading.Event) -> bool:
        """Until all is done or `stop` is set; returns whether no flow was given up."""
        try:
            while not stop.is_set():
                self.step()
                if self.supervisor.is_over:
                    break
                stop.wait(LOOK_SECONDS)
        finally:
            self._end()
        return all(self.supervisor[name].state is not State.FAILED for name in self.supervisor)

    def step(self) -> None:
        """One look at everything."""
        self._heed_wishes()
        for name in self.supervisor.running():
            self._look_at(name)
        for name in self.supervisor.due(self.clock()):
            self._start(self._flows[name])
        if self.clock() - self._written_ms >= HEARTBEAT_MS:
            self._write()

    def status(self) -> dict[str, Any]:
        """Everything there is to know, as plain values."""
        flows = {}
        for flow in self.flows:
            watched = self.supervisor[flow.name]
            flows[flow.name] = {
                "state": str(watched.state),
                "mode": flow.mode,
                "restarts": watched.restarts,
                "why": watched.why,
                "start_ms": watched.start_ms,
                **self._progress[flow.name].as_json(),
            }
        return {"pipeline": self.pipeline, "started_ms": self._started_ms, "ended": self._ended, "flows": flows}

    def _heed_wishes(self) -> None:
        to_stop, to_go_on = self.supervisor.wish(self.state.paused(), self.clock())
        for name in to_stop:
            self._stop(name)
            self._log(name, "paused")
        for name in to_go_on:
            self._log(name, "resumed")

    def _start(self, flow: Startable) -> None:
        try:
            query = flow.start()
        except (NotReady, Faulty) as failure:
            self._failed(flow.name, str(failure))
            return
        self._queries[flow.name] = query
        self.supervisor.started(flow.name, self.clock())
        self._log(flow.name, "started")

    def _look_at(self, name: str) -> None:
        query = self._queries[name]
        is_active = query.is_active()
        self._take_reports(name)
        if is_active:
            return
        del self._queries[name]
        why = query.failure()
        if why is None:
            self.supervisor.finished(name)
            self._log(name, "finished", f"{self._progress[name].written_total:,} rows written")
        else:
            self._failed(name, why)

    def _failed(self, name: str, why: str) -> None:
        is_set_back = why.startswith(_SET_BACK)
        pause_ms = self.supervisor.failed(name, why, self.clock(), is_set_back)
        self._log(name, "failed", why)
        if is_set_back:
            again = f"`ottla pipeline reset {name}` begins anew and writes again what it reads"
            self._log(name, "given up", f"it cannot go on from this checkpoint: restore the newest one; {again}")
        elif pause_ms is None:
            self._log(name, "given up", f"after {self.supervisor[name].failures} failures in a row")
        else:
            self._log(name, "waiting", f"next attempt in {pause_ms / 1000:g} s")

    def _take_reports(self, name: str) -> None:
        scans = self._flows[name].scans
        for report in self._queries[name].reports():
            self._progress[name].add(report, scans)

    def _stop(self, name: str) -> None:
        self._take_reports(name)
        self._queries.pop(name).stop()

    def _end(self) -> None:
        for name in self.supervisor.stop():
            self._stop(name)
            self._log(name, "stopped")
        self._ended = True
        self._write()

    def _log(self, flow: str, event: str, text: str = "") -> None:
        self.tell(self.state.log(flow, event, text))
        # Whoever looks from another terminal should see it at once.
        self._written_ms = 0

    def _write(self) -> None:
        self.state.write(self.status())
        self._written_ms = self.clock()
