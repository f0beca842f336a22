"""What a read of a log yields: parts of files that the kernel can send by itself."""

from __future__ import annotations

from typing import NamedTuple

from ottla.storage.files import Handle


class FileSlice(NamedTuple):
    """`size` bytes of an open file; the file stays open as long as the slice is referred to."""

    file: Handle
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)


class Slices(tuple[FileSlice, ...]):
    """File slices in order; `size` is the sum of theirs."""

    __slots__ = ()

    @property
    def size(self) -> int:
        # Nearly always there is one; this is asked several times for each answer.
        return self[0].size if len(self) == 1 else sum([part.size for part in self])

    def read(self) -> bytes:
        """The bytes themselves, for what cannot be sent by file."""
        return b"".join(part.read() for part in self)


EMPTY = Slices()
