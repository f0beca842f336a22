"""The network between clients and the node, as bad as wanted: a relay for each client."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

CHUNK_BYTES = 65536
END_SECONDS_MAX = 3.0
CRUMBS_MAX = 300
"""Of each chunk so many bytes go one by one, the rest together: a frame's head is where it hurts."""
T = TypeVar("T")


@dataclass(eq=False)
class _Connection:
    client: asyncio.StreamWriter
    node: asyncio.StreamWriter
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    ended: set[asyncio.StreamWriter] = field(default_factory=set)
    """Ways on which the end has been said; what still comes for them is lost."""

    def end(self, writer: asyncio.StreamWriter) -> None:
        if writer not in self.ended and not writer.is_closing():
            self.ended.add(writer)
            writer.write_eof()


@dataclass(eq=False)
class Link:
    """Changed from the loop's thread alone; see `Network`."""

    port: int
    node_port: int
    delay_seconds: float = 0.0
    is_crumbling: bool = False
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[_Connection] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            node_reader, node_writer = await asyncio.open_connection("127.0.0.1", self.node_port)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(writer, node_writer)
        connection.flows.set()
        self.connections.add(connection)
        for one in (writer, node_writer):
            one.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.gather(
                self._relay(reader, node_writer, connection), self._relay(node_reader, writer, connection)
            )
        finally:
            self.connections.discard(connection)
            writer.transport.abort()
            node_writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> None:
        """Held bytes arrive when they are let go, even if who sent them has gone away."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self._allowed(connection)
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                if writer not in connection.ended:
                    await self._pass_on(data, writer, connection)
            await self._allowed(connection)
            connection.end(writer)
        except OSError:
            writer.transport.abort()

    async def _allowed(self, connection: _Connection) -> None:
        await self.flows.wait()
        await connection.flows.wait()

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter, connection: _Connection) -> None:
        crumbs = data[:CRUMBS_MAX] if self.is_crumbling else b""
        for at in range(len(crumbs)):
            if writer in connection.ended or writer.is_closing():
                return
            writer.write(data[at : at + 1])
            await asyncio.sleep(0)
        if writer not in connection.ended and not writer.is_closing():
            writer.write(data[len(crumbs) :])
            await writer.drain()

    def cut(self) -> None:
        """Reset everything."""
        for connection in list(self.connections):
            for writer in (connection.client, connection.node):
                if not writer.is_closing():
                    _reset(writer)

    def half_close(self, towards_node: bool) -> None:
        """One side hears that the other says no more; the other way stays open."""
        for connection in list(self.connections):
            connection.end(connection.node if towards_node else connection.client)

    def strand(self) -> None:
        """Those that are there now stand still; new ones flow."""
        for connection in self.connections:
            connection.flows.clear()

    def heal(self) -> None:
        self.delay_seconds = 0.0
        self.is_crumbling = False
        self.flows.set()
        for connection in self.connections:
            connection.flows.set()


def _reset(writer: asyncio.StreamWriter) -> None:
    """RST, not FIN."""
    peer = writer.transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Network:
    """All links, on an event loop in a thread."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def add_link(self, port: int, node_port: int) -> Link:
        return self._run(self._add_link(port, node_port))

    async def _add_link(self, port: int, node_port: int) -> Link:
        link = Link(port, node_port)
        link.flows.set()
        self._servers.append(await asyncio.start_server(link.accept, "127.0.0.1", port))
        self.links.append(link)
        return link

    def delay(self, link: Link, seconds: float) -> None:
        self._call(lambda: setattr(link, "delay_seconds", seconds))

    def hold(self, link: Link) -> None:
        self._call(link.flows.clear)

    def strand(self, link: Link) -> None:
        self._call(link.strand)

    def crumble(self, link: Link) -> None:
        self._call(lambda: setattr(link, "is_crumbling", True))

    def cut(self, link: Link) -> None:
        self._call(link.cut)

    def half_close(self, link: Link, towards_node: bool) -> None:
        self._call(lambda: link.half_close(towards_node))

    def heal(self, link: Link) -> None:
        self._call(link.heal)

    def close(self) -> None:
        self._run(self._end_all())
        self._call(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _end_all(self) -> None:
        for server in self._servers:
            server.close()
        for link in self.links:
            link.heal()
            link.cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=END_SECONDS_MAX)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, change: Any) -> None:
        self._loop.call_soon_threadsafe(change)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
