"""What a snapshot of producers leaves out: of each producer it keeps the last batch alone, as Kafka's format has it.

A producer with several requests under way sends all of them again when a restart swallowed their answers. So the
batches in front of the snapshot are looked at once more, by their headers, as far as a retry may reach back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.core.producers import ProducerTable
from ottla.storage.segment import LOG, CorruptLog, Segment
from ottla.wire.batch_header import BatchHeader

RETRY_MS_MAX = 600_000
"""A log that was last written to so long ago has nobody who still waits for an answer."""
_BYTES_FIRST, _BYTES_MAX = 64 * 1024, 4 * 1024 * 1024
_HEADERS_ENOUGH = 500


def recall_batches(producers: ProducerTable, segments: Sequence[Segment], before: int, now_ms: int) -> None:
    """Let `producers`, as they were at offset `before`, remember the batches in front of it."""
    older = [segment for segment in segments if segment.base_offset < before and segment.size]
    if not older or not len(producers):
        return
    newest = older[-1]
    if now_ms - newest.files.modified_ms(newest.path(LOG)) > RETRY_MS_MAX:
        return
    try:
        producers.recall(_last_headers(older, before))
    except CorruptLog:
        return  # found by whoever reads there; what is not remembered is refused, never stored twice


def _last_headers(segments: Sequence[Segment], before: int) -> list[BatchHeader]:
    """Enough of the last batches in front of `before`, in their order; small batches cost as much as large ones."""
    bytes_wanted = _BYTES_FIRST
    while True:
        headers = list(_headers(segments, before, bytes_wanted))
        if len(headers) >= _HEADERS_ENOUGH or bytes_wanted >= _BYTES_MAX:
            return headers
        bytes_wanted *= 4


def _headers(segments: Sequence[Segment], before: int, bytes_wanted: int) -> Iterator[BatchHeader]:
    tail: list[tuple[Segment, int]] = []
    for segment in reversed(segments):
        start = max(0, segment.size - bytes_wanted)
        entry = segment.offsets.floor(1, start) if start else None
        position = entry[1] if entry else 0
        tail.append((segment, position))
        bytes_wanted -= segment.size - position
        if bytes_wanted <= 0:
            break
    for segment, position in reversed(tail):
        for _, header in segment.batches(position):
            if header.base_offset >= before:
                return
            yield header
