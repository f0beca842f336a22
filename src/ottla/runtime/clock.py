"""The clocks of a node: the wall's for timestamps, a steady one for deadlines, an attended one for judging others."""

import asyncio
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.2
_STEP_MS_MAX = 500


def now_ms() -> int:
    return time.time_ns() // 1_000_000


_WALL_MS_AT_IMPORT = time.time_ns() // 1_000_000
_STEADY_NS_AT_IMPORT = time.monotonic_ns()


def steady_ms() -> int:
    """Milliseconds that read like the wall clock's and never jump: for sessions and other deadlines."""
    return _WALL_MS_AT_IMPORT + (time.monotonic_ns() - _STEADY_NS_AT_IMPORT) // 1_000_000


class AttendedClock:
    """Milliseconds in which this process could listen: a steady clock that stands still while the process does.

    Who was stopped, or too busy, cannot tell whether the others were silent. Between two looks this clock advances by
    a bounded step, so that a pause is not held against those who were not heard, and the dead are still missed.
    """

    def __init__(self, steady: Callable[[], int] = steady_ms) -> None:
        self._steady = steady
        self._looked_ms = self._now_ms = steady()
        self._timer: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        looked_ms = self._steady()
        self._now_ms += min(looked_ms - self._looked_ms, _STEP_MS_MAX)
        self._looked_ms = looked_ms
        return self._now_ms

    def start(self) -> None:
        """Look often enough from now on that a quiet time is not taken for a pause."""
        self.now_ms()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
