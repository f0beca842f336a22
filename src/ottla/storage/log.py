"""The log of one partition: segments in a row, the last of which is appended to.

An append writes the batch as it came, into the page cache; `flush` forces it to the disk. Either the whole append
happens or nothing of it: after an OSError the log ends where it ended before. Appends, reads and truncations belong
to one thread, the event loop's; `flush` may run beside them in another.
"""

from __future__ import annotations

import errno
import random
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode, Refused
from ottla.base.topic_settings import LogConfig
from ottla.storage import lookup, transactions
from ottla.storage.checkpoint import LEADER_EPOCHS, encode_epochs
from ottla.storage.files import NO_ROOM, Bytes, Files
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.place import LogPlace, LogStart
from ottla.storage.recall import recall_batches
from ottla.storage.recovery import open_log
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Segment, total_size
from ottla.storage.slices import EMPTY, FileSlice, Slices
from ottla.storage.tail import Tail
from ottla.wire.batch_header import CONTROL, BatchHeader, crc_ok, iter_headers
from ottla.wire.control import decode_end_txn_marker
from ottla.wire.malformed import Malformed

if TYPE_CHECKING:
    from ottla.storage.txn_index import AbortedTransaction

__all__ = ["FlushFailed", "Log", "LogPlace", "LogStart"]

_HEAD = Struct(">qii")
_HEAD_BYTES = _HEAD.size
_new = tuple.__new__
REAL_FILES = Files()


class FlushFailed(OSError):
    """An fsync of this log has failed before: it is not known what of it is on disk, so nothing more is promised."""


