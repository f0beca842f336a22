"""How a thread that computes leaves the interpreter to the event loop.

A thread that never waits takes the interpreter whenever the loop lets go of it, at each of its system calls, and keeps
it for milliseconds. So such a thread looks, a few thousand times a second, whether the loop has run meanwhile, by the
processor time of the loop's thread: if it has, the thread rests for longer than that, and if it has not, not at all.
"""

import threading
import time
from collections.abc import Callable

WORK_SECONDS = 0.0003
REST_SECONDS_MIN, REST_SECONDS_MAX = 0.00005, 0.002
REST_PER_RUN = 2.0
"""A loop with much to do soon has nearly all of the time; the thread gets on all the same."""


class Courtesy:
    """For one thread that computes; created by the thread of the loop. Call it often."""

    def __init__(self, loop_seconds: Callable[[], float] | None = None) -> None:
        self._loop_seconds = loop_seconds or _clock_of_this_thread()
        self._seen = self._resumed = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._resumed < WORK_SECONDS:
            return
        seconds = self._loop_seconds()
        ran, self._seen = seconds - self._seen, seconds
        if ran > 0:
            time.sleep(min(max(REST_PER_RUN * ran, REST_SECONDS_MIN), REST_SECONDS_MAX))
            now = time.monotonic()
        self._resumed = now


def _clock_of_this_thread() -> Callable[[], float]:
    """Its processor time, for other threads to read; where the system does not tell, it seems to run always."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
