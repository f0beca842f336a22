"""Producer snapshots: the table of a partition's producers at one offset, so that a restart need not read the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from crc32c import crc32c

from ottla.core.producers import ProducerSnapshot
from ottla.storage.files import Files

SUFFIX = ".snapshot"
_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = _HEAD.size


class BadSnapshot(ValueError):
    """A snapshot that is cut off or damaged; an older one, or the log itself, says the same."""


def encode_snapshot(entries: Sequence[ProducerSnapshot]) -> bytes:
    body = _COUNT.pack(len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerSnapshot]:
    entries_at = _CRC_FROM + _COUNT.size
    if len(data) < entries_at:
        raise BadSnapshot(f"{len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise BadSnapshot(f"version {version}")
    if crc != crc32c(data[_CRC_FROM:]):
        raise BadSnapshot("its checksum does not fit")
    (count,) = _COUNT.unpack_from(data, _CRC_FROM)
    if count * _ENTRY.size != len(data) - entries_at:
        raise BadSnapshot(f"{count} entries in {len(data)} bytes")
    return [ProducerSnapshot(*fields) for fields in _ENTRY.iter_unpack(data[entries_at:])]


class SnapshotFiles:
    """The snapshots of one partition; each is named after the first offset it does not cover."""

    __slots__ = ("_directory", "_files", "offsets")

    def __init__(self, files: Files, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self._directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"

    def take(self, offset: int, entries: Sequence[ProducerSnapshot], sync: bool) -> None:
        """Write the snapshot at `offset`. A torn one is recognised by its checksum, so it need not be atomic."""
        path = self.path(offset)
        self._files.write(path, encode_snapshot(entries))
        if sync:
            self._files.sync(path)
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])

    def load_latest(self, above: int, up_to: int) -> tuple[int, list[ProducerSnapshot]] | None:
        """The newest sound snapshot in (above, up_to] and its offset; damaged ones are deleted."""
        for offset in reversed(self.offsets):
            if above < offset <= up_to:
                try:
                    return offset, decode_snapshot(self._files.read(self.path(offset)))
                except BadSnapshot:
                    self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        self._files.unlink(self.path(offset))
        self.offsets = [other for other in self.offsets if other != offset]

    def remove_above(self, offset: int) -> None:
        for other in self.offsets:
            if other > offset:
                self.remove(other)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Keep those at the beginning of a segment, and the newest if it lies above all of them."""
        bases = set(base_offsets)
        newest = max(self.offsets, default=-1)
        for offset in self.offsets:
            if offset not in bases and not (offset == newest and offset > max(bases, default=-1)):
                self.remove(offset)

    def sync(self, offset: int) -> None:
        if offset in self.offsets:
            self._files.sync(self.path(offset))
