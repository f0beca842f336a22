"""Which log is compacted next, how far, and which of its segments become one: decisions on plain numbers.

Terms: a log is *clean* below its first dirty offset (every key there is unique, as of the last round), *dirty* from
there up to the upper bound, and not to be touched behind that: it may still change, or it is too young.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.base.topic_settings import LogConfig

Name = TypeVar("Name", bound=Hashable)

RELATIVE_OFFSET_MAX = 2**31 - 1
POSITION_MAX = 2**31 - 1
GROUP_SOURCES_MAX = 16
GROUP_BYTES_MAX = 4 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What planning needs to know of a segment; `end_offset` is the base offset of the next one."""

    base_offset: int
    end_offset: int
    size: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    first_timestamp: int = -1
    largest_timestamp: int = -1
    kept_bytes: int | None = None
    """About how much of it a round will keep; None if that may be all."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """`segments` holds all of them; the last one is active and never compacted."""

    segments: Sequence[SegmentFacts]
    start_offset: int
    end_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    first_dirty_offset: int
    upper_bound_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """A dirty record is older than max.compaction.lag.ms: the ratio does not matter."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def first_dirty_offset(log: LogFacts, checkpoint: int | None) -> int:
    """Where the last round ended; from the start again when the log does not reach there, or no longer does."""
    if checkpoint is None or not log.start_offset <= checkpoint <= log.end_offset:
        return log.start_offset
    return checkpoint


def plan_cleaning(log: LogFacts, checkpoint: int | None, config: LogConfig, now_ms: int) -> CleaningPlan:
    """How this log stands; whether that is worth a round is for `is_due` to say."""
    inactive = log.segments[:-1]
    dirty_from = first_dirty_offset(log, checkpoint)
    dirty = [segment for segment in inactive if segment.end_offset > dirty_from]
    upper_bound = _upper_bound(log, dirty, config, now_ms)
    due = [segment for segment in dirty if segment.base_offset < upper_bound]
    oldest = min((s.first_timestamp for s in due if s.first_timestamp > 0), default=now_ms)
    return CleaningPlan(
        first_dirty_offset=min(dirty_from, upper_bound),
        upper_bound_offset=upper_bound,
        clean_bytes=sum(segment.size for segment in inactive if segment.end_offset <= dirty_from),
        dirty_bytes=sum(segment.size for segment in due),
        is_overdue=now_ms - oldest > config.max_compaction_lag_ms,
    )


def _upper_bound(log: LogFacts, dirty: Iterable[SegmentFacts], config: LogConfig, now_ms: int) -> int:
    """The base of the first segment that must stay as it is: whole segments only are rewritten."""
    bound = min(log.last_stable_offset, log.segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        bound = min([bound, *(s.base_offset for s in dirty if s.largest_timestamp > youngest_ms)])
    return max((s.base_offset for s in log.segments if s.base_offset <= bound), default=bound)


def is_due(plan: CleaningPlan, config: LogConfig) -> bool:
    return plan.dirty_bytes > 0 and (plan.is_overdue or plan.dirty_ratio > config.min_cleanable_dirty_ratio)


def most_due(plans: Mapping[Name, tuple[CleaningPlan, LogConfig]]) -> Name | None:
    """Of several logs the dirtiest one that is due."""
    due = [(plan.dirty_ratio, name) for name, (plan, config) in plans.items() if is_due(plan, config)]
    return max(due, key=lambda entry: entry[0])[1] if due else None


@dataclass(slots=True)
class Group:
    """Neighbouring segments that become one: what of them is kept is being written, one source after the other."""

    base_offset: int
    sources: int = 0
    source_bytes: int = 0

    def admits(self, draft: SegmentFacts, source: SegmentFacts, segment_bytes: int, index_bytes: int) -> bool:
        """Whether what `source` will keep fits as well, as far as that is known; `draft` is what the group has so far.

        A group is bounded in what is read for it, too: its swap is a few renames per source on the event loop, and a
        round that is given up loses the group that it was at.
        """
        if not self.sources:
            return True
        kept_bytes = source.size if source.kept_bytes is None else source.kept_bytes
        return (
            self.sources < GROUP_SOURCES_MAX
            and self.source_bytes + source.size <= max(GROUP_BYTES_MAX, segment_bytes)
            and draft.size + kept_bytes <= segment_bytes
            and draft.size + source.size <= POSITION_MAX
            and draft.index_bytes + source.index_bytes <= index_bytes
            and draft.time_index_bytes + source.time_index_bytes <= index_bytes
            and source.end_offset - 1 - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def add(self, source: SegmentFacts) -> None:
        self.sources += 1
        self.source_bytes += source.size
