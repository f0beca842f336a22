"""Which old segments go: by age, by size, or because the log begins behind them. Always from the oldest on, and only
such as lie wholly below the high watermark. All of this belongs to the thread that appends; deleting files need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ottla.storage.files import NO_ROOM
from ottla.storage.log import Log
from ottla.storage.segment import Segment, total_size
from ottla.storage.swap import DELETED

Rule = Callable[[Segment, int], bool]
"""Whether this segment, which ends at that offset, may go; asked from the oldest on, until one may not."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Segments that have left the log. Their files have other names now, and readers may hold them for a while."""

    paths: tuple[str, ...]
    bytes: int
    start_offset: int
    """Of the log, without them."""


def expired_segments(log: Log, high_watermark: int, now_ms: int) -> list[Segment]:
    """The oldest segments that some rule lets go. Without `delete` in cleanup.policy that is only the log's start."""
    removable = list(_below(log, high_watermark))
    count = _matching(removable, lambda _, end_offset: end_offset <= log.start_offset)
    if "delete" in log.config.cleanup_policy:
        count += _matching(removable[count:], _oversize(log, removable[:count]))
        count += _matching(removable[count:], _overage(log, now_ms))
    return [segment for segment, _ in removable[:count]]


def _below(log: Log, high_watermark: int) -> Iterator[tuple[Segment, int]]:
    """Segments and where they end; the active one only if there is something in it to part with."""
    segments = log.segments
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        if end_offset > high_watermark or (segment is segments[-1] and not segment.size):
            return
        yield segment, end_offset


def _matching(segments: Sequence[tuple[Segment, int]], rule: Rule) -> int:
    return next((at for at, (segment, end) in enumerate(segments) if not rule(segment, end)), len(segments))


def _oversize(log: Log, gone: Sequence[tuple[Segment, int]]) -> Rule:
    """While what would be left is not less than retention.bytes."""
    if log.config.retention_bytes < 0:
        return lambda *_: False
    excess = log.size - total_size([segment for segment, _ in gone]) - log.config.retention_bytes

    def may_go(segment: Segment, _: int) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return may_go


def _overage(log: Log, now_ms: int) -> Rule:
    """By the largest timestamp, so one from the future keeps its segment and all behind it."""
    if log.config.retention_ms < 0:
        return lambda *_: False
    oldest_ms = now_ms - log.config.retention_ms
    return lambda segment, _: segment.largest_timestamp() < oldest_ms


def remove_segments(log: Log, segments: Sequence[Segment], now_ms: int) -> Removed:
    """Take these oldest segments out of the log; if they are all it has, a new and empty one is begun first."""
    if segments and segments[-1] is log.active:
        segments = _without_active(log, segments, now_ms)
    if not segments:
        return Removed((), 0, log.start_offset)
    log.replace_segments(segments, [])
    log.advance_start(log.segments[0].base_offset)
    paths = tuple(path for segment in segments for path in segment.rename(DELETED))
    for segment in segments:
        log.snapshots.remove(segment.base_offset)
    return Removed(paths, total_size(list(segments)), log.start_offset)


def _without_active(log: Log, segments: Sequence[Segment], now_ms: int) -> Sequence[Segment]:
    """Roll, so that all of them may go. On a full disk the active one waits until the others have made room."""
    try:
        log.roll(now_ms)
    except OSError as error:
        if error.errno not in NO_ROOM or len(segments) == 1:
            raise
        return segments[:-1]
    return segments


def apply_retention(log: Log, high_watermark: int, now_ms: int) -> Removed:
    """One look at the log: what has expired leaves it."""
    return remove_segments(log, expired_segments(log, high_watermark, now_ms), now_ms)
