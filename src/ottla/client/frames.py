"""Frames out of a stream of bytes: where the next bytes go, and which frames they completed. Knows no socket.

Small frames are cut out of one buffer; a large one gets its own, which grows with what has arrived, never with what
is claimed. So a frame is copied once at most by the time it is complete, bar the growing.
"""

from __future__ import annotations

from ottla.wire.malformed import Malformed

SIZE_BYTES = 4
SCRATCH_BYTES = 256 * 1024
_FIRST_BYTES = 1024 * 1024


class FrameReader:
    def __init__(self, frame_bytes_max: int, scratch_bytes: int = SCRATCH_BYTES) -> None:
        self._max = frame_bytes_max
        self._scratch = memoryview(bytearray(scratch_bytes))
        self._held = 0
        """Bytes at the start of the scratch buffer: less than a size."""
        self._frame: memoryview | None = None
        self._size = 0
        self._filled = 0

    @property
    def is_within_frame(self) -> bool:
        return self._frame is not None or self._held > 0

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._frame is None:
            return self._scratch[self._held :]
        if self._filled == len(self._frame):
            self._grow()
        return self._frame[self._filled :]

    def advance(self, count: int) -> list[memoryview]:
        """`count` bytes have been put there; the frames that are complete now, without their sizes."""
        if self._frame is None:
            return self._cut(self._held + count)
        self._filled += count
        if self._filled < self._size:
            return []
        frame, self._frame = self._frame, None
        return [frame.toreadonly()]

    def _cut(self, end: int) -> list[memoryview]:
        scratch, at = self._scratch, 0
        frames: list[memoryview] = []
        self._held = 0
        while end - at >= SIZE_BYTES:
            size = int.from_bytes(scratch[at : at + SIZE_BYTES], "big", signed=True)
            if not SIZE_BYTES <= size <= self._max:
                raise Malformed(f"an answer of {size} bytes")
            at += SIZE_BYTES
            if end - at < size:
                self._begin(size, scratch[at:end])
                return frames
            frames.append(memoryview(bytes(scratch[at : at + size])))
            at += size
        self._held = end - at
        scratch[: self._held] = bytes(scratch[at:end])
        return frames

    def _begin(self, size: int, start: memoryview) -> None:
        self._size, self._filled = size, len(start)
        self._frame = memoryview(bytearray(min(size, max(_FIRST_BYTES, 2 * len(start)))))
        self._frame[: len(start)] = start

    def _grow(self) -> None:
        assert self._frame is not None
        larger = memoryview(bytearray(min(self._size, 2 * len(self._frame))))
        larger[: self._filled] = self._frame
        self._frame = larger
