"""One round of compaction over one log: take the keys of its dirty part, rewrite what lies in front of their end, swap.

Who calls what where. The thread that appends (the event loop): `survey`, `Cleaning()`, `swap`; each takes microseconds,
and only `swap` changes the log, by a few renames and one new list of segments. A worker: `read_keys`, `rewrite_next`,
`discard`, `settle`; they read nothing that appends change. `clean` is the whole round for whoever has one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from ottla.base.topic_settings import MAX_LONG
from ottla.core.producers import Producer
from ottla.storage.compaction_files import DraftWriter, Uncleanable, read_batches, swap_in
from ottla.storage.compaction_filter import BatchFilter, CleaningStats, LastRecord, TransactionTrail
from ottla.storage.compaction_map import OffsetMap, go_on
from ottla.storage.compaction_plan import CleaningPlan, Group, LogFacts, SegmentFacts, plan_cleaning
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.log import Log
from ottla.storage.segment import LOG, Segment
from ottla.storage.txn_index import AbortedTransaction
from ottla.wire.batch_header import BatchHeader, read_header

MAP_BYTES = 128 * 1024 * 1024 * 9 // 10
"""Of memory for the keys of a round; what does not fit is left to the next one."""


class CleaningOvertaken(Exception):
    """Segments of this round were deleted or truncated meanwhile; the log is sound, and a later round will do."""


def survey(log: Log, checkpoint: int | None, last_stable_offset: int, now_ms: int) -> CleaningPlan:
    """How much of the log is dirty, counted from the cleaner's checkpoint."""
    reads_first = log.config.max_compaction_lag_ms < MAX_LONG
    segments = log.segments
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    facts = [
        SegmentFacts(
            base_offset=segment.base_offset,
            end_offset=end,
            size=segment.size,
            first_timestamp=segment.rolling_timestamp() if reads_first and segment.size else -1,
            largest_timestamp=segment.largest_timestamp(),
        )
        for segment, end in zip(segments, ends, strict=True)
    ]
    whole = LogFacts(facts, log.start_offset, log.end_offset, last_stable_offset)
    return plan_cleaning(whole, checkpoint, log.config, now_ms)


def last_records(producers: Iterable[Producer]) -> dict[int, LastRecord]:
    return {
        producer.producer_id: LastRecord(producer.last_offset if producer.batches else None, producer.epoch)
        for producer in producers
    }


