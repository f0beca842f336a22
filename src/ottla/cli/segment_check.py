"""Reads a segment's files as they lie on disk and says what is wrong with them. Changes nothing."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from struct import Struct

from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.wire.batch_header import BatchHeader, crc_ok, read_header
from ottla.wire.malformed import Malformed

Entry = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    file: Path
    position: int
    what: str


@dataclass(frozen=True, slots=True)
class Batch:
    position: int
    header: BatchHeader
    data: memoryview


@dataclass
class SegmentCheck:
    """One pass over a `.log` file, its indexes walked alongside."""

    path: Path
    faults: list[Fault] = field(default_factory=list)
    batch_count: int = 0
    record_count: int = 0
    end_offset: int | None = None

    def __post_init__(self) -> None:
        self.base_offset = int(self.path.stem) if self.path.stem.isdecimal() else None
        self._max_timestamp = -1
        self._indexes = [index for index in (self._index(), self._time_index()) if index is not None]

    def batches(self) -> Iterator[Batch]:
        """Every whole batch; stops where the file does not go on with one."""
        with self.path.open("rb") as file:
            size = self.path.stat().st_size
            if size == 0:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
                yield from self._walk(data)
        for index in self._indexes:
            index.finish()

    def _walk(self, data: memoryview) -> Iterator[Batch]:
        at = 0
        while at < len(data):
            try:
                header = read_header(data, at)
            except Malformed as broken:
                self._fault(at, str(broken))
                return
            if header.size > len(data) - at:
                self._fault(at, f"a batch of {header.size} bytes where {len(data) - at} are left")
                return
            self._check(data, at, header)
            with data[at : at + header.size] as batch:
                yield Batch(at, header, batch)
            at += header.size

    def _check(self, data: memoryview, at: int, header: BatchHeader) -> None:
        if not crc_ok(data, at, header):
            self._fault(at, "the checksum does not fit")
        floor = self.end_offset if self.end_offset is not None else self.base_offset
        if floor is not None and header.base_offset < floor:
            self._fault(at, f"begins at offset {header.base_offset}, where {floor} is due")
        self.batch_count += 1
        self.record_count += header.record_count
        self.end_offset = header.next_offset
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        for index in self._indexes:
            index.on_batch(at, header, self._max_timestamp)

    def _fault(self, at: int, what: str) -> None:
        self.faults.append(Fault(self.path, at, what))

    def _index(self) -> "IndexWalk | None":
        path = self.path.with_suffix(".index")
        return OffsetIndexWalk(path, OFFSET_ENTRY, self) if self._can_check(path) else None

    def _time_index(self) -> "IndexWalk | None":
        path = self.path.with_suffix(".timeindex")
        return TimeIndexWalk(path, TIME_ENTRY, self) if self._can_check(path) else None

    def _can_check(self, path: Path) -> bool:
        return self.base_offset is not None and path.exists()


class IndexWalk:
    """Walks an index in step with its log; both rise, so neither is held in memory twice."""

    def __init__(self, path: Path, layout: Struct, segment: SegmentCheck) -> None:
        self.path = path
        self._layout = layout
        self._segment = segment
        self._base = segment.base_offset or 0
        self.entries = index_entries(path, layout, segment.faults)
        self._next = 0

    def on_batch(self, at: int, header: BatchHeader, max_timestamp: int) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        if not self._segment.faults and self._next < len(self.entries):
            self._fault(f"points behind the last batch: {self.entries[self._next]}")

    def _fault(self, what: str) -> None:
        self._segment.faults.append(Fault(self.path, self._next * self._layout.size, what))


class OffsetIndexWalk(IndexWalk):
    def on_batch(self, at: int, header: BatchHeader, max_timestamp: int) -> None:
        while self._next < len(self.entries) and self.entries[self._next][1] <= at:
            offset, position = self._base + self.entries[self._next][0], self.entries[self._next][1]
            if position < at:
                self._fault(f"points to position {position}, where no batch begins")
            elif not header.base_offset <= offset <= header.last_offset:
                self._fault(f"says offset {offset} for the batch {header.base_offset}..{header.last_offset}")
            self._next += 1


class TimeIndexWalk(IndexWalk):
    def on_batch(self, at: int, header: BatchHeader, max_timestamp: int) -> None:
        while self._next < len(self.entries) and self._base + self.entries[self._next][1] <= header.last_offset:
            timestamp, offset = self.entries[self._next][0], self._base + self.entries[self._next][1]
            if timestamp != max_timestamp:
                self._fault(f"says time {timestamp} up to offset {offset}, where the log says {max_timestamp}")
            self._next += 1


def index_entries(path: Path, layout: Struct, faults: list[Fault]) -> list[Entry]:
    """The entries of an index. Zeros behind them are space that was set aside while the segment was written to."""
    data = path.read_bytes()
    whole = len(data) // layout.size * layout.size
    if whole != len(data):
        faults.append(Fault(path, whole, f"ends with {len(data) - whole} bytes of an entry"))
    entries = [(first, second) for first, second in layout.iter_unpack(data[:whole])]
    while entries and entries[-1] == (0, 0):
        entries.pop()
    for number, (before, after) in enumerate(pairwise(entries), 1):
        if after[0] <= before[0] or after[1] < before[1]:
            faults.append(Fault(path, number * layout.size, f"{after} does not rise above {before}"))
    return entries
