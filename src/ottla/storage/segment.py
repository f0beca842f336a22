"""One segment: a file of record batches and its two sparse indexes.

The offset index gets an entry for the first batch after each `index.interval.bytes`: the batch's last offset and
where the batch begins. With it goes an entry of the time index: the largest timestamp so far and the last offset of
its batch.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.storage.files import Bytes, Files, Handle, write_whole
from ottla.storage.index import OFFSET_ENTRY, PENDING_BYTES_MAX, TIME_ENTRY, EntryFile
from ottla.storage.txn_index import AbortedTransaction, TxnIndex
from ottla.wire.batch_header import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, read_header
from ottla.wire.malformed import Malformed

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
RELATIVE_OFFSET_MAX = 2**31 - 1

_PEEK = Struct(">qi11xi")
"""Base offset, length, last offset delta: all that a search by offset needs of a batch."""
_PEEK_BYTES = _PEEK.size
_WINDOW_BYTES = 8192


class CorruptLog(OSError):
    """The log says something impossible where it had been found sound; its disk is not to be trusted."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(errno.EIO, f"no record batch at position {position}", path)


class Place(NamedTuple):
    """Where a batch lies in its segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class Segment:
    __slots__ = (
        "_max",
        "_txn_index",
        "base_offset",
        "created_ms",
        "directory",
        "file",
        "files",
        "first_timestamp",
        "has_aborted",
        "is_suspect",
        "is_synced",
        "offsets",
        "size",
        "times",
        "unindexed_bytes",
    )

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.size = 0
        """Bytes of the log. What may lie behind them in the file is of no account."""
        self.file = files.lazy(self.path(LOG))
        self.offsets = EntryFile(files.lazy(self.path(INDEX)), OFFSET_ENTRY, 0)
        self.times = EntryFile(files.lazy(self.path(TIME_INDEX)), TIME_ENTRY, 0)
        self.has_aborted = False
        self.is_synced = False
        """Whether all four files are known to be on disk as they are."""
        self.is_suspect = False
        """Whether an index of it is missing or cut off."""
        self.unindexed_bytes = 0
        self.first_timestamp: int | None = None
        """The largest timestamp of the first batch; None until someone asks for it."""
        self.created_ms = 0
        self._max: tuple[int, int] | None = (-1, base_offset)
        self._txn_index: TxnIndex | None = None

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, now_ms: int) -> Segment:
        """A new, empty segment on disk; on failure nothing of it is left there."""
        segment = cls(files, directory, base_offset)
        segment.created_ms = now_ms
        try:
            for suffix in (LOG, INDEX, TIME_INDEX):
                files.write(segment.path(suffix), b"")
        except OSError:
            for suffix in (LOG, INDEX, TIME_INDEX):
                _unlink_if_possible(files, segment.path(suffix))
            raise
        return segment

    @classmethod
    def existing(cls, files: Files, directory: str, base_offset: int, sizes: dict[str, int]) -> Segment:
        """A segment whose files have these sizes by suffix; nothing is read."""
        segment = cls(files, directory, base_offset)
        segment.size = sizes[LOG]
        segment.offsets.stored = sizes.get(INDEX, 0) // OFFSET_ENTRY.size
        segment.times.stored = sizes.get(TIME_INDEX, 0) // TIME_ENTRY.size
        segment.has_aborted = sizes.get(TXN_INDEX, 0) > 0
        segment._max = None
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def txn_index(self) -> TxnIndex:
        """Ask `has_aborted` first: most segments need none."""
        if self._txn_index is None:
            self._txn_index = TxnIndex(self.files, self.path(TXN_INDEX))
        return self._txn_index

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        self.txn_index.append(aborted)
        self.has_aborted = True

    # --- append

    def append(self, data: Bytes, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        """Add one batch. On OSError the segment is what it was before."""
        self.make_room_in_indexes()
        position = self.size
        size = len(data)
        handle = self.file.handle()
        written = handle.pwrite(data, position)
        if written != size:
            self._write_rest(handle, data, written)
        self.size = position + size
        self.note_batch(position, size, last_offset, max_timestamp, index_interval_bytes)

    def make_room_in_indexes(self) -> None:
        """Before an append, since after it a failure would come too late."""
        if len(self.offsets.pending) >= PENDING_BYTES_MAX:
            self.offsets.write_out()
            self.times.write_out()
            if self.has_aborted:
                self.txn_index.write_out()

    def write(self, data: Bytes) -> int:
        """Add bytes whose batches are noted one by one afterwards; returns where they begin."""
        position = self.size
        handle = self.file.handle()
        written = handle.pwrite(data, position)
        if written != len(data):
            self._write_rest(handle, data, written)
        self.size = position + len(data)
        return position

    def _write_rest(self, handle: Handle, data: Bytes, written: int) -> None:
        try:
            write_whole(handle, memoryview(data)[written:], self.size + written)
        except OSError:
            _truncate_if_possible(handle, self.size)
            raise

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int, interval_bytes: int) -> None:
        """Let the indexes know of a batch that has been written."""
        largest = self._max or self._load_max()
        if max_timestamp > largest[0]:
            largest = self._max = (max_timestamp, last_offset)
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.unindexed_bytes > interval_bytes:
            self.offsets.append(last_offset - self.base_offset, position)
            self._note_time(largest)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size

    def _note_time(self, largest: tuple[int, int]) -> None:
        last = self.times.last
        if largest[0] > (last[0] if last else -1):
            self.times.append(largest[0], largest[1] - self.base_offset)

    # --- timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, or -1."""
        return (self._max or self._load_max())[0]

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the batch that has it."""
        return (self._max or self._load_max())[1]

    def _load_max(self) -> tuple[int, int]:
        last = self.times.last
        self._max = (last[0], last[1] + self.base_offset) if last else (-1, self.base_offset)
        return self._max

    def rolling_timestamp(self) -> int:
        """The timestamp that the segment's age counts from, or -1."""
        if self.first_timestamp is None:
            self.first_timestamp = next((header.max_timestamp for _, header in self.batches()), -1)
        return self.first_timestamp

    def largest_timestamp(self) -> int:
        """For retention: the file's own time stands in where no record has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.files.modified_ms(self.path(LOG))

    # --- search

    def find(self, offset: int) -> Place | None:
        """The first batch whose last offset is `offset` or more."""
        if offset <= self.base_offset:
            return self.scan(0, offset)
        entry = self.offsets.floor(0, offset - self.base_offset)
        return self.scan(entry[1] if entry else 0, offset)

    def scan(self, position: int, offset: int) -> Place | None:
        """The same, looking at every batch from `position` on."""
        handle, end = self.file.handle(), self.size
        while position < end:
            window = handle.pread(min(_WINDOW_BYTES, end - position), position)
            at, last_at = 0, len(window) - _PEEK_BYTES
            while at <= last_at:
                base, length, delta = _PEEK.unpack_from(window, at)
                size = length + LOG_OVERHEAD_BYTES
                if base + delta >= offset and size >= HEADER_BYTES:
                    return Place(position + at, size, base, base + delta)
                if size < HEADER_BYTES:
                    raise CorruptLog(self.path(LOG), position + at)
                at += size
            if not at:
                raise CorruptLog(self.path(LOG), position)
            position += at
        return None

    def boundary(self, start: int, bound: int) -> int:
        """The last position up to `bound` at which a batch ends, counted in whole batches from the one at `start`."""
        entry = self.offsets.floor(1, bound)
        position = max(start, entry[1]) if entry else start
        handle = self.file.handle()
        while position < bound:
            window = handle.pread(min(_WINDOW_BYTES, self.size - position), position)
            at, last_at = 0, len(window) - _PEEK_BYTES
            while at <= last_at:
                size = _PEEK.unpack_from(window, at)[1] + LOG_OVERHEAD_BYTES
                if size < HEADER_BYTES:
                    raise CorruptLog(self.path(LOG), position + at)
                if position + at + size > bound:
                    return position + at
                at += size
            if not at:
                raise CorruptLog(self.path(LOG), position)
            position += at
        return position

    def base_offset_at(self, position: int) -> int:
        """The first offset of the batch that begins at `position`."""
        offset: int = _PEEK.unpack(self.file.handle().pread(_PEEK.size, position))[0]
        return offset

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from `position` on; checksums are not looked at."""
        end = self.size
        while position < end:
            window = self.file.handle().pread(min(_WINDOW_BYTES, end - position), position)
            at = 0
            while at + HEADER_BYTES <= len(window):
                try:
                    header = read_header(window, at)
                except Malformed as error:
                    raise CorruptLog(self.path(LOG), position + at) from error
                yield position + at, header
                at += header.size
            if not at:
                raise CorruptLog(self.path(LOG), position)
            position += at
        if position != end:
            raise CorruptLog(self.path(LOG), end)

    def read(self, position: int, size: int) -> bytes:
        data = self.file.handle().pread(size, position)
        if len(data) < size:
            raise CorruptLog(self.path(LOG), position + len(data))
        return data

    # --- the end of the segment

    def load_tail(self) -> int:
        """Find the end offset and what the indexes do not know yet; reads what follows the last index entry."""
        last = self.offsets.last
        position = last[1] if last else 0
        end_offset = self.base_offset
        largest = self._load_max()
        indexed_at = position
        for at, header in self.batches(position):
            end_offset = header.next_offset
            if header.max_timestamp > largest[0]:
                largest = (header.max_timestamp, header.last_offset)
            position = at
        self._max = largest
        self.unindexed_bytes = self.size - indexed_at
        return end_offset

    def truncate_to(self, offset: int) -> bool:
        """Drop the batch that holds `offset` and all behind it; says whether there were any."""
        place = self.find(offset)
        if place is None:
            return False
        self.file.handle().truncate(place.position)
        self.size = place.position
        self.offsets.keep_below(0, offset - self.base_offset)
        self.times.keep_below(1, offset - self.base_offset)
        if self.has_aborted:
            kept = [entry for entry in self.txn_index if entry.last_offset < offset]
            self.txn_index.replace(kept)
            self.has_aborted = bool(kept)
        self.is_synced = False
        if not place.position:
            self.first_timestamp = None
        self.load_tail()
        return True

    def finish(self) -> bool:
        """Write out all that waits in memory: the segment is rolled or closed. Says whether its log was cut to size."""
        self._note_time(self._max or self._load_max())
        self.offsets.seal()
        self.times.seal()
        if self.has_aborted:
            self.txn_index.write_out()
        handle = self.file.handle()
        if handle.size() == self.size:
            return False
        handle.truncate(self.size)
        return True

    def sync(self) -> None:
        """Bring all files to the disk; the segment is not being appended to."""
        self.file.handle().fsync()
        self.sync_indexes()

    def sync_indexes(self) -> None:
        self.offsets.file.handle().fsync()
        self.times.file.handle().fsync()
        if self.has_aborted:
            self.files.sync(self.path(TXN_INDEX))

    def close(self) -> None:
        self.file.close()
        self.offsets.close()
        self.times.close()

    def rename(self, suffix: str) -> list[str]:
        """Add `suffix` to the names of its files, whose handles stay good; returns the new paths."""
        self.close()
        renamed = []
        for own in SUFFIXES:
            path = self.path(own)
            if self.files.exists(path):
                self.files.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed

    def reset_indexes(self) -> None:
        """Begin all three anew; the log is about to be read from its start."""
        self.offsets.keep_first(0)
        self.times.keep_first(0)
        self.txn_index.replace(())
        self.has_aborted = False
        self.is_synced = False
        self.unindexed_bytes = 0
        self.first_timestamp = None
        self._max = (-1, self.base_offset)

    def delete(self) -> None:
        self.close()
        for suffix in SUFFIXES:
            self.files.unlink(self.path(suffix))


def _unlink_if_possible(files: Files, path: str) -> None:
    try:
        files.unlink(path)
    except OSError:
        return  # an empty file of a segment that is not there does no harm: recovery removes it


def _truncate_if_possible(handle: Handle, size: int) -> None:
    try:
        handle.truncate(size)
    except OSError:
        return  # half a batch behind the end of the log is overwritten by the next one, or cut off by recovery


def total_size(segments: list[Segment]) -> int:
    return sum(segment.size for segment in segments)
