"""Which flow is to run, when a flow that failed is tried again, and when it is given up. Pure: time is an argument."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

_FIRST_PAUSE_MS = 1_000
_PAUSE_MS_MAX = 60_000
WELL_AFTER_MS = 300_000
"""Who has run for so long without a failure starts counting anew."""


class State(StrEnum):
    WAITING = "waiting"
    """To be started: now, or after a pause."""
    RUNNING = "running"
    PAUSED = "paused"
    """Somebody asked for it."""
    FINISHED = "finished"
    """It has read all that there was."""
    FAILED = "failed"
    """It failed too often."""
    STOPPED = "stopped"
    """The run has ended."""


@dataclass(slots=True)
class Watched:
    """One flow as the supervisor sees it."""

    restarts_max: int
    state: State = State.WAITING
    start_ms: int = 0
    """When it may start, or did."""
    failures: int = 0
    """Since it last ran well."""
    restarts: int = 0
    """In all."""
    why: str = ""
    """It failed last."""


class Supervisor:
    def __init__(self, restarts_max: Mapping[str, int]) -> None:
        self._flows = {name: Watched(most) for name, most in restarts_max.items()}

    def __getitem__(self, name: str) -> Watched:
        return self._flows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flows)

    def due(self, now_ms: int) -> list[str]:
        """The flows to start now."""
        return [name for name, flow in self._flows.items() if flow.state is State.WAITING and flow.start_ms <= now_ms]

    def running(self) -> list[str]:
        return [name for name, flow in self._flows.items() if flow.state is State.RUNNING]

    def started(self, name: str, now_ms: int) -> None:
        flow = self._flows[name]
        assert flow.state is State.WAITING
        flow.state, flow.start_ms = State.RUNNING, now_ms

    def finished(self, name: str) -> None:
        self._flows[name].state = State.FINISHED

    def failed(self, name: str, why: str, now_ms: int, is_hopeless: bool = False) -> int | None:
        """How long to wait before the next attempt; None if there is none, as where another would fail alike."""
        flow = self._flows[name]
        if flow.state is State.RUNNING and now_ms - flow.start_ms >= WELL_AFTER_MS:
            flow.failures = 0
        flow.failures += 1
        flow.why = why
        if flow.failures > flow.restarts_max or is_hopeless:
            flow.state = State.FAILED
            return None
        pause_ms = min(_FIRST_PAUSE_MS << (flow.failures - 1), _PAUSE_MS_MAX)
        flow.restarts += 1
        flow.state, flow.start_ms = State.WAITING, now_ms + pause_ms
        return pause_ms

    def wish(self, paused: Iterable[str], now_ms: int) -> tuple[list[str], list[str]]:
        """The flows that somebody wants paused, all of them; returns those that change: to stop, and to go on.

        Going on also gives a flow that was given up another chance, if it was paused in between.
        """
        wanted = set(paused)
        to_stop, to_go_on = [], []
        for name, flow in self._flows.items():
            if name in wanted and flow.state not in (State.PAUSED, State.FINISHED, State.STOPPED):
                if flow.state is State.RUNNING:
                    to_stop.append(name)
                flow.state = State.PAUSED
            elif name not in wanted and flow.state is State.PAUSED:
                flow.state, flow.start_ms, flow.failures, flow.why = State.WAITING, now_ms, 0, ""
                to_go_on.append(name)
        return to_stop, to_go_on

    def stop(self) -> list[str]:
        """The run ends: who was running has to be stopped."""
        running = self.running()
        for flow in self._flows.values():
            if flow.state in (State.RUNNING, State.WAITING):
                flow.state = State.STOPPED
        return running

    @property
    def is_over(self) -> bool:
        """Nothing runs and nothing will, whatever anybody wishes; or, in a run to the end, what is left is paused."""
        states = {flow.state for flow in self._flows.values()}
        has_finished = State.FINISHED in states
        return states <= {State.FINISHED, State.FAILED, *([State.PAUSED] if has_finished else [])}
