"""Finding a record by its timestamp. Records are read in the one batch that holds the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.storage.segment import Segment
from ottla.wire.batch import decode_records
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


def _find_record(batch: bytes, header: BatchHeader, timestamp: int, start_offset: int) -> TimedOffset | None:
    for record in decode_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def max_timestamp_offset(segments: Sequence[Segment], start_offset: int) -> TimedOffset | None:
    """The first record that has the largest timestamp of all."""
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    if latest.max_timestamp < 0:
        return None
    place = latest.find(latest.max_timestamp_offset)
    if place is None or place.last_offset < start_offset:
        return offset_for_timestamp(segments, latest.max_timestamp, start_offset)
    batch = latest.read(place.position, place.size)
    header = next(latest.batches(place.position))[1]
    return _find_record(batch, header, header.max_timestamp, start_offset)
