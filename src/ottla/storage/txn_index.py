"""The index of a segment's aborted transactions, ordered by the offset of the marker that ended each.

Most segments have none and then no file either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ottla.storage.files import Files, write_whole

_ENTRY = Struct(">hqqqq")
_VERSION = 0
_BLOCK_BYTES = 128 * _ENTRY.size


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    last_stable_offset: int
    """What was the last stable offset when the marker was written; from there on later segments must be asked."""


class TxnIndex:
    """Entries wait in memory like those of the other indexes, so that an append cannot fail half-way for their sake."""

    __slots__ = ("_files", "_pending", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._pending: list[AbortedTransaction] = []
        self.path = path

    def append(self, aborted: AbortedTransaction) -> None:
        self._pending.append(aborted)

    def write_out(self) -> None:
        if self._pending:
            handle = self._files.open(self.path, create=True)
            write_whole(handle, _packed(self._pending), handle.size() // _ENTRY.size * _ENTRY.size)
            self._pending = []

    def __iter__(self) -> Iterator[AbortedTransaction]:
        data = self._files.read(self.path) if self._files.exists(self.path) else b""
        for _, *fields in _ENTRY.iter_unpack(memoryview(data)[: len(data) // _ENTRY.size * _ENTRY.size]):
            yield AbortedTransaction(*fields)
        yield from self._pending

    def since(self, offset: int) -> Iterator[AbortedTransaction]:
        """Those whose marker lies at `offset` or behind it, read as far as they are wanted."""
        if self._files.exists(self.path):
            handle, size = self._files.open(self.path), _ENTRY.size
            first = bisect_left(
                range(handle.size() // size), offset, key=lambda number: self._marker(handle.pread(size, number * size))
            )
            position = first * size
            while block := handle.pread(_BLOCK_BYTES, position):
                whole = memoryview(block)[: len(block) // size * size]
                for _, *fields in _ENTRY.iter_unpack(whole):
                    yield AbortedTransaction(*fields)
                if not whole:
                    break
                position += len(whole)
        yield from (entry for entry in self._pending if entry.last_offset >= offset)

    @staticmethod
    def _marker(entry: bytes) -> int:
        return AbortedTransaction(*_ENTRY.unpack(entry)[1:]).last_offset

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Hold these entries; no file where there are none."""
        data = _packed(entries)
        self._pending = []
        if data:
            self._files.write(self.path, data)
        else:
            self._files.unlink(self.path)

    def is_sound(self, base_offset: int) -> bool:
        """Whole entries that lie in the segment and rise."""
        data = self._files.read(self.path) if self._files.exists(self.path) else b""
        if len(data) % _ENTRY.size:
            return False
        lasts = [entry.last_offset for entry in self]
        return all(last >= base_offset for last in lasts) and lasts == sorted(lasts)


def _packed(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)
