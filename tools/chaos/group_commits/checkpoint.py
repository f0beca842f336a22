"""What a driver remembers on disk, as Spark does: `offsets/N` before a batch is worked on, `commits/N` after."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TypeAlias

Ranges: TypeAlias = dict[int, tuple[int, int]]
"""By partition of the source: from this offset up to that."""


class Checkpoint:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("offsets", "commits"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    @property
    def last_planned(self) -> int:
        return self._last("offsets")

    @property
    def last_committed(self) -> int:
        return self._last("commits")

    def ranges(self, batch: int) -> Ranges:
        rows = json.loads((self.directory / "offsets" / str(batch)).read_text())
        return {int(partition): (start, end) for partition, (start, end) in rows.items()}

    def plan(self, batch: int, ranges: Ranges) -> Ranges:
        """Whoever plans a batch first decides what is in it, also for another driver on the same checkpoint."""
        self._write("offsets", batch, json.dumps(ranges, sort_keys=True))
        return self.ranges(batch)

    def mark_committed(self, batch: int) -> None:
        self._write("commits", batch, "{}")

    def copy_to(self, directory: Path) -> Checkpoint:
        """As it is at some moment: a batch that is marked has been planned."""
        for name in ("commits", "offsets"):
            shutil.copytree(self.directory / name, directory / name, ignore=shutil.ignore_patterns("*.tmp"))
        return Checkpoint(directory)

    def become(self, other: Checkpoint) -> None:
        """Somebody restores a backup."""
        shutil.rmtree(self.directory)
        other.copy_to(self.directory)

    def begin_after(self, batch: int, offsets: dict[int, int]) -> None:
        """What an operator does when the checkpoint is worth nothing any more, but the log knows how far it is."""
        shutil.rmtree(self.directory)
        self.__init__(self.directory)  # type: ignore[misc]
        if batch >= 0:
            self.plan(batch, {partition: (offset, offset) for partition, offset in offsets.items()})
            self.mark_committed(batch)

    def _last(self, name: str) -> int:
        return max((int(path.name) for path in (self.directory / name).iterdir() if path.name.isdecimal()), default=-1)

    def _write(self, name: str, batch: int, text: str) -> None:
        temporary = self.directory / name / f"{batch}.{os.getpid()}.tmp"
        temporary.write_text(text)
        try:
            os.link(temporary, self.directory / name / str(batch))
        except FileExistsError:
            pass
        finally:
            temporary.unlink()


def digest_of(ranges: Ranges) -> bytes:
    return hashlib.sha256(json.dumps(ranges, sort_keys=True).encode()).digest()
