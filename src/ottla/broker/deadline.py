"""A request's own timeout: who asks is told when it is over; what was begun is finished all the same."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.base.errors import ErrorCode, Refused

T = TypeVar("T")

_unfinished: set[asyncio.Future[Any]] = set()
"""The loop itself holds tasks only weakly."""


async def within(timeout_ms: int, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or Refused(REQUEST_TIMED_OUT). A timeout of nothing is over before it begins."""
    if timeout_ms <= 0:
        work.close()
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "the request gives no time")
    task = asyncio.ensure_future(work)
    _unfinished.add(task)
    task.add_done_callback(_finish)
    done, _ = await asyncio.wait((task,), timeout=timeout_ms / 1000)
    if not done:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"not done within {timeout_ms} ms, and still going on")
    return task.result()


def _finish(task: asyncio.Future[Any]) -> None:
    _unfinished.discard(task)
    if not task.cancelled():
        task.exception()  # nobody may be waiting for it any more