def facts_of(segment: Segment, size: int, end_offset: int) -> SegmentFacts:
    return SegmentFacts(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size=size,
        index_bytes=segment.offsets.count * OFFSET_ENTRY.size,
        time_index_bytes=segment.times.count * TIME_ENTRY.size,
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A segment of the round, and what it was when the round began."""

    segment: Segment
    size: int
    end_offset: int

    @property
    def facts(self) -> SegmentFacts:
        return facts_of(self.segment, self.size, self.end_offset)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group of segments and, on disk as a draft, what is left of them; no draft when nothing would change."""

    sources: tuple[Source, ...]
    draft: Segment | None


class Cleaning:
    """A round that has begun; the head of this file says which thread calls what.

    `progress` is called by the worker for every batch, and what it raises ends the round; `pause` more often, in the
    midst of large batches too: it may wait, so that others get a turn.
    """

    def __init__(
        self,
        log: Log,
        plan: CleaningPlan,
        now_ms: int,
        *,
        progress: Callable[[], None] = go_on,
        pause: Callable[[], None] = go_on,
        map_bytes: int = MAP_BYTES,
    ) -> None:
        """Takes down all that appends may change later."""
        self._log = log
        self._config = log.config
        self._progress = progress
        self._pause = pause
        self._first_dirty_offset = plan.first_dirty_offset
        segments = log.segments
        self._sources = [
            Source(segment, segment.size, following.base_offset)
            for segment, following in pairwise(segments)
            if segment.base_offset < plan.upper_bound_offset
        ]
        active = segments[-1]
        self._aborted = list(active.txn_index) if active.has_aborted else []
        self._with_aborted = [segment for segment in segments[:-1] if segment.has_aborted]
        self._records: dict[int, int] = {}
        """How many there are in segments whose keys have all been read, by base offset."""
        self._offsets = OffsetMap(map_bytes, plan.first_dirty_offset)
        self.stats = CleaningStats()
        self._filter = BatchFilter(
            offsets=self._offsets,
            trail=TransactionTrail(()),
            last_records=last_records(log.producers),
            upper_bound_offset=plan.upper_bound_offset,
            now_ms=now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            stats=self.stats,
            pause=pause,
        )

    @property
    def end_offset(self) -> int:
        """Up to here the log is clean once every group is swapped: what the cleaner's checkpoint is to say then."""
        return self._offsets.end_offset

    def is_current(self) -> bool:
        """Whether the segments still to be rewritten are as they were; any thread may ask."""
        present = set(map(id, self._log.segments))
        return all(id(source.segment) in present and source.segment.size == source.size for source in self._sources)

    # --- the worker's part

    def read_keys(self) -> None:
        """Fill the map from the dirty part as far as it goes."""
        with self._noticing_overtakers():
            self._aborted += [aborted for segment in self._with_aborted for aborted in segment.txn_index]
            trail = TransactionTrail(self._aborted)
            for source in self._sources:
                if source.end_offset > self._first_dirty_offset and not self._take_keys(source, trail):
                    break
            self._offsets.settle(self._pause)
        self._sources = [source for source in self._sources if source.segment.base_offset < self.end_offset]
        self._filter.trail = TransactionTrail(self._aborted)

    @contextmanager
    def _noticing_overtakers(self) -> Iterator[None]:
        """A file that vanished under the worker's hands is no fault of the disk."""
        try:
            yield
        except (OSError, Uncleanable) as error:
            if self.is_current():
                raise
            raise CleaningOvertaken(self._log.place.path) from error

    def _on_batch(self) -> None:
        self._progress()
        self._pause()

    def _take_keys(self, source: Source, trail: TransactionTrail) -> bool:
        """False when the map is full."""

        def has_keys(header: BatchHeader) -> bool:
            is_dirty = header.last_offset >= self._first_dirty_offset
            return is_dirty and not header.is_control and not trail.is_aborted(header)

        records = 0
        for header, batch in read_batches(source.segment, source.size, self._on_batch, has_keys):
            if has_keys(header) and not self._offsets.add(batch, header, self._pause):
                return False
            self._offsets.skip_to(header.next_offset)
            records += header.record_count
        self._offsets.skip_to(source.end_offset)
        if source.segment.base_offset >= self._first_dirty_offset:
            self._records[source.segment.base_offset] = records
        return True

    def rewrite_next(self) -> Rewritten | None:
        """Write down what is left of the next group of segments; None when there is none left."""
        if not self._sources:
            return None
        first = self._sources[0].segment
        with self._noticing_overtakers():
            writer = DraftWriter(first.files, first.directory, first.base_offset, self._config.index_interval_bytes)
            draft: Segment | None = None
            try:
                sources, has_changed = self._rewrite_group(writer)
                aborted = self._filter.trail.take_indexed()  # of this group, even if it keeps the index that it has
                if has_changed:
                    draft = self._finish(writer, sources[-1].segment, aborted)
            finally:
                if draft is None:
                    writer.draft.delete()
            return Rewritten(sources, draft)

    def _rewrite_group(self, writer: DraftWriter) -> tuple[tuple[Source, ...], bool]:
        """Segments whose remains fit into one; and whether the draft is anything new."""
        config, group = self._config, Group(writer.draft.base_offset)
        has_changed = False
        for source in self._sources:
            writer.write_out()
            kept = facts_of(writer.draft, writer.draft.size, source.segment.base_offset)
            facts = replace(source.facts, kept_bytes=self._kept_bytes(source))
            if not group.admits(kept, facts, config.segment_bytes, config.segment_index_bytes):
                break
            has_changed |= self._rewrite(source, writer)
            group.add(facts)
        return tuple(self._sources[: group.sources]), has_changed or group.sources > 1

    def _kept_bytes(self, source: Source) -> int | None:
        """By the number of records that stay, as if all were of one size; None if not all of it is in the map."""
        records = self._records.get(source.segment.base_offset)
        if not records:
            return None
        return source.size * self._offsets.count_staying(source.segment.base_offset, source.end_offset) // records

    def _rewrite(self, source: Source, writer: DraftWriter) -> bool:
        """Whether anything of this segment has gone or changed."""
        has_changed = False
        for header, batch in read_batches(source.segment, source.size, self._on_batch, self._filter.needs_content):
            kept = self._filter.rewrite(batch, header)
            if kept is batch:
                writer.add(batch, header)
                continue
            has_changed = True
            if kept is not None:
                writer.add(kept, read_header(kept))
        return has_changed

    def _finish(self, writer: DraftWriter, last: Segment, aborted: Iterable[AbortedTransaction]) -> Segment:
        for transaction in aborted:
            writer.draft.note_aborted(transaction)
        return writer.finish(last.files.modified_ms(last.path(LOG)))

    def discard(self, rewritten: Rewritten) -> None:
        """Delete a draft that will not be swapped in."""
        if rewritten.draft is not None:
            rewritten.draft.delete()

    def settle(self) -> None:
        """Force the renames to disk; after that the checkpoint may move to `end_offset`."""
        self._log.active.files.sync_directory(self._log.place.path)

    # --- the part of the thread that appends

    def swap(self, rewritten: Rewritten) -> list[str]:
        """Put the draft in the place of its sources; returns the paths of what readers may still hold for a while."""
        if not self.is_current():
            raise CleaningOvertaken(self._log.place.path)
        self._sources = self._sources[len(rewritten.sources) :]
        if rewritten.draft is None:
            return []
        sources = [source.segment for source in rewritten.sources]
        self._log.note_renaming()
        segment, removed = swap_in(rewritten.draft, sources)
        self._log.replace_segments(sources, [segment])
        for source in sources[1:]:
            self._log.snapshots.remove(source.base_offset)
        return removed


def clean(cleaning: Cleaning) -> list[str]:
    """A whole round in one thread; returns the paths of what may be deleted."""
    removed: list[str] = []
    cleaning.read_keys()
    while (rewritten := cleaning.rewrite_next()) is not None:
        try:
            removed += cleaning.swap(rewritten)
        except CleaningOvertaken:
            cleaning.discard(rewritten)
            raise
    cleaning.settle()
    return removed
