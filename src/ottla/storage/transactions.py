"""What the batches of a log mean for its producers and transactions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ottla.core.producers import CompletedTxn, ProducerTable
from ottla.storage.segment import Segment
from ottla.storage.txn_index import AbortedTransaction
from ottla.wire.batch_header import CONTROL, BatchHeader, Bytes
from ottla.wire.control import decode_end_txn_marker


def follow_batch(producers: ProducerTable, header: BatchHeader, base_offset: int, batch: Bytes) -> CompletedTxn | None:
    """Let the producers know of a batch of theirs that stands in the log; says which transaction it ends."""
    if not header.attributes & CONTROL:
        producers.apply(header, base_offset)
        return None
    marker = decode_end_txn_marker(batch)
    if marker is None:
        return None
    return producers.end_transaction(marker, base_offset, header.max_timestamp)


def note_completed(segment: Segment, completed: CompletedTxn | None) -> None:
    """Write an aborted transaction into the index of the segment that holds its marker."""
    if completed is not None and completed.is_aborted:
        segment.note_aborted(
            AbortedTransaction(
                completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
            )
        )


def aborted_transactions(segments: Sequence[Segment], from_offset: int, upto: int) -> list[AbortedTransaction]:
    """Those with data in [from_offset, upto). Their markers may lie further on, so later segments are asked as well."""
    found: list[AbortedTransaction] = []
    first = bisect_right(segments, from_offset, key=lambda segment: segment.base_offset) - 1
    for segment in segments[max(first, 0) :]:
        if not segment.has_aborted:
            continue
        for aborted in segment.txn_index.since(from_offset):
            if aborted.first_offset < upto:
                found.append(aborted)
            if aborted.last_stable_offset >= upto:
                return found
    return found


def replay(producers: ProducerTable, segments: Sequence[Segment], from_offset: int) -> None:
    """Let the producers know of everything from `from_offset` on. The indexes know of it already."""
    first = bisect_right(segments, from_offset, key=lambda segment: segment.base_offset) - 1
    for segment in segments[max(first, 0) :]:
        place = segment.find(from_offset)
        if place is None:
            continue
        for position, header in segment.batches(place.position):
            if header.producer_id >= 0:
                batch = segment.read(position, header.size) if header.is_control else b""
                follow_batch(producers, header, header.base_offset, batch)
