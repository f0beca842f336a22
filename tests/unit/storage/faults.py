"""A file system that fails on demand, and one that forgets like a disk does when the power is cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

from ottla.storage.files import Bytes, Entry, Files, Handle, SyncFailed


class Faults:
    """Which operation fails, counted from 1, and what has been done so far."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail_at = 0
        self.is_lasting = False
        self.is_short = False
        self.number = errno.ENOSPC

    def arm(self, fail_at: int, number: int, *, is_lasting: bool = False, is_short: bool = False) -> None:
        """The `fail_at`-th operation from now on fails; `is_short` lets half of a write through."""
        self.done.clear()
        self.fail_at, self.number, self.is_lasting, self.is_short = fail_at, number, is_lasting, is_short

    def disarm(self) -> None:
        self.fail_at = 0

    def step(self, what: str) -> None:
        if self.is_due(what):
            raise OSError(self.number, os.strerror(self.number), what)

    def is_due(self, what: str) -> bool:
        self.done.append(what)
        count = len(self.done)
        return bool(self.fail_at) and (count == self.fail_at or (self.is_lasting and count > self.fail_at))


class FaultyHandle(Handle):
    __slots__ = ("disk", "faults")

    def __init__(self, fd: int, faults: Faults, disk: SyncedSizes) -> None:
        super().__init__(fd)
        self.faults = faults
        self.disk = disk

    def pread(self, size: int, position: int) -> bytes:
        self.faults.step("pread")
        return super().pread(size, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        self.faults.step("pread")
        return super().pread_into(buffer, position)

    def pwrite(self, data: Bytes, position: int) -> int:
        if not self.faults.is_due("pwrite"):
            return super().pwrite(data, position)
        if self.faults.is_short and len(data) > 1:
            self.faults.fail_at = len(self.faults.done) + 1  # the rest does not fit either
            return super().pwrite(memoryview(data)[: len(data) // 2], position)
        raise OSError(self.faults.number, os.strerror(self.faults.number))

    def truncate(self, size: int) -> None:
        self.faults.step("truncate")
        super().truncate(size)

    def fsync(self) -> None:
        try:
            self.faults.step("fsync")
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error
        self.disk.note(self.fd)


class SyncedSizes:
    """How much of each file is known to be on the disk, by inode."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def note(self, fd: int) -> None:
        status = os.fstat(fd)
        self.sizes[status.st_ino] = status.st_size


class FaultyFiles(Files):
    """The real file system, with `faults` in it; an fsync only remembers what would have been forced to the disk."""

    def __init__(self, open_max: int = 4) -> None:
        super().__init__(open_max)
        self.faults = Faults()
        self.disk = SyncedSizes()

    def open(self, path: str, create: bool = False) -> Handle:
        self.faults.step(f"open {Path(path).suffix}")
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return FaultyHandle(os.open(path, flags, 0o644), self.faults, self.disk)

    def read(self, path: str) -> bytes:
        self.faults.step("read")
        return super().read(path)

    def entries(self, directory: str) -> list[Entry]:
        self.faults.step("entries")
        return super().entries(directory)

    def rename(self, old: str, new: str) -> None:
        self.faults.step("rename")
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self.faults.step("unlink")
        super().unlink(path)

    def make_directory(self, path: str) -> None:
        self.faults.step("mkdir")
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        self.faults.step("sync directory")

    def cut_power(self, directory: Path, random: Random) -> None:
        """Of what was not forced to the disk, any part may be missing or read as zeros."""
        for path in sorted(directory.rglob("*")):
            if not path.is_file():
                continue
            status = path.stat()
            kept = min(self.disk.sizes.get(status.st_ino, 0), status.st_size)
            size = random.choice([kept, status.st_size, random.randint(kept, status.st_size)])
            content = path.read_bytes()[:size]
            if random.random() < 0.3:
                zeros_from = random.randint(kept, max(size, kept))
                content = content[:zeros_from] + bytes(len(content) - zeros_from)
            path.write_bytes(content)