class Log:
    def __init__(self, place: LogPlace, config: LogConfig, start: LogStart, now_ms: int, files: Files) -> None:
        """Use `Log.open`."""
        opening = open_log(place, config, start, now_ms, files)
        self.place = place
        self.config = config
        self.segments = opening.segments
        """Replaced, never changed in place, so that another thread may walk along them."""
        self.start_offset = opening.start_offset
        self.end_offset = opening.end_offset
        self.recovery_point = opening.recovery_point
        self.producers = opening.producers
        self.epochs = opening.epochs
        self.snapshots = opening.snapshots
        self.has_recovered = opening.has_recovered
        self._files = files
        self._lock = threading.Lock()
        """Guards the recovery point against a truncation while a flush is under way."""
        self._truncations = 0
        """Goes up when one begins and when it is over: odd while one is under way."""
        self._is_failed = False
        self._is_changed = opening.has_recovered or not start.clean
        self._opened_end = opening.end_offset
        self._are_names_synced = False
        self._are_epochs_stored = opening.are_epochs_stored
        self._set_segments(opening.segments)
        self._store_epochs()

    @classmethod
    def open(cls, place: LogPlace, config: LogConfig, start: LogStart, now_ms: int, files: Files = REAL_FILES) -> Log:
        """Open, create or recover; may read the whole log, so call it from a worker thread."""
        return cls(place, config, start, now_ms, files)

    def _set_segments(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        active = self._active = segments[-1]
        self._tail = Tail(self.end_offset, active.size)
        self._last_offset_max = active.base_offset + RELATIVE_OFFSET_MAX
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        self._jitter_ms = random.randint(0, jitter_ms) if jitter_ms > 0 else 0

    @property
    def active(self) -> Segment:
        return self._active

    @property
    def size(self) -> int:
        """Bytes of all batches on disk."""
        return total_size(self.segments)

    # --- append

    def append(self, data: Bytes, header: BatchHeader, leader_epoch: int, now_ms: int) -> int:
        """Append one batch as the leader: give it the next offset and this epoch. Returns its base offset.

        `data` may be changed: twelve bytes of it that its checksum does not cover.
        """
        base = self.end_offset
        last = base + header.last_offset_delta
        size = len(data)
        max_timestamp = header.max_timestamp
        active = self._active
        if self._must_roll(active, size, last, max_timestamp, now_ms):
            active = self.roll(now_ms)
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, base)
        try:
            _HEAD.pack_into(data, 0, base, header.batch_length, leader_epoch)
        except TypeError:  # read-only memory; rare, and a copy is the price
            data = b"".join((_HEAD.pack(base, header.batch_length, leader_epoch), memoryview(data)[_HEAD_BYTES:]))
        position = active.size
        active.append(data, last, max_timestamp, self.config.index_interval_bytes)
        self._tail.append(last, position, size)
        self.end_offset = last + 1
        if header.producer_id >= 0:
            self._follow(active, header, base, data)
        return base

    def append_as_follower(self, data: Bytes, now_ms: int) -> None:
        """Append batches that have their offsets: what a leader has sent, or a quorum's own.

        A last batch that is cut off is left out, as a fetch may end so. Raises Refused if anything else is wrong.
        """
        batches = self._checked_batches(data)
        if not batches:
            return
        end = batches[-1][0] + batches[-1][1].size
        data = data if end == len(data) else memoryview(data)[:end]
        last, max_timestamp = batches[-1][1].last_offset, max(header.max_timestamp for _, header in batches)
        active = self._active
        if self._must_roll(active, len(data), last, max_timestamp, now_ms):
            active = self.roll(now_ms)
        for _, header in batches:
            if header.leader_epoch > self.epochs.latest:
                self.assign_epoch(header.leader_epoch, header.base_offset)
        active.make_room_in_indexes()
        position = active.write(data)
        interval_bytes = self.config.index_interval_bytes
        for at, header in batches:
            active.note_batch(position + at, header.size, header.last_offset, header.max_timestamp, interval_bytes)
            self._tail.append(header.last_offset, position + at, header.size)
            if header.producer_id >= 0:
                self._follow(active, header, header.base_offset, memoryview(data)[at : at + header.size])
        self.end_offset = last + 1

    def _checked_batches(self, data: Bytes) -> list[tuple[int, BatchHeader]]:
        """The whole batches in `data`, whose checksums fit and whose offsets go on where the log ends."""
        expected = self.end_offset
        try:
            batches = list(iter_headers(data))
            for at, header in batches:
                if header.is_control and header.has_producer_id:
                    decode_end_txn_marker(memoryview(data)[at:])
        except Malformed as error:
            raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        for at, header in batches:
            if header.base_offset < expected or header.last_offset_delta < 0:
                raise Refused(
                    ErrorCode.CORRUPT_MESSAGE, f"a batch from offset {header.base_offset} on where {expected} is next"
                )
            if not crc_ok(data, at, header):
                raise Refused(ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at {header.base_offset} is wrong")
            expected = header.next_offset
        return batches

    def _follow(self, active: Segment, header: BatchHeader, base_offset: int, batch: Bytes) -> None:
        if header.attributes & CONTROL:
            completed = transactions.follow_batch(self.producers, header, base_offset, batch)
            transactions.note_completed(active, completed)
        else:
            self.producers.apply(header, base_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader's epoch begins at `start_offset`; called before the leader serves.

        It is written down when the segment is full or closed: until then recovery reads it from the batches.
        """
        if epoch >= 0 and self.epochs.assign(epoch, start_offset):  # type: ignore[arg-type]
            self._are_epochs_stored = False

    def _store_epochs(self) -> None:
        """Without fsync: the batches tell the same, should the file be lost."""
        if not self._are_epochs_stored:
            path = f"{self.place.path}/{LEADER_EPOCHS}"
            self._files.write_atomically(path, encode_epochs(self.epochs.entries), sync=False)
            self._are_epochs_stored = True

    def _store_epochs_if_there_is_room(self) -> None:
        """Where a full disk must not stand in the way of making room: opening the log cuts old entries off anyway."""
        try:
            self._store_epochs()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

    # --- roll

    def _must_roll(self, active: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        if not active.size:
            return last_offset > self._last_offset_max
        config = self.config
        if active.size + size > config.segment_bytes or last_offset > self._last_offset_max:
            return True
        rolling = active.first_timestamp
        if rolling is None:
            rolling = active.rolling_timestamp()
        age_ms = max_timestamp - rolling if max_timestamp >= 0 <= rolling else now_ms - active.created_ms
        if age_ms > config.segment_ms - self._jitter_ms:
            return True
        index_bytes = config.segment_index_bytes
        return (
            active.offsets.count >= index_bytes // OFFSET_ENTRY.size
            or active.times.count >= index_bytes // TIME_ENTRY.size - 1
        )

    def roll(self, now_ms: int) -> Segment:
        """Start a new segment at the end of the log; returns the active one, which stays if it is empty."""
        active = self._active
        if not active.size:
            return self._restart_active(now_ms)
        active.finish()
        self._store_epochs()
        active.is_synced = False
        self.snapshots.take(self.end_offset, self.producers.snapshot(), sync=False)
        rolled = Segment.create(self._files, self.place.path, self.end_offset, now_ms)
        self._are_names_synced = False
        self._set_segments([*self.segments, rolled])
        return rolled

    def _restart_active(self, now_ms: int) -> Segment:
        """An empty segment need not be kept when its successor would begin elsewhere."""
        empty = self._active
        if empty.base_offset == self.end_offset:
            return empty
        with self._truncating(self.end_offset):
            fresh = Segment.create(self._files, self.place.path, self.end_offset, now_ms)
            self._set_segments([*self.segments[:-1], fresh])
            empty.delete()
        return fresh

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Let `new` stand where `old` stood (compaction), or nothing (retention). The active segment always stays."""
        gone = set(map(id, old))
        kept = [segment for segment in self.segments if id(segment) not in gone]
        tail = self._tail
        self._set_segments(sorted([*kept, *new], key=lambda segment: segment.base_offset))
        self._tail = tail

    def note_renaming(self) -> None:
        """Compaction is about to put a segment in the place of others, which need not have been forced to the disk.

        Until the names are there, too, the recovery point must not move: a power cut would bring the others back.
        """
        self._are_names_synced = False

    # --- read

    def read(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool = True) -> Slices:
        """Whole batches from the one that holds `offset`, up to `max_bytes`, none that reaches `limit_offset`.

        With `at_least_one` the first batch comes whole even if it is larger. One segment is read at a time.
        """
        end_offset = self.end_offset
        if not self.start_offset <= offset <= end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in {self.start_offset} to {end_offset}"
            )
        if offset >= limit_offset or offset == end_offset:
            return EMPTY
        tail = self._tail
        if offset <= tail.lasts[0]:
            return self._read_older(offset, max_bytes, limit_offset, at_least_one)
        start = tail.position(offset)
        end = tail.size if limit_offset >= end_offset else tail.position(limit_offset)
        if end - start > max_bytes:
            bound = tail.boundary(start, start + max_bytes)
            end = bound if bound > start or not at_least_one else tail.end_of(start)
        if end <= start:
            return EMPTY
        part: FileSlice = _new(FileSlice, (self._active.file.handle(), start, end - start))
        slices: Slices = _new(Slices, (part,))
        return slices

    def _read_older(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool) -> Slices:
        segments = self.segments
        first = max(bisect_right(self._bases, offset) - 1, 0)
        for number in range(first, len(segments)):
            segment = segments[number]
            place = segment.find(offset)
            if place is None:
                continue  # what was there has been compacted away
            next_base = self._bases[number + 1] if number + 1 < len(segments) else self.end_offset
            end = segment.size if limit_offset >= next_base else self._limit_in(segment, limit_offset)
            start, bound = place.position, place.position + max_bytes
            if end > bound:
                end = segment.boundary(start, bound) if max_bytes > 0 else start
                if end == start and at_least_one:
                    end = start + place.size
            if end <= start or place.last_offset >= limit_offset:
                return EMPTY
            return Slices((FileSlice(segment.file.handle(), start, end - start),))
        return EMPTY

    def _limit_in(self, segment: Segment, limit_offset: int) -> int:
        if segment is self._active and self._tail.knows(limit_offset):
            return self._tail.position(limit_offset)
        place = segment.find(limit_offset)
        return place.position if place else segment.size

    def offset_for_timestamp(self, timestamp: int) -> lookup.TimedOffset | None:
        """The first record at or behind the log's start whose timestamp is `timestamp` or later."""
        return lookup.offset_for_timestamp(self.segments, timestamp, self.start_offset)

    def max_timestamp_offset(self) -> lookup.TimedOffset | None:
        """The record with the largest timestamp (KIP-734)."""
        return lookup.max_timestamp_offset(self.segments, self.start_offset)

    def aborted_transactions(self, from_offset: int, upto: int) -> list[AbortedTransaction]:
        return transactions.aborted_transactions(self.segments, from_offset, upto)

    def aborted_among(self, slices: Slices, offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have data in what was read from `offset` on."""
        first = max(bisect_right(self._bases, offset) - 1, 0)
        if not any(segment.has_aborted for segment in self.segments[first:]):
            return []
        return self.aborted_transactions(offset, self._end_of(slices, first))

    def _end_of(self, slices: Slices, first: int) -> int:
        """The offset behind what was read from segment number `first` on."""
        part = slices[-1]
        end = part.position + part.size
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if segment.file.handle() is part.file and end < segment.size:
                return segment.base_offset_at(end)
            if segment.file.handle() is part.file and number + 1 < len(self.segments):
                return self._bases[number + 1]
        return self.end_offset

    # --- cut

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone (DeleteRecords, or the leader says so); retention removes their segments."""
        if offset > self.end_offset:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} lies behind the log's end {self.end_offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self._is_changed = True
            if self.epochs.truncate_to_start(offset):  # type: ignore[arg-type]
                self._are_epochs_stored = False
                self._store_epochs_if_there_is_room()

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything from `offset` on: a follower parts with what its leader does not have."""
        if offset >= self.end_offset:
            return
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        with self._truncating(offset):
            self._truncate_to(offset, now_ms)

    def _truncate_to(self, offset: int, now_ms: int) -> None:
        kept = bisect_right(self._bases, offset)
        for segment in reversed(self.segments[kept:]):
            segment.delete()
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.segments[kept - 1].truncate_to(offset)
        self._set_segments(self.segments[:kept])
        self._reload_producers(now_ms)
        if self.epochs.truncate_from(offset):  # type: ignore[arg-type]
            self._are_epochs_stored = False
            self._store_epochs()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop everything; the next record gets `offset`."""
        with self._truncating(offset):
            self._truncate_fully(offset, now_ms)

    def _truncate_fully(self, offset: int, now_ms: int) -> None:
        for segment in reversed(self.segments):
            segment.delete()
        for taken in self.snapshots.offsets:
            self.snapshots.remove(taken)
        self.start_offset = self.end_offset = self.recovery_point = offset
        self._set_segments([Segment.create(self._files, self.place.path, offset, now_ms)])
        self.producers.clear()
        self.epochs.clear()
        self._are_epochs_stored = self._are_names_synced = False
        self._store_epochs()

    @contextmanager
    def _truncating(self, offset: int) -> Iterator[None]:
        """A flush that runs into a truncation promises nothing."""
        self._is_changed = True
        with self._lock:
            self._truncations += 1
            self.recovery_point = min(self.recovery_point, offset)
        try:
            yield
        finally:
            with self._lock:
                self._truncations += 1

    def _reload_producers(self, now_ms: int) -> None:
        self.snapshots.remove_above(self.end_offset)
        found = self.snapshots.load_latest(self.start_offset - 1, self.end_offset)
        offset, snapshot = found or (self._bases[0], [])
        self.producers.restore(snapshot, now_ms)
        recall_batches(self.producers, self.segments, offset, now_ms)
        if offset < self.end_offset:
            transactions.replay(self.producers, self.segments, offset)

    # --- durability

    def flush(self, upto: int | None = None) -> None:
        """Force all below `upto` (or all there is) to the disk, advance the recovery point; may run in a thread.

        A failure is final: what the kernel could not write it may have dropped, and a second fsync would not say so.
        """
        if (upto if upto is not None else self.end_offset) > self.recovery_point:
            self._force(is_whole=True)

    def _force(self, *, is_whole: bool) -> None:
        if self._is_failed:
            raise FlushFailed(errno.EIO, f"a flush of {self.place} has failed before")
        with self._lock:
            truncations, segments = self._truncations, self.segments
            end_offset = self.end_offset if is_whole else segments[-1].base_offset
        try:
            self._sync_rolled(segments, truncations)
            if is_whole:
                segments[-1].file.handle().fsync()
        except FileNotFoundError:
            if self._is_undisturbed(truncations) and segments[-1] is self._active:
                self._is_failed = True
                raise
            return  # what was to be forced to the disk has been cut off or deleted meanwhile
        except OSError:
            self._is_failed = True
            raise
        with self._lock:
            if self._is_undisturbed(truncations):
                self.recovery_point = max(self.recovery_point, end_offset)

    def _is_undisturbed(self, truncations: int) -> bool:
        return self._truncations == truncations and truncations % 2 == 0

    def _sync_rolled(self, segments: Sequence[Segment], truncations: int) -> None:
        first = max(bisect_right(segments, self.recovery_point, key=lambda segment: segment.base_offset) - 1, 0)
        for segment in segments[first:-1]:
            if not segment.is_synced:
                try:
                    segment.sync()
                    # A truncation meanwhile may have made this the active segment again.
                    segment.is_synced = self._is_undisturbed(truncations)
                    self.snapshots.sync(segment.base_offset)
                except FileNotFoundError:
                    continue  # retention has removed it, or compaction put one in its place that is on disk already
        if not self._are_names_synced:
            self._are_names_synced = True
            self._files.sync_directory(self.place.path)
            self._files.sync_directory(str(self.place.directory))

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a segment has been rolled and not been forced to the disk; what is, a restart need not read."""
        return self.recovery_point < self._active.base_offset

    def flush_rolled(self) -> None:
        """Force all but the active segment to the disk; nobody waits for it, so it may run in a thread now and then."""
        self._force(is_whole=False)

    def close(self, clean: bool = True) -> None:
        """A clean close leaves nothing to recover, once the log directory is marked as cleanly stopped."""
        if clean and (self._is_changed or self.end_offset != self._opened_end):
            active = self._active
            was_cut = active.finish()
            self._store_epochs()
            if was_cut or self.end_offset > self.recovery_point:
                self._force(is_whole=True)
            active.sync_indexes()
            if self.end_offset > self._bases[0] or len(self.producers):
                self.snapshots.take(self.end_offset, self.producers.snapshot(), sync=True)
        for segment in self.segments:
            segment.close()
