"""Runs the node's coroutine on the fastest event loop there is."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], use_uvloop: bool = True) -> T:
    """Like asyncio.run; with uvloop where it is installed (everywhere but on Windows)."""
    with asyncio.Runner(loop_factory=new_event_loop if use_uvloop else asyncio.new_event_loop) as runner:
        return runner.run(main)


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
