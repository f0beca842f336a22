"""Patience: until when, and how often until then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from ottla.client.failures import ClientFailure

T = TypeVar("T")

_jitter = Random()


@dataclass(frozen=True)
class Backoff:
    first_s: float = 0.05
    max_s: float = 1.0

    def pause_s(self, attempt: int) -> float:
        """Doubles, and is never quite the same, so that those who failed together do not come back together."""
        return float(min(self.max_s, self.first_s * 2 ** min(attempt, 16)) * _jitter.uniform(0.8, 1.2))


class Deadline:
    """A moment, by the clock that is never set."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._at

    async def attempts(self, backoff: Backoff) -> AsyncIterator[int]:
        """Always one, and with growing pauses as many more as there is time for."""
        attempt = 0
        yield attempt
        while (pause_s := backoff.pause_s(attempt)) < self.left_s:
            await asyncio.sleep(pause_s)
            attempt += 1
            yield attempt

    async def patiently(self, attempt: Callable[[], Awaitable[T]], backoff: Backoff) -> T:
        """Repeat what fails in a way that passes by itself; in the end its last failure is raised."""
        last: ClientFailure | None = None
        async for _ in self.attempts(backoff):
            try:
                return await attempt()
            except ClientFailure as failure:
                if not failure.is_retriable:
                    raise
                last = failure
        assert last is not None
        raise last
