"""One heap for all deadlines of a shard. Moving a deadline later costs a dictionary write: its heap entry is looked at
again when it comes due, so a heartbeat does not touch the heap."""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    __slots__ = ("_at", "_count", "_heap", "_queued")

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._queued: dict[K, int] = {}
        """The earliest heap entry of a key; there may be later ones, which then count for nothing."""
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: K, at_ms: int) -> None:
        self._at[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or queued > at_ms:
            self._push(key, at_ms)

    def cancel(self, key: K) -> None:
        self._at.pop(key, None)

    def get(self, key: K) -> int | None:
        return self._at.get(key)

    def next_ms(self) -> int | None:
        """When to look again; it may be earlier than the next true deadline, never later."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[K]:
        """Take out every deadline reached, earliest first. Deadlines may be set and cancelled meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue
            del self._queued[key]
            at_ms = self._at.get(key)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                self._push(key, at_ms)
                continue
            del self._at[key]
            yield key

    def _push(self, key: K, at_ms: int) -> None:
        self._count += 1
        self._queued[key] = at_ms
        heappush(self._heap, (at_ms, self._count, key))
