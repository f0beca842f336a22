"""The offset index and the time index of a segment: sparse, fixed-size, rising entries.

The newest entries wait in memory and are written before an append when there are enough of them, when the segment is
rolled and when it is closed. Whatever a crash leaves is rebuilt from the log, so the files of an active segment may
lag.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct

from ottla.storage.files import LazyFile, write_whole

OFFSET_ENTRY = Struct(">ii")
"""Last offset of a batch, relative to the segment's base; position of that batch."""
TIME_ENTRY = Struct(">qi")
"""Largest timestamp so far; relative last offset of the batch that reached it."""

PENDING_BYTES_MAX = 1024
_BLOCK_BYTES = 4096

Pair = tuple[int, int]


class EntryFile:
    """Entries of two numbers, both of which rise from entry to entry."""

    __slots__ = ("_block", "_last", "_layout", "file", "pending", "stored")

    def __init__(self, file: LazyFile, layout: Struct, stored: int) -> None:
        self.file = file
        self.stored = stored
        """Entries in the file."""
        self.pending = bytearray()
        self._layout = layout
        self._last: Pair | None = None
        self._block = (-1, b"")
        """Number and content of the block last read. Replaced as one: compaction reads in a thread of its own."""

    @property
    def count(self) -> int:
        return self.stored + len(self.pending) // self._layout.size

    @property
    def last(self) -> Pair | None:
        if self._last is None and (count := self.count):
            self._last = self[count - 1]
        return self._last

    def __getitem__(self, number: int) -> Pair:
        size = self._layout.size
        if number >= self.stored:
            raw, at = bytes(self.pending), (number - self.stored) * size
        else:
            raw, at = self.file.handle().pread(size, number * size), 0
        if number < 0 or len(raw) < at + size:
            raise IndexError(number)
        first, second = self._layout.unpack_from(raw, at)
        return first, second

    def __iter__(self) -> Iterator[Pair]:
        size = self._layout.size
        stored = self.file.handle().pread(self.stored * size, 0) if self.stored else b""
        yield from self._layout.iter_unpack(stored + self.pending)

    def append(self, first: int, second: int) -> None:
        self.pending += self._layout.pack(first, second)
        self._last = (first, second)

    def floor(self, column: int, bound: int) -> Pair | None:
        """The last entry whose number in `column` is `bound` or less."""
        pending, layout = self.pending, self._layout
        if pending and layout.unpack_from(pending)[column] <= bound:
            return self._floor_in(pending, column, bound)
        if not self.stored:
            return None
        block = self._block_for(column, bound)
        return self._floor_in(block, column, bound) if block else None

    def _floor_in(self, block: bytes | bytearray, column: int, bound: int) -> Pair | None:
        unpack, size = self._layout.unpack_from, self._layout.size
        above = bisect_right(range(len(block) // size), bound, key=lambda i: unpack(block, i * size)[column])
        if not above:
            return None
        first, second = unpack(block, (above - 1) * size)
        return first, second

    def _block_for(self, column: int, bound: int) -> bytes:
        """The block of the file in which the floor of `bound` lies; nothing if it lies in front of all."""
        unpack, size = self._layout.unpack_from, self._layout.size
        per_block = _BLOCK_BYTES // size
        number, block = self._block
        if block and unpack(block)[column] <= bound <= unpack(block, len(block) - size)[column]:
            return block
        blocks = -(-self.stored // per_block)
        above = bisect_right(range(blocks), bound, key=lambda b: self[b * per_block][column])
        if not above:
            return b""
        if above - 1 != number or len(block) < per_block * size:
            start = (above - 1) * per_block
            block = self.file.handle().pread(min(per_block, self.stored - start) * size, start * size)
            self._block = (above - 1, block)
        return block

    def write_out(self) -> None:
        """Move what waits in memory into the file. If that fails, it goes on waiting."""
        if self.pending:
            write_whole(self.file.handle(), self.pending, self.stored * self._layout.size)
            self.stored = self.count
            self.pending = bytearray()

    def seal(self) -> None:
        """Write all, and leave nothing behind the last entry."""
        self.write_out()
        handle = self.file.handle()
        if handle.size() != self.stored * self._layout.size:
            handle.truncate(self.stored * self._layout.size)

    def keep_below(self, column: int, bound: int) -> None:
        """Drop the entries whose number in `column` is `bound` or more."""
        kept = bisect_left(range(self.count), bound, key=lambda i: self[i][column])
        self.keep_first(kept)

    def keep_first(self, count: int) -> None:
        if count >= self.stored:
            del self.pending[(count - self.stored) * self._layout.size :]
        else:
            self.pending.clear()
            self.file.handle().truncate(count * self._layout.size)
            self.stored = count
        self._last = None
        self.forget()

    def forget(self) -> None:
        """Give back what is held for speed alone."""
        self._block = (-1, b"")

    def close(self) -> None:
        self.forget()
        self.file.close()
