"""What a connection still has to send: bytes, and slices of files; all but small ones leave by `sendfile`."""

import os
import socket
import sys
from collections import deque
from collections.abc import Iterable
from typing import Protocol, cast

from ottla.wire.primitives import Buffer

CAN_SENDFILE = sys.platform == "linux" and hasattr(os, "sendfile")
_MSG_MORE = getattr(socket, "MSG_MORE", 0)
_COPY_BYTES = 256 * 1024
_GATHERED_MAX = 64
_READ_BYTES_MAX = 16 * 1024
"""Slices up to this size are read: one `send` of the whole answer is cheaper than `send`, `sendfile`, `send`."""
_HELD_BYTES_MAX = 64 * 1024
"""No slice is read while more than this waits: a peer that takes nothing costs no more memory for it."""
_TURN_BYTES = 4 * 1024 * 1024
"""How much one connection may push before the event loop looks at the others."""


class OpenFile(Protocol):
    @property
    def fd(self) -> int: ...


class FileSlice(Protocol):
    """A part of an open file; the file stays open as long as the slice lives."""

    @property
    def file(self) -> OpenFile: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


class Outbox:
    """Sends in order, as far as the socket takes it. `unsent_bytes` counts memory, not slices still in their files."""

    __slots__ = ("_queue", "_sendfile", "_sock", "_sock_fd", "unsent_bytes")

    def __init__(self, sock: socket.socket, sendfile: bool) -> None:
        self._sock = sock
        self._sock_fd = sock.fileno()
        self._sendfile = sendfile and CAN_SENDFILE
        self._queue: deque[memoryview | _Pending] = deque()
        self.unsent_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, data: Buffer) -> None:
        """An encoded answer, with the records' file slices in the places that were left for them."""
        view = memoryview(data)
        if not data.holes:
            self._queue.append(view)
            self.unsent_bytes += len(data)
            return
        self.unsent_bytes += len(data)
        at, pieces = 0, list[memoryview | bytes]()
        for position, slices in data.holes:
            if position > at:
                pieces.append(view[at:position])
                at = position
            for piece in cast(Iterable[FileSlice], slices):
                if not piece.size:
                    continue
                content = self._read(piece)
                if content is not None:
                    pieces.append(content)
                else:
                    self._put_joined(pieces)
                    pieces.clear()
                    self._queue.append(_Pending(piece))
        if at < len(data):
            pieces.append(view[at:])
        self._put_joined(pieces)

    def _read(self, piece: FileSlice) -> bytes | None:
        """A small slice's bytes, which wait in memory from here on; None if it shall leave from its file."""
        if piece.size > _READ_BYTES_MAX or self.unsent_bytes > _HELD_BYTES_MAX:
            return None
        try:
            content = os.pread(piece.file.fd, piece.size, piece.position)
        except OSError:
            return None  # it cannot be sent either: that is found out, and told, when its turn comes
        if len(content) != piece.size:
            return None
        self.unsent_bytes += piece.size
        return content

    def _put_joined(self, pieces: list[memoryview | bytes]) -> None:
        if pieces:
            self._queue.append(memoryview(b"".join(pieces) if len(pieces) > 1 else pieces[0]))

    def flush(self) -> bool:
        """Send until the socket is full or the turn is over; True when nothing is left. OSError means a lost peer."""
        queue, turn = self._queue, _TURN_BYTES
        if len(queue) == 1 and type(head := queue[0]) is memoryview:
            # By far the most common case: one answer, and the socket takes it whole.
            try:
                sent = self._sock.send(head)
            except (BlockingIOError, InterruptedError):
                return False
            if sent == len(head):
                queue.clear()
                self.unsent_bytes = 0
                return True
            self._forget(sent)
        while queue and turn > 0:
            head = queue[0]
            try:
                sent = self._send_file(head) if isinstance(head, _Pending) else self._send_bytes(head)
            except (BlockingIOError, InterruptedError):
                return False
            turn -= sent
        return not queue

    def clear(self) -> None:
        self._queue.clear()
        self.unsent_bytes = 0

    def _send_bytes(self, head: memoryview) -> int:
        queue = self._queue
        if len(queue) == 1:
            sent = self._sock.send(head)
        elif isinstance(queue[1], _Pending):
            # The answer's head waits a moment for the file's bytes, so that both share a packet.
            sent = self._sock.send(head, _MSG_MORE)
        else:
            pieces: list[memoryview] = []
            for piece in queue:
                if isinstance(piece, _Pending) or len(pieces) == _GATHERED_MAX:
                    break
                pieces.append(piece)
            sent = self._sock.sendmsg(pieces)
        self._forget(sent)
        return sent

    def _forget(self, sent: int) -> None:
        queue = self._queue
        self.unsent_bytes -= sent
        while sent:
            head = queue[0]
            assert not isinstance(head, _Pending)
            if len(head) > sent:
                queue[0] = head[sent:]
                return
            sent -= len(head)
            queue.popleft()

    def _send_file(self, head: "_Pending") -> int:
        if self._sendfile:
            sent = os.sendfile(self._sock_fd, head.file.fd, head.position, head.size)
        else:
            data = os.pread(head.file.fd, min(head.size, _COPY_BYTES), head.position)
            sent = self._sock.send(data) if data else 0
        if sent == 0:
            # The frame's length is already on the wire; a file that is shorter than its log says cannot be mended here.
            raise BrokenPipeError("a log file is shorter than the slice that was promised")
        head.position += sent
        head.size -= sent
        if head.size == 0:
            self._queue.popleft()
        return sent


class _Pending:
    """A file slice on its way out; a copy, because the same slice may be sent to several readers."""

    __slots__ = ("file", "position", "size")

    def __init__(self, piece: FileSlice) -> None:
        self.file = piece.file
        self.position = piece.position
        self.size = piece.size
