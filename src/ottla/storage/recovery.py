"""Opening a partition's directory: finish what a crash interrupted, and find out where the log ends.

After a clean stop nothing is read but the tail of the last segment. Otherwise every segment from the recovery point
on is read, its batches are checked, its indexes are rebuilt, and the log ends where the first bad batch begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

import structlog
from crc32c import crc32c

from ottla.base.topic_settings import LogConfig
from ottla.core.producers import ProducerTable
from ottla.core.replication.epochs import EpochCache, EpochEntry
from ottla.storage import swap
from ottla.storage.checkpoint import LEADER_EPOCHS, BadCheckpoint, decode_epochs
from ottla.storage.files import Entry, Files, Handle
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.place import LogPlace, LogStart
from ottla.storage.recall import recall_batches
from ottla.storage.segment import INDEX, LOG, RELATIVE_OFFSET_MAX, SUFFIXES, TIME_INDEX, CorruptLog, Segment
from ottla.storage.snapshot import SUFFIX as SNAPSHOT
from ottla.storage.snapshot import SnapshotFiles
from ottla.storage.transactions import follow_batch, note_completed, replay
from ottla.wire.batch_header import BATCH_LENGTH_MIN, CRC_FROM, HEADER_BYTES, MAGIC, BatchHeader
from ottla.wire.malformed import Malformed

log = structlog.get_logger()

_WINDOW_BYTES = 2 * 1024 * 1024
_NAME_DIGITS = 20
_unpack = Struct(">qiibIhiqqqhii").unpack_from
_new = tuple.__new__


@dataclass(slots=True)
class Opening:
    """A log in the making."""

    place: LogPlace
    config: LogConfig
    start: LogStart
    now_ms: int
    files: Files
    segments: list[Segment]
    snapshots: SnapshotFiles
    producers: ProducerTable
    epochs: EpochCache
    start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    has_recovered: bool = False
    are_epochs_stored: bool = False
    """Whether the checkpoint says what `epochs` says."""


def open_log(place: LogPlace, config: LogConfig, start: LogStart, now_ms: int, files: Files) -> Opening:
    """Read and, where needed, repair the partition's directory. May take long: call it from a worker thread."""
    files.make_directory(place.path)
    entries = swap.finish_interrupted(files, place.path, files.entries(place.path))
    opening = Opening(
        place=place,
        config=config,
        start=start,
        now_ms=now_ms,
        files=files,
        segments=_segments(files, place.path, entries),
        snapshots=SnapshotFiles(files, place.path, _offsets_of(entries, SNAPSHOT)),
        producers=ProducerTable(start.producer_expiration_ms),
        epochs=EpochCache(),
    )
    stored_epochs = _load_epochs(opening, entries)
    if not opening.segments:  # nothing to mistrust
        opening.segments.append(Segment.create(files, place.path, start.log_start_offset, now_ms))
        first_suspect = 1
    else:
        first_suspect = _first_suspect(opening)
    if first_suspect < len(opening.segments):
        _recover(opening, first_suspect)
    else:
        _trust(opening)
    _settle(opening, stored_epochs)
    return opening


def _offsets_of(entries: Iterable[Entry], suffix: str) -> list[int]:
    return [offset for entry in entries if (offset := swap.offset_in(entry.name, suffix)) is not None]


def _segments(files: Files, directory: str, entries: Iterable[Entry]) -> list[Segment]:
    sizes: dict[int, dict[str, int]] = {}
    for entry in entries:
        for suffix in SUFFIXES:
            offset = swap.offset_in(entry.name, suffix)
            if offset is not None:
                sizes.setdefault(offset, {})[suffix] = entry.size
    segments = []
    for base_offset, by_suffix in sorted(sizes.items()):
        if LOG in by_suffix:
            segments.append(Segment.existing(files, directory, base_offset, by_suffix))
        else:
            for suffix in by_suffix:  # an index of nothing
                files.unlink(f"{directory}/{base_offset:0{_NAME_DIGITS}d}{suffix}")
    for segment in segments[1:-1]:
        if not segment.size:  # what a failed roll left behind, or a compaction
            segment.delete()
    # The first one stays even so: the offsets in front of the next were compacted away, not cut off.
    segments = [segment for segment in segments if segment.size or segment in (segments[0], segments[-1])]
    for segment in segments:
        by_suffix = sizes[segment.base_offset]
        is_whole = by_suffix.get(INDEX, 1) % OFFSET_ENTRY.size == 0 == by_suffix.get(TIME_INDEX, 1) % TIME_ENTRY.size
        segment.is_suspect = not is_whole
    return segments


