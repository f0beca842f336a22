"""Where the newest batches of a log lie: who reads what was just written needs neither index nor system call."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

BATCHES_MAX = 128


class Tail:
    """Last offsets and positions of the newest batches in the active segment.

    The first last-offset is that of the batch in front of the known ones: everything behind it is known.
    """

    __slots__ = ("lasts", "positions", "size")

    def __init__(self, end_offset: int, size: int) -> None:
        self.lasts = array("q", [end_offset - 1])
        self.positions = array("q", [size])
        self.size = size
        """Bytes of the segment."""

    def append(self, last_offset: int, position: int, size: int) -> None:
        lasts = self.lasts
        lasts.append(last_offset)
        self.positions.append(position)
        self.size = position + size
        if len(lasts) > BATCHES_MAX:
            del lasts[: BATCHES_MAX // 2]
            del self.positions[: BATCHES_MAX // 2]

    def knows(self, offset: int) -> bool:
        return offset > self.lasts[0]

    def position(self, offset: int) -> int:
        """Where the first batch begins whose last offset is `offset` or more; the end if there is none."""
        number = bisect_left(self.lasts, offset)
        return self.positions[number] if number < len(self.lasts) else self.size

    def boundary(self, start: int, bound: int) -> int:
        """The last position in [start, bound] at which a known batch ends; `start` is where one begins."""
        return max(start, self.positions[bisect_right(self.positions, bound) - 1])

    def end_of(self, start: int) -> int:
        """Where the batch ends that begins at `start`."""
        number = bisect_right(self.positions, start)
        return self.positions[number] if number < len(self.positions) else self.size
