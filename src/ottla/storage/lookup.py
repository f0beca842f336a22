"""Finding a record by its timestamp. Records are read in the one batch that holds the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.storage.segment import Segment
from ottla.wire.batch import Malformed, Record, decode_records
from ottla.wire.batch_header import BatchHeader


class TimedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(segments: Sequence[Segment], timestamp: int, start_offset: int) -> TimedOffset | None:
    """The first record whose offset is `start_offset` or more and whose timestamp is `timestamp` or more."""
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            found = _find_in(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _find_in(segment: Segment, timestamp: int, start_offset: int) -> TimedOffset | None:
    earlier = segment.times.floor(0, timestamp - 1)
    from_offset = max(earlier[1] + segment.base_offset if earlier else segment.base_offset, start_offset)
    place = segment.find(from_offset)
    if place is None:
        return None
    for position, header in segment.batches(place.position):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _find_record(segment.read(position, header.size), header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _records(batch: bytes, header: BatchHeader) -> list[Record]:
    """A batch whose sender broke its content, under a sound checksum, stands for one record: as its header has it."""
    try:
        return decode_records(batch)
    except Malformed:
        return [Record(header.last_offset, header.max_timestamp, None, None)]


def _find_record(batch: bytes, header: BatchHeader, timestamp: int, start_offset: int) -> TimedOffset | None:
    for record in _records(batch, header):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def max_timestamp_offset(segments: Sequence[Segment], start_offset: int) -> TimedOffset | None:
    """The first record that has the largest timestamp of all at or behind `start_offset`."""
    best: TimedOffset | None = None
    for segment in segments:
        if segment.max_timestamp > (best.timestamp if best else -1):
            found = _largest_in(segment, start_offset)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
    return best


def _largest_in(segment: Segment, start_offset: int) -> TimedOffset | None:
    place = segment.find(segment.max_timestamp_offset)
    if place is None or place.base_offset < start_offset:
        return _largest_behind(segment, start_offset)
    header = next(segment.batches(place.position))[1]
    found = _find_record(segment.read(place.position, place.size), header, header.max_timestamp, start_offset)
    return found or _largest_behind(segment, start_offset)


def _largest_behind(segment: Segment, start_offset: int) -> TimedOffset | None:
    """The same where the index does not help: the record that it means has been deleted, or compacted away."""
    best: TimedOffset | None = None
    place = segment.find(start_offset)
    for position, header in segment.batches(place.position) if place else ():
        if header.max_timestamp > (best.timestamp if best else -1):
            records = _records(segment.read(position, header.size), header)
            kept = [record for record in records if record.offset >= start_offset]
            largest = max(kept, key=lambda record: (record.timestamp, -record.offset), default=None)
            if largest is not None and (best is None or largest.timestamp > best.timestamp):
                best = TimedOffset(largest.timestamp, largest.offset, header.leader_epoch)
    return best
