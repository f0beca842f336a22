"""One client's connection: requests are started in the order they arrive and answered in that order.

The first step of a request's coroutine is run by hand, right where its frame lies; most requests are finished by
that, and their answers leave together in one system call. Only a request that has to wait becomes a task, and the
requests behind it start meanwhile: their answers queue.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import coroutine
from typing import Any

import structlog

from ottla.base.limits import PIPELINED_REQUESTS_MAX, UNSENT_BYTES_MAX
from ottla.net.inbox import BadFrame, Inbox, SharedBuffer
from ottla.net.outbox import Outbox
from ottla.wire.primitives import Buffer

log = structlog.get_logger(__name__)


class Hangup(Exception):
    """Raised by a request: the connection must be closed, without an answer, with this text in the log."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, as a request may know it."""

    host: str
    port: int
    listener: str
    local_host: str


Serve = Callable[[memoryview, Peer], Coroutine[Any, Any, Buffer | None]]
"""One request frame in, one encoded response out; None when the request asks for no answer."""


_PENDING = Buffer()
"""Stands for an answer that is not there yet; None is that of a request that asks for none."""


class _Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("answer",)

    def __init__(self, answer: Buffer | None = _PENDING) -> None:
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Line:
    """What all connections of one listener share."""

    loop: asyncio.AbstractEventLoop
    serve: Serve
    buffer: SharedBuffer
    frame_bytes_max: int
    sendfile: bool
    on_closed: Callable[["Connection"], None]


class Connection:
    __slots__ = (
        "_inbox",
        "_is_closed",
        "_is_reading",
        "_is_writing",
        "_line",
        "_loop",
        "_outbox",
        "_slots",
        "_sock",
        "_tasks",
        "last_active",
        "peer",
    )

    def __init__(self, sock: socket.socket, peer: Peer, line: Line) -> None:
        self._sock = sock
        self._line = line
        self._loop = line.loop
        self._inbox = Inbox(sock, line.buffer, line.frame_bytes_max)
        self._outbox = Outbox(sock, line.sendfile)
        self._slots: deque[_Slot] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_writing = False
        self._is_reading = True
        self.peer = peer
        self.last_active = self._loop.time()
        self._loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def is_busy(self) -> bool:
        return bool(self._slots or self._outbox)

    def release_idle_memory(self) -> None:
        self._inbox.release_idle_memory()

    def close(self, reason: str = "") -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if reason:
            log.info("connection closed", peer=f"{self.peer.host}:{self.peer.port}", reason=reason)
        descriptor = self._sock.fileno()
        self._loop.remove_reader(descriptor)
        if self._is_writing:
            self._loop.remove_writer(descriptor)
        for task in self._tasks:
            task.cancel()
        self._slots.clear()
        self._outbox.clear()
        self._sock.close()
        self._line.on_closed(self)

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        try:
            if not self._inbox.receive():
                self.close()
                return
        except (BlockingIOError, InterruptedError):
            return
        except BadFrame as problem:
            self._close_badly(problem)
            return
        except OSError:
            self.close()
            return
        self._serve_frames()

    def _serve_frames(self) -> None:
        """Start the requests that have arrived, up to what may be under way at once; the rest keeps."""
        inbox, outbox, slots = self._inbox, self._outbox, self._slots
        try:
            while (frame := inbox.next_frame()) is not None:
                self._start(frame)
                if self._is_closed:
                    return
                if len(slots) >= PIPELINED_REQUESTS_MAX or outbox.unsent_bytes >= UNSENT_BYTES_MAX:
                    inbox.keep_rest()
                    self._set_reading(False)
                    break
        except (BadFrame, Hangup) as problem:
            self._close_badly(problem)
            return
        if outbox:
            self._send()

    def _start(self, frame: memoryview) -> None:
        request = self._line.serve(frame, self.peer)
        try:
            waits_for = request.send(None)
        except StopIteration as finished:
            if self._slots:
                self._slots.append(_Slot(finished.value))
            elif finished.value is not None:
                self._outbox.put(finished.value)
            return
        slot = _Slot()
        self._slots.append(slot)
        task = self._loop.create_task(self._finish(slot, request, waits_for))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, slot: _Slot, request: Coroutine[Any, Any, Buffer | None], waits_for: object) -> None:
        try:
            slot.answer = await _resume(request, waits_for)
        except Hangup as problem:
            self._close_badly(problem)
            return
        slots = self._slots
        if slots and slots[0] is slot:
            while slots and (answer := slots[0].answer) is not _PENDING:
                slots.popleft()
                if answer is not None:
                    self._outbox.put(answer)
            self._send()

    def _send(self) -> None:
        try:
            is_empty = self._outbox.flush()
        except OSError as problem:
            self.close("" if isinstance(problem, ConnectionError) else f"sending failed: {problem}")
            return
        if is_empty == self._is_writing:
            self._is_writing = not is_empty
            if is_empty:
                self._loop.remove_writer(self._sock.fileno())
            else:
                self._loop.add_writer(self._sock.fileno(), self._on_writable)
        if not self._is_reading:
            has_room = len(self._slots) < PIPELINED_REQUESTS_MAX and self._outbox.unsent_bytes < UNSENT_BYTES_MAX
            self._set_reading(has_room)

    def _on_writable(self) -> None:
        self.last_active = self._loop.time()
        self._send()

    def _set_reading(self, wanted: bool) -> None:
        """A peer that asks faster than it takes answers is not listened to for a while."""
        if wanted == self._is_reading or self._is_closed:
            return
        self._is_reading = wanted
        if wanted:
            self._loop.add_reader(self._sock.fileno(), self._on_readable)
            # Frames that were kept back make no socket readable.
            self._loop.call_soon(self._serve_kept)
        else:
            self._loop.remove_reader(self._sock.fileno())

    def _serve_kept(self) -> None:
        if not self._is_closed:
            self._serve_frames()

    def _close_badly(self, problem: Exception) -> None:
        log.warning("connection refused", peer=f"{self.peer.host}:{self.peer.port}", reason=str(problem)[:200])
        if not self._is_closed:
            # What was asked before the nonsense has its answers ready, and may as well get them.
            with suppress(OSError):
                self._outbox.flush()
        self.close()


@coroutine
def _resume(request: Coroutine[Any, Any, Buffer | None], waits_for: object) -> Generator[object, object, Buffer | None]:
    """Go on with a coroutine whose first step was run by hand, inside a task from here on."""
    try:
        while True:
            try:
                value = yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation goes to the request, as a task would do it
                waits_for = request.throw(error)
            else:
                waits_for = request.send(value)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
