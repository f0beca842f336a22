"""A node on an event loop of its own in a thread, for tests that look into it or choose its loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.base.broker_settings import BrokerConfig
from ottla.broker.server import Node
from ottla.runtime.loop import run


@contextmanager
def running_node(
    directory: Path, *, settings: dict[str, str] | None = None, sendfile: bool = True, use_uvloop: bool = True
) -> Iterator[Node]:
    texts = {"listeners": "127.0.0.1:0", **(settings or {})}
    node = Node(BrokerConfig.from_texts(texts, log_dirs=(directory,)), sendfile=sendfile)
    is_ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await node.start()
        is_ready.set()
        await stop.wait()
        await node.stop()

    thread = threading.Thread(target=lambda: run(main(), use_uvloop=use_uvloop))
    thread.start()
    try:
        assert is_ready.wait(20)
        yield node
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()
