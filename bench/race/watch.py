"""A process and its children, watched from outside through /proc: processor time, memory, reads from the disk."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"
"""Written to clear_refs: the peak starts again at what is resident now (proc(5))."""


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents.setdefault(int(_fields_of_stat(int(entry.name))[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(one := waiting.pop())
        waiting += parents.get(one, ())
    return found


def _fields_of_stat(pid: int) -> list[str]:
    # The command's name stands in parentheses and may contain anything, spaces and parentheses too.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, children that have ended and were waited for included."""
    ticks = 0
    for one in tree(pid):
        with suppress(OSError):
            ticks += sum(int(field) for field in _fields_of_stat(one)[11:15])
    return ticks / _TICKS


def _status_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _sum_mb(pid: int, field: str) -> float:
    total = 0.0
    for one in tree(pid):
        with suppress(OSError):
            total += _status_mb(one, field)
    return total


def memory_mb(pid: int) -> float:
    return _sum_mb(pid, "VmRSS")


def peak_memory_mb(pid: int) -> float:
    """The sum of the peaks: of a tree of several, an upper bound."""
    return _sum_mb(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    for one in tree(pid):
        with suppress(OSError):
            Path(f"/proc/{one}/clear_refs").write_text(_RESET_PEAK)


def disk_read_mb(pid: int) -> float:
    """What had to be fetched from storage for this tree, because the page cache did not have it."""
    total = 0
    for one in tree(pid):
        with suppress(OSError):
            for line in Path(f"/proc/{one}/io").read_text().splitlines():
                if line.startswith("read_bytes:"):
                    total += int(line.split()[1])
    return total / 1e6


def drop_from_cache(directory: Path) -> None:
    """Let the page cache forget all files below; what is not on the disk yet is forced there."""
    for path in _files_below(directory):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _files_below(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


@dataclass
class Meter:
    """`with Meter(pid) as meter:` what the tree used meanwhile."""

    pid: int
    seconds: float = 0.0
    cpu: float = 0.0
    peak_mb: float = 0.0
    disk_mb: float = 0.0

    def __enter__(self) -> "Meter":
        forget_peak(self.pid)
        self._disk, self._cpu, self._begun = disk_read_mb(self.pid), cpu_seconds(self.pid), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._begun
        self.cpu = cpu_seconds(self.pid) - self._cpu
        self.peak_mb = peak_memory_mb(self.pid)
        self.disk_mb = disk_read_mb(self.pid) - self._disk