def _load_epochs(opening: Opening, entries: Iterable[Entry]) -> list[EpochEntry] | None:
    """What the checkpoint of epochs says; None if it does not, so that the batches have to tell."""
    if all(entry.name != LEADER_EPOCHS for entry in entries):
        return None
    try:
        stored = decode_epochs(opening.files.read(f"{opening.place.path}/{LEADER_EPOCHS}"))
    except BadCheckpoint as error:
        log.warning("epoch checkpoint unreadable", partition=str(opening.place), reason=str(error))
        return None
    opening.epochs = EpochCache(stored)
    return stored


def _first_suspect(opening: Opening) -> int:
    """The first segment whose content or indexes cannot be trusted; their number if all can."""
    segments = opening.segments
    trusted = len(segments)
    if not opening.start.clean:
        trusted = bisect_right(segments, opening.start.recovery_point, key=lambda segment: segment.base_offset) - 1
    for number, segment in enumerate(segments[: max(trusted, 0)]):
        if segment.is_suspect or not (opening.start.clean or _indexes_look_sound(segment)):
            log.warning("segment index unsound", partition=str(opening.place), base_offset=segment.base_offset)
            return number
    return max(trusted, 0)


def _indexes_look_sound(segment: Segment) -> bool:
    """What can be told from the ends of the indexes: a power cut leaves zeros there, or nothing."""
    for index in (segment.offsets, segment.times):
        if index.count and index[index.count - 1] < (index[index.count - 2] if index.count > 1 else (0, 0)):
            return False
    last = segment.offsets.last
    return last is None or (last[0] >= 0 and 0 <= last[1] < segment.size)


def _trust(opening: Opening) -> None:
    """After a clean stop the last segment tells where the log ends."""
    last = opening.segments[-1]
    try:
        opening.end_offset = last.load_tail()
    except CorruptLog as error:
        log.warning("segment not as clean as promised", partition=str(opening.place), reason=str(error))
        _recover(opening, len(opening.segments) - 1)
        return
    found = opening.snapshots.load_latest(opening.start.log_start_offset - 1, opening.end_offset)
    offset, snapshot = found or (opening.segments[0].base_offset, [])
    opening.producers.restore(snapshot, opening.now_ms)
    recall_batches(opening.producers, opening.segments, offset, opening.now_ms)
    if offset < opening.end_offset:
        replay(opening.producers, opening.segments, offset)


def _recover(opening: Opening, first: int) -> None:
    """Read everything from segment `first` on, and end the log where something is wrong."""
    segments, end_offset = opening.segments, opening.segments[first].base_offset
    _restore_producers(opening, first)
    for number in range(first, len(segments)):
        segment = segments[number]
        # Compaction leaves gaps. Elsewhere a gap is what a power cut has lost: the log ends in front of it, so that it
        # is a prefix of what it was, as replication expects.
        is_gap = number > first and segment.base_offset > end_offset and not opening.config.is_compacted
        if segment.base_offset < end_offset or is_gap:
            _drop_from(opening, number)
            break
        recovery = _SegmentRecovery(opening, segment)
        is_whole = recovery.run()
        end_offset = recovery.end_offset
        segment.finish()
        if not is_whole:
            _drop_from(opening, number + 1)
            break
    opening.end_offset = end_offset
    opening.has_recovered = True


def _restore_producers(opening: Opening, first: int) -> None:
    base_offset = opening.segments[first].base_offset
    opening.snapshots.remove_above(base_offset)
    found = opening.snapshots.load_latest(opening.start.log_start_offset - 1, base_offset)
    offset, snapshot = found or (opening.segments[0].base_offset, [])
    opening.producers.restore(snapshot, opening.now_ms)
    recall_batches(opening.producers, opening.segments[:first], offset, opening.now_ms)
    if offset < base_offset:
        replay(opening.producers, opening.segments[:first], offset)


def _drop_from(opening: Opening, number: int) -> None:
    """What stands before segment `number` was cut, or overlaps it: nothing from there on can be right."""
    for segment in opening.segments[number:]:
        log.warning(
            "segment dropped", partition=str(opening.place), base_offset=segment.base_offset, bytes=segment.size
        )
        segment.delete()
    del opening.segments[number:]


