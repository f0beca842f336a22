"""Files that die at a chosen operation, as a node does that is killed, or a machine whose power goes."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ottla.storage.files import Bytes, Files, Handle


@dataclass
class Fate:
    """After `operations_left` changing operations nothing more reaches the disk; a write under way is torn."""

    operations_left: int = 1_000_000
    seed: int = 0
    synced: dict[str, int] = field(default_factory=dict)
    """How much of each file an fsync has covered."""
    syncs: int = 0
    is_over: bool = False

    def strike(self) -> bool:
        """Whether this is the operation that is cut in the middle; raises once all is over."""
        if self.is_over:
            raise OSError(errno.EIO, "the disk is gone")
        self.operations_left -= 1
        self.is_over = self.operations_left < 0
        return self.is_over

    def lose_unsynced(self) -> None:
        """What a power cut does to appended files: some of what no fsync has covered is gone."""
        chance = Random(self.seed)
        for path, synced in self.synced.items():
            file = Path(path)
            if file.exists() and path.endswith(".log"):
                size = file.stat().st_size
                with file.open("r+b") as opened:
                    opened.truncate(chance.randint(min(synced, size), size))


class FaultyHandle(Handle):
    __slots__ = ("fate", "path")

    def __init__(self, handle: Handle, path: str, fate: Fate) -> None:
        super().__init__(os.dup(handle.fd))
        self.path = path
        self.fate = fate

    def pwrite(self, data: Bytes, position: int) -> int:
        if self.fate.strike():
            torn = len(data) // 2
            if torn:
                super().pwrite(memoryview(data)[:torn], position)
            raise OSError(errno.EIO, "cut off while writing")
        return super().pwrite(data, position)

    def fsync(self) -> None:
        size = os.fstat(self.fd).st_size
        if self.fate.strike():
            raise OSError(errno.EIO, "cut off before the fsync ended")
        super().fsync()
        self.fate.syncs += 1
        self.fate.synced[self.path] = max(size, self.fate.synced.get(self.path, 0))


class FaultyFiles(Files):
    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self.fate = fate

    def open(self, path: str, create: bool = False) -> Handle:
        self.fate.synced.setdefault(path, 0)
        return FaultyHandle(super().open(path, create), path, self.fate)

    def rename(self, old: str, new: str) -> None:
        if self.fate.strike():
            raise OSError(errno.EIO, "cut off before the rename")
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if self.fate.strike():
            raise OSError(errno.EIO, "cut off before the removal")
        super().unlink(path)
