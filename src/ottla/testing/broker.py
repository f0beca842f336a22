"""A node inside the test process: real sockets, real files, no container.

Nothing heavy is imported before a broker is made: the pytest plugin loads this module in every project that has Ottla.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from types import TracebackType

    from ottla.broker.server import Node

T = TypeVar("T")
Topics: TypeAlias = Mapping[str, int] | Sequence[str]

WAIT_SECONDS_MAX = 30.0
FOR_TESTS = {"group.initial.rebalance.delay.ms": "0"}
"""A test has few consumers and little time: the first one need not wait three seconds for others."""
OPEN_FILES_MAX = 256
"""A guest takes little: what waits by `select`, as PySpark does, cannot use descriptors from 1024 on."""


class Broker:
    """A node in a background thread, for synchronous code: `with Broker() as broker: connect(broker.bootstrap)`.

    `topics` are there before the first client comes (names, or name: partition count); `settings` are Kafka's broker
    settings, and groups do not wait for further members unless these say so; the data lives in a temporary directory
    unless `data_dir` names one, which is kept for the next broker.
    """

    def __init__(
        self,
        topics: Topics = (),
        settings: Mapping[str, object] | None = None,
        data_dir: Path | str | None = None,
        listen: str = "127.0.0.1:0",
    ) -> None:
        self._broker = AsyncBroker(topics, settings, data_dir, listen)
        self._loop: AbstractEventLoop | None = None

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`."""
        return self._broker.bootstrap

    @property
    def host(self) -> str:
        return self._broker.host

    @property
    def port(self) -> int:
        return self._broker.port

    def start(self) -> Broker:
        if self._loop is not None:
            raise RuntimeError("the broker is running already")
        load_node()
        from ottla.runtime.loop import new_event_loop

        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-broker", daemon=True)
        self._thread.start()
        started = False
        try:
            self._wait_for(self._broker.start())
            started = True
        finally:
            if not started:
                self._end_loop()
        return self

    def stop(self) -> None:
        """Stop cleanly; everything is on disk afterwards. Stopping a stopped broker does nothing."""
        if self._loop is None:
            return
        try:
            self._wait_for(self._broker.stop())
        finally:
            self._end_loop()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        self._wait_for(self._broker.create_topic(name, partitions, config))

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        from asyncio import run_coroutine_threadsafe

        if self._loop is None:
            work.close()
            raise RuntimeError("the broker is not running")
        return run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS_MAX)

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(WAIT_SECONDS_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker's thread did not end within {WAIT_SECONDS_MAX:.0f} s")
        loop.close()


class AsyncBroker:
    """A node on the running event loop: `async with AsyncBroker() as broker: …`. Options as for `Broker`."""

    def __init__(
        self,
        topics: Topics = (),
        settings: Mapping[str, object] | None = None,
        data_dir: Path | str | None = None,
        listen: str = "127.0.0.1:0",
    ) -> None:
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._settings = settings or {}
        self._data_dir = data_dir
        self._listen = listen
        self._node: Node | None = None

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`."""
        return self._running().bootstrap

    @property
    def host(self) -> str:
        return self._running().host

    @property
    def port(self) -> int:
        return self._running().port

    async def start(self) -> AsyncBroker:
        from contextlib import AsyncExitStack
        from tempfile import TemporaryDirectory

        load_node()
        from ottla.base.broker_settings import BrokerConfig
        from ottla.broker.server import Node
        from ottla.storage.log import REAL_FILES

        keep_quiet()
        REAL_FILES.hold_at_most(OPEN_FILES_MAX)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.stop)
            self._temporary = None if self._data_dir else TemporaryDirectory(prefix="ottla-")
            directory = Path(self._data_dir or self._temporary.name)  # type: ignore[union-attr]
            texts = {**FOR_TESTS, **{name: _text(value) for name, value in self._settings.items()}}
            config = BrokerConfig.from_texts({**texts, "listeners": self._listen}, log_dirs=(directory,))
            node = Node(config)
            await node.start()
            self._node = node
            for name, partitions in self._topics.items():
                await self.create_topic(name, partitions)
            on_failure.pop_all()
        return self

    async def stop(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def __aenter__(self) -> AsyncBroker:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _running(self) -> Node:
        if self._node is None:
            raise RuntimeError("the broker is not running")
        return self._node

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Create a topic and wait until it is open; raises Refused, as a client would be refused."""
        from ottla.base.errors import ErrorCode, Refused
        from ottla.core.metadata.asks import NewTopic

        node = self._running()
        texts = tuple((setting, _text(value)) for setting, value in (config or {}).items())
        [made] = await node.controller.create_topics([NewTopic(name, partitions, configs=texts)])
        if made.error != ErrorCode.NONE:
            raise Refused(made.error, made.why or name)
        await node.replicas.opened(name)


def load_node() -> None:
    """Import the node past pytest, which rewrites the assertions of everything that comes with a plugin.

    That is meant for test code; here it would compile two megabytes of codecs anew and take longer than all the rest.
    """
    rewriting = [finder for finder in sys.meta_path if type(finder).__module__ == "_pytest.assertion.rewrite"]
    for finder in rewriting:
        sys.meta_path.remove(finder)
    try:
        import ottla.broker.server  # noqa: F401
    finally:
        sys.meta_path[:0] = rewriting


def keep_quiet() -> None:
    """Warnings of the node go to the `ottla` logger, where pytest shows them, unless the project set structlog up."""
    import logging

    import structlog

    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.add_logger_name,
                structlog.processors.format_exc_info,
                structlog.stdlib.render_to_log_kwargs,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
