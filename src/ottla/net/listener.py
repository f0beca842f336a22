"""Accepts connections within bounds, and closes those that have been silent for too long."""

import asyncio
import errno
import resource
import socket
from collections import Counter
from dataclasses import dataclass

import structlog

from ottla.base.broker_settings import Listener as Address
from ottla.net.connection import Connection, Line, Peer, Serve
from ottla.net.inbox import SharedBuffer

log = structlog.get_logger(__name__)

_BACKLOG = 1024
_ACCEPTED_PER_TURN = 64
_SWEEP_SECONDS = 5.0
_NO_DESCRIPTOR_PAUSE_SECONDS = 0.5
_DESCRIPTORS_KEPT = 64
"""For files, which are opened and closed all the time: a flood of connections must not stop the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    frame_bytes_max: int
    connections_max: int
    connections_per_host_max: int
    idle_ms_max: int
    """Negative: never."""
    sendfile: bool = True


class Listener:
    def __init__(self, address: Address, limits: ListenerLimits) -> None:
        self._address = address
        self._limits = limits
        self._connections: set[Connection] = set()
        self._count_by_host: Counter[str] = Counter()
        self._sock: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._descriptor_end = descriptors_for_connections()

    @property
    def name(self) -> str:
        return self._address.name

    @property
    def host(self) -> str:
        return self._address.host

    @property
    def port(self) -> int:
        """The port that is listened on: the system's choice where port 0 was asked for."""
        assert self._sock is not None
        return int(self._sock.getsockname()[1])

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def change_limits(self, limits: ListenerLimits) -> None:
        self._limits = limits

    def open(self) -> None:
        """Bind the address; raises OSError when it is taken or not ours."""
        family = socket.AF_INET6 if ":" in self._address.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind((self._address.host, self._address.port))
        except OSError:
            sock.close()
            raise
        self._sock = sock

    def start(self, serve: Serve) -> None:
        assert self._sock is not None
        self._sock.listen(_BACKLOG)
        loop = asyncio.get_running_loop()
        self._line = Line(
            loop=loop,
            serve=serve,
            buffer=SharedBuffer(),
            frame_bytes_max=self._limits.frame_bytes_max,
            sendfile=self._limits.sendfile,
            on_closed=self._forget,
        )
        loop.add_reader(self._sock.fileno(), self._accept)
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._on_sweep)

    def stop_accepting(self) -> None:
        if self._sock is None:
            return
        if self._sweep is not None:
            self._line.loop.remove_reader(self._sock.fileno())
            self._sweep.cancel()
        self._sock.close()
        self._sock = None

    def close_connections(self) -> None:
        for connection in list(self._connections):
            connection.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            if self._sock is None:
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                if problem.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._pause(problem)
                return
            self._admit(sock, address[0], address[1])

    def _pause(self, problem: OSError) -> None:
        """No file descriptor left: without a pause the loop would spin on the connection that still waits."""
        log.warning("connection not accepted", reason=str(problem))
        loop = self._line.loop
        assert self._sock is not None
        loop.remove_reader(self._sock.fileno())
        loop.call_later(_NO_DESCRIPTOR_PAUSE_SECONDS, self._go_on_accepting)

    def _go_on_accepting(self) -> None:
        if self._sock is not None:
            self._line.loop.add_reader(self._sock.fileno(), self._accept)

    def _admit(self, sock: socket.socket, host: str, port: int) -> None:
        limits = self._limits
        if len(self._connections) >= limits.connections_max:
            reason = f"{limits.connections_max} connections are open"
        elif self._count_by_host[host] >= limits.connections_per_host_max:
            reason = f"{limits.connections_per_host_max} connections from this address are open"
        elif sock.fileno() >= self._descriptor_end:
            # The lowest free number is given out first: a high one says that hardly any is left.
            reason = "the process has hardly any file descriptors left"
        else:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            local_host = sock.getsockname()[0]
            self._count_by_host[host] += 1
            self._connections.add(Connection(sock, Peer(host, port, self.name, local_host), self._line))
            return
        log.warning("connection not accepted", peer=f"{host}:{port}", reason=reason)
        sock.close()

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        host = connection.peer.host
        self._count_by_host[host] -= 1
        if not self._count_by_host[host]:
            del self._count_by_host[host]

    def _on_sweep(self) -> None:
        loop = self._line.loop
        now = loop.time()
        idle_seconds_max = self._limits.idle_ms_max / 1000
        for connection in list(self._connections):
            idle = now - connection.last_active
            if idle > _SWEEP_SECONDS:
                connection.release_idle_memory()
            if 0 <= idle_seconds_max < idle and not connection.is_busy:
                connection.close("idle for too long")
        pause = min(_SWEEP_SECONDS, idle_seconds_max / 2) if idle_seconds_max > 0 else _SWEEP_SECONDS
        self._sweep = loop.call_later(max(pause, 0.05), self._on_sweep)


def descriptors_for_connections() -> float:
    """Where the numbers of descriptors begin that connections leave alone."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if soft == resource.RLIM_INFINITY else soft - min(_DESCRIPTORS_KEPT, soft // 4)
