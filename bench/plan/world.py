"""Virtual time: a queue of events, and servers that do one thing at a time, as an event loop does.

Nothing here is random and nothing sleeps: the same plan gives the same figures on every machine.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], None]
EVENTS_MAX = 5_000_000
"""A model that needs more has run wild."""


class RunWild(RuntimeError):
    """So many events that the model cannot be what was meant."""


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._order = count()
        self._happened = 0

    def at(self, delay_seconds: float, action: Action) -> None:
        heappush(self._events, (self.now + max(delay_seconds, 0.0), next(self._order), action))

    def run(self, until_seconds: float = float("inf")) -> None:
        while self._events and self._events[0][0] <= until_seconds:
            self.now, _, action = heappop(self._events)
            self._happened += 1
            if self._happened > EVENTS_MAX:
                raise RunWild(f"{EVENTS_MAX} events after {self.now:.3f} s")
            action()


class Server:
    """One event loop on one core: what is asked is done in order, each for as long as it costs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: deque[tuple[float, Action]] = deque()
        self._is_busy = False
        self.busy_seconds = 0.0

    def do(self, cost_seconds: float, then: Action) -> None:
        self._waiting.append((cost_seconds, then))
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        cost_seconds, then = self._waiting.popleft()
        self._is_busy = True
        self.busy_seconds += cost_seconds
        self._world.at(cost_seconds, lambda: self._done(then))

    def _done(self, then: Action) -> None:
        self._is_busy = False
        then()
        if self._waiting and not self._is_busy:
            self._next()