class _SegmentRecovery:
    """One pass over a segment: checks its batches, and rebuilds indexes, epochs and producers from them."""

    def __init__(self, opening: Opening, segment: Segment) -> None:
        self._opening = opening
        self._segment = segment
        self.end_offset = segment.base_offset

    def run(self) -> bool:
        """Whether the segment was sound to its end; if not it is cut where it ceases to be."""
        segment = self._segment
        file_size = segment.size
        self._make_indexes()
        valid = self._read(segment.file.handle(), file_size)
        segment.size = valid
        if valid == file_size:
            return True
        log.warning(
            "segment truncated",
            partition=str(self._opening.place),
            base_offset=segment.base_offset,
            position=valid,
            bytes_dropped=file_size - valid,
            end_offset=self.end_offset,
        )
        return False

    def _make_indexes(self) -> None:
        for index in (self._segment.offsets, self._segment.times):
            self._opening.files.write(index.file.path, b"")
            index.stored = 0
        self._segment.reset_indexes()

    def _read(self, handle: Handle, file_size: int) -> int:
        """Position of the first bad batch, or `file_size`."""
        window = memoryview(bytearray(min(_WINDOW_BYTES, file_size)))
        position = 0
        while file_size - position >= HEADER_BYTES:
            got = handle.pread_into(window[: file_size - position], position)
            at, is_sound = self._take(window[:got], position, file_size)
            if not is_sound:
                return position + at
            if not at:
                at = self._take_large(handle, position)
            if not at:
                return position
            position += at
        return position

    def _take(self, window: memoryview, position: int, file_size: int) -> tuple[int, bool]:
        """Take the whole batches in `window`; returns how far it came, and whether there was nothing bad."""
        at, got = 0, len(window)
        relative_max = self._segment.base_offset + RELATIVE_OFFSET_MAX
        while got - at >= HEADER_BYTES:
            fields = _unpack(window, at)
            base, length, _, magic, crc, _, delta = fields[:7]
            end = at + length + 12
            if (
                magic != MAGIC
                or length < BATCH_LENGTH_MIN
                or delta < 0
                or base < self.end_offset
                or base + delta > relative_max
                or position + end > file_size
            ):
                return at, False
            if end > got:
                break
            if crc32c(window[at + CRC_FROM : end]) != crc:
                return at, False
            if not self._note(fields, position + at, window[at:end]):
                return at, False
            at = end
        return at, True

    def _take_large(self, handle: Handle, position: int) -> int:
        """Take a batch that is larger than the window; its fields have been found plausible. Returns its size or 0."""
        fields = _unpack(handle.pread(HEADER_BYTES, position))
        size = fields[1] + 12
        crc, done = 0, CRC_FROM
        while done < size:
            part = handle.pread(min(_WINDOW_BYTES, size - done), position + done)
            if not part:
                return 0
            crc = crc32c(part, crc)
            done += len(part)
        if crc != fields[4]:
            return 0
        batch = handle.pread(size, position) if fields[5] & 0x20 else b""
        return size if self._note(fields, position, batch) else 0

    def _note(self, fields: tuple[int, ...], position: int, batch: memoryview | bytes) -> bool:
        base, length, epoch = fields[:3]
        last = base + fields[6]
        opening, segment = self._opening, self._segment
        if fields[9] >= 0:
            header: BatchHeader = _new(BatchHeader, fields)
            try:
                note_completed(segment, follow_batch(opening.producers, header, base, batch))
            except Malformed:  # a marker that is none, under a checksum that fits: written by something broken
                return False
        segment.note_batch(position, length + 12, last, fields[8], opening.config.index_interval_bytes)
        if epoch > opening.epochs.latest:
            opening.epochs.assign(epoch, base)  # type: ignore[arg-type]
        self.end_offset = last + 1
        return True


def _settle(opening: Opening, stored_epochs: list[EpochEntry] | None) -> None:
    """Make the parts agree with one another (log start, epochs, snapshots, recovery point)."""
    start = opening.start
    opening.start_offset = max(start.log_start_offset, opening.segments[0].base_offset)
    if opening.end_offset < opening.start_offset:
        _start_anew(opening)
    if stored_epochs is None:
        _rebuild_epochs(opening)
    opening.epochs.truncate_from(opening.end_offset)  # type: ignore[arg-type]
    opening.epochs.truncate_to_start(opening.start_offset)  # type: ignore[arg-type]
    opening.are_epochs_stored = list(opening.epochs.entries) == (stored_epochs or [])
    opening.snapshots.remove_strays(segment.base_offset for segment in opening.segments)
    opening.snapshots.remove_above(opening.end_offset)
    if opening.has_recovered:
        if opening.end_offset > opening.segments[0].base_offset:
            opening.snapshots.take(opening.end_offset, opening.producers.snapshot(), sync=False)
        opening.recovery_point = min(start.recovery_point, opening.end_offset)
    else:
        opening.recovery_point = opening.end_offset if start.clean else min(start.recovery_point, opening.end_offset)


def _start_anew(opening: Opening) -> None:
    """The log start says that all of this was deleted."""
    log.warning(
        "log ends before its start", partition=str(opening.place), end=opening.end_offset, start=opening.start_offset
    )
    for segment in opening.segments:
        segment.delete()
    opening.end_offset = opening.start_offset
    opening.segments[:] = [Segment.create(opening.files, opening.place.path, opening.start_offset, opening.now_ms)]
    opening.producers.clear()
    opening.epochs.clear()


def _rebuild_epochs(opening: Opening) -> None:
    """Every batch says under which epoch it was written."""
    opening.epochs.clear()
    for segment in opening.segments:
        for _, header in segment.batches():
            if header.leader_epoch > opening.epochs.latest:
                opening.epochs.assign(header.leader_epoch, header.base_offset)  # type: ignore[arg-type]
