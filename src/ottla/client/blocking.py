"""An event loop in a thread of its own, for code that cannot await: `loop.run(coroutine)`.

After a fork the child has the object but not the thread, so it begins a new one. Clusters do not come along: make them
in the process that uses them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
END_SECONDS_MAX = 10.0


class LoopThread:
    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self._new_loop = new_loop
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Until it is done; interrupted here, it is cancelled there."""
        loop = self._running()
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself: await it instead")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        finally:
            future.cancel()  # which does nothing to what is done

    def close(self) -> None:
        """What still runs is cancelled. In a forked child nothing runs, and there is nothing to do."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(END_SECONDS_MAX)

    def __enter__(self) -> LoopThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._starting = threading.Lock()  # whoever held it at the fork is not here
            self._loop, self._pid = None, os.getpid()
        with self._starting:
            if self._loop is None:
                self._loop = self._new_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="ottla-client", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
