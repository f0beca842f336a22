"""An offset that only grows, and those who wait for it to be reached. Nobody polls; the caller owns the time-out."""

import asyncio
import heapq
from itertools import count


class Watermark:
    __slots__ = ("_ticket", "_waiters", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = count()

    def reached(self, offset: int) -> asyncio.Future[None] | None:
        """None when `offset` is reached already, else what resolves when it is."""
        if self.value >= offset:
            return None
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (offset, next(self._ticket), waiter))
        return waiter

    def advance(self, value: int) -> None:
        assert value >= self.value
        self.value = value
        waiters = self._waiters
        while waiters and waiters[0][0] <= value:
            waiter = heapq.heappop(waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Nothing waited for will come: the log is gone, or somebody else leads."""
        waiters, self._waiters = self._waiters, []
        for *_, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
                # An asker that has left in the meantime must not turn this into a warning.
                waiter.exception()
