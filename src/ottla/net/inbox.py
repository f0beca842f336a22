"""Cuts the bytes of a connection into frames (size i32, then that many bytes) without trusting the size.

Small frames are parsed in one buffer that all connections of the loop share, so that an idle connection owns no
memory. A frame that is larger than what has arrived moves to a private buffer, which grows with what really
arrives: a peer that claims 100 MB and sends 10 bytes has cost 10 bytes.
"""

import socket
from struct import Struct

from ottla.base.limits import FRAME_HEADER_BYTES, RECEIVE_BUFFER_BYTES, RETAINED_FRAME_BUFFER_BYTES

_unpack_size = Struct(">i").unpack_from
_FIRST_BYTES = 64 * 1024


class BadFrame(Exception):
    """The peer does not speak the protocol; the connection is closed with this text in the log."""


class SharedBuffer:
    """The receive buffer of one event loop. What lies in it is gone at the next read of any connection."""

    __slots__ = ("view",)

    def __init__(self, size: int = RECEIVE_BUFFER_BYTES) -> None:
        self.view = memoryview(bytearray(size))


class Inbox:
    """`receive()`, then `next_frame()` until it says None; or `keep_rest()` to go on with the rest later."""

    __slots__ = ("_begin", "_end", "_shared", "_size_max", "_sock", "_view")

    def __init__(self, sock: socket.socket, shared: SharedBuffer, frame_bytes_max: int) -> None:
        self._sock = sock
        self._shared = shared.view
        self._size_max = frame_bytes_max
        self._view = shared.view
        self._begin = 0
        self._end = 0

    def receive(self) -> bool:
        """Read once from the socket; False at the end of the stream."""
        if self._view is self._shared:
            self._begin = 0
            self._end = count = self._sock.recv_into(self._shared)
        else:
            self._make_room()
            count = self._sock.recv_into(self._view[self._end :])
            self._end += count
        return count > 0

    def next_frame(self) -> memoryview | None:
        """The next whole frame, or None when its rest has not arrived yet.

        Its memory is the caller's until it asks for another one or suspends.
        """
        body = self._begin + FRAME_HEADER_BYTES
        end = self._end
        if body <= end:
            (size,) = _unpack_size(self._view, self._begin)
            if not 0 < size <= self._size_max:
                raise self._bad(size)
            following = body + size
            if following <= end:
                self._begin = following
                return self._view[body:following]
        if self._begin != end or self._view is not self._shared:
            self.keep_rest()
        return None

    def keep_rest(self) -> None:
        """Take what is left out of the shared buffer; forget a private one that has served its purpose."""
        held = self._end - self._begin
        if self._view is self._shared:
            if held:
                self._move_to(memoryview(bytearray(max(_FIRST_BYTES, 2 * held))), held)
        elif not held:
            self._begin = self._end = 0
            if not _FIRST_BYTES < len(self._view) <= RETAINED_FRAME_BUFFER_BYTES:
                self._view = self._shared

    def release_idle_memory(self) -> None:
        if self._begin == self._end:
            self._view = self._shared

    def _bad(self, size: int) -> BadFrame:
        return BadFrame(f"a frame of {size} bytes; between 1 and {self._size_max} are taken")

    def _make_room(self) -> None:
        """Let the frame that is under way fit, as far as it has a right to: twice what has arrived."""
        held = self._end - self._begin
        wanted = FRAME_HEADER_BYTES
        if held >= FRAME_HEADER_BYTES:
            # `next_frame` has looked at this size already and found it good.
            wanted += _unpack_size(self._view, self._begin)[0]
        capacity = len(self._view)
        if self._end < capacity and (self._begin == 0 or self._begin + wanted <= capacity):
            return
        needed = min(wanted, max(2 * held, _FIRST_BYTES))
        # memoryview assignment copies overlapping ranges correctly, like memmove.
        self._move_to(self._view if needed <= capacity else memoryview(bytearray(needed)), held)

    def _move_to(self, target: memoryview, held: int) -> None:
        target[:held] = self._view[self._begin : self._end]
        self._view = target
        self._begin, self._end = 0, held
