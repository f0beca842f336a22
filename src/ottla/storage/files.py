"""The Files port: everything in storage that can raise OSError goes through here, so that tests can make it fail.

A `Handle` is one open descriptor, closed when the last one who refers to it lets go: a slice on its way to a socket
keeps its segment readable though the log has dropped it long ago. A `LazyFile` opens its handle when it is needed and
gives it up when others need the descriptors more, so that ten thousand idle partitions hold none.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import threading
from collections import deque
from pathlib import Path
from typing import NamedTuple, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""Where it exists (macOS), fsync alone leaves the data in the drive's own memory."""
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_OPEN_FLAGS = os.O_RDWR | _CLOSE_ON_EXEC
_READ_BYTES = 1 << 16
_FDS_FALLBACK = 1024
_FDS_MAX = 16_384
_WRITE_BYTES_MAX = 1 << 30


class SyncFailed(OSError):
    """An fsync failed: what it covered may be lost, and asking again may answer a lie, so it is never retried."""


class Entry(NamedTuple):
    """A file in a directory."""

    name: str
    size: int
    modified_ms: int


class Handle:
    """One open file descriptor."""

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.fd, size, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        if not hasattr(os, "preadv"):
            data = os.pread(self.fd, len(buffer), position)
            buffer[: len(data)] = data
            return len(data)
        return os.preadv(self.fd, [buffer], position)

    def pwrite(self, data: Bytes, position: int) -> int:
        """May write less than all, as the system call may."""
        return os.pwrite(self.fd, data, position)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def fsync(self) -> None:
        try:
            if _FULL_SYNC is None:
                os.fsync(self.fd)
            else:
                fcntl.fcntl(self.fd, _FULL_SYNC)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error


def write_whole(handle: Handle, data: Bytes, position: int) -> None:
    """Write all of `data`; a write that gets nowhere is a full disk."""
    left = memoryview(data)
    while left:
        written = handle.pwrite(left[:_WRITE_BYTES_MAX], position)
        if written <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left = left[written:]
        position += written


class Files:
    """The real file system. Paths are texts: there are very many of them, and few are ever looked at."""

    def __init__(self, open_max: int | None = None) -> None:
        self._open_max = open_max or _descriptors_to_use()
        self._opened: deque[LazyFile] = deque()
        self._lock = threading.Lock()

    def hold_at_most(self, count: int) -> None:
        """Leave the rest of the process's descriptors to others."""
        self._open_max = count

    def open(self, path: str, create: bool = False) -> Handle:
        return self._open(path, _OPEN_FLAGS | (os.O_CREAT if create else 0))

    def _open(self, path: str, flags: int) -> Handle:
        try:
            return Handle(os.open(path, flags, 0o644))
        except OSError as error:
            # Connections may have taken descriptors that were meant for files: then fewer files are held open.
            if error.errno not in _NO_DESCRIPTOR or not self._close_some():
                raise
        return Handle(os.open(path, flags, 0o644))

    def lazy(self, path: str) -> LazyFile:
        return LazyFile(self, path)

    def create(self, path: str) -> None:
        self.open(path, create=True)

    # A node with ten thousand partitions begins with some hundred thousand of these calls, which `Path` would double.

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110

    def read(self, path: str) -> bytes:
        handle = self._open(path, os.O_RDONLY | _CLOSE_ON_EXEC)
        parts, position = [], 0
        while part := handle.pread(_READ_BYTES, position):
            parts.append(part)
            position += len(part)
            if len(part) < _READ_BYTES:
                break
        return b"".join(parts)

    def entries(self, directory: str) -> list[Entry]:
        """The regular files in `directory`, by name."""
        found = []
        with os.scandir(directory) as scan:
            for entry in scan:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append(Entry(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
        found.sort()
        return found

    def directories(self, directory: str) -> list[str]:
        with os.scandir(directory) as scan:
            return sorted(entry.name for entry in scan if entry.is_dir())

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        if not os.path.isdir(path):  # noqa: PTH112
            Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)  # noqa: PTH105

    def unlink(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def remove_tree(self, path: str) -> None:
        if Path(path).exists():
            shutil.rmtree(path)

    def truncate(self, path: str, size: int) -> None:
        os.truncate(path, size)

    def sync(self, path: str) -> None:
        self.open(path).fsync()

    def sync_directory(self, path: str) -> None:
        self._open(path, os.O_RDONLY | _CLOSE_ON_EXEC).fsync()

    def write(self, path: str, data: Bytes) -> None:
        """Make the file hold `data` and nothing else; not atomic."""
        handle = self.open(path, create=True)
        if handle.size():
            handle.truncate(0)
        write_whole(handle, data, 0)

    def write_atomically(self, path: str, data: Bytes, sync: bool = True) -> None:
        """Readers see the old content or the new; with `sync` so does a reader after a power cut."""
        draft = path + ".tmp"
        handle = self.open(draft, create=True)
        if handle.size():
            handle.truncate(0)
        write_whole(handle, data, 0)
        if sync:
            handle.fsync()
        self.rename(draft, path)
        if sync:
            self.sync_directory(str(Path(path).parent))

    def _close_some(self) -> bool:
        """Close the half of the lazy files that was opened first; False if there is none."""
        with self._lock:
            count = (len(self._opened) + 1) // 2
            for _ in range(count):
                self._opened.popleft().close()
        return count > 0

    def note_opened(self, file: LazyFile) -> None:
        """Keep the number of open lazy files bounded: the ones not used since the last look are closed first."""
        with self._lock:
            opened = self._opened
            opened.append(file)
            for _ in range(len(opened)):
                if len(opened) <= self._open_max:
                    return
                oldest = opened.popleft()
                if oldest.touched:
                    oldest.touched = False
                    opened.append(oldest)
                else:
                    oldest.close()
            while len(opened) > self._open_max:
                opened.popleft().close()


class LazyFile:
    """A file that is opened when it is needed, and that may be closed behind its owner's back when it is not."""

    __slots__ = ("_files", "_handle", "path", "touched")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._handle: Handle | None = None
        self.touched = False

    def handle(self) -> Handle:
        """The open file. Hold on to what you get only as long as you use it."""
        handle = self._handle
        if handle is None:
            handle = self._handle = self._files.open(self.path)
            self._files.note_opened(self)
        self.touched = True
        return handle

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def close(self) -> None:
        self._handle = None
        self.touched = False


def _descriptors_to_use() -> int:
    """Half of what the process may open; sockets get the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    usable = soft if soft != resource.RLIM_INFINITY else 2 * _FDS_MAX
    return max(_FDS_FALLBACK // 8, min(usable // 2, _FDS_MAX))
