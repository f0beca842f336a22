"""Blocking disk work away from the event loop: fsync shared by many producers, recovery, deletion, compaction."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 4


class Flushable(Protocol):
    """A log as far as fsync is concerned: `flush` runs in a thread, while appends go on."""

    def flush(self) -> None: ...


class Disk:
    """A few threads. `flush` is group commit: who asks while an fsync runs shares the next one."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self._running: dict[Flushable, asyncio.Future[None]] = {}
        self._next: dict[Flushable, asyncio.Future[None]] = {}

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))

    def flush(self, log: Flushable) -> asyncio.Future[None]:
        """Resolves when everything appended before this call is on disk; fails with the OSError of the fsync."""
        waiting = self._next.get(log)
        if waiting is not None:
            return waiting
        done = asyncio.get_running_loop().create_future()
        if log in self._running:
            self._next[log] = done
        else:
            self._begin(log, done)
        return done

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _begin(self, log: Flushable, done: asyncio.Future[None]) -> None:
        self._running[log] = done
        asyncio.get_running_loop().run_in_executor(self._pool, log.flush).add_done_callback(
            lambda flushed: self._end(log, done, flushed)
        )

    def _end(self, log: Flushable, done: asyncio.Future[None], flushed: asyncio.Future[None]) -> None:
        del self._running[log]
        following = self._next.pop(log, None)
        error = None if flushed.cancelled() else flushed.exception()
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
                # Nobody may be waiting any more; the log's owner learns of it by its own callback.
                done.exception()
        if following is not None:
            self._begin(log, following)
