"""Compaction of single batches: which records stay, and what the batch looks like then. Bytes in, bytes out.

Offsets never change, nor do sequence numbers: a batch that loses records keeps its first and last offset, and a batch
that a live producer's state hangs on keeps at least its header. A batch that loses nothing stays the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.storage.compaction_map import OffsetMap, go_on, pausing, slots_of
from ottla.storage.txn_index import AbortedTransaction
from ottla.wire.batch import BatchHeader, Malformed, content_of
from ottla.wire.batch_header import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, Bytes, seal_batch
from ottla.wire.compression import compress
from ottla.wire.control import ControlType, decode_control_records
from ottla.wire.records import rebase_timestamp
from ottla.wire.scan import Content, record_bounds, scan_records, timestamp_delta

_TIMESTAMP_MAX = 2**63 - 1


class LastRecord(NamedTuple):
    """What the state of a live producer hangs on: its last data or, when that is None, the marker of its epoch."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class CleaningStats:
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    unreadable_batches: int = 0
    """Their checksum is sound and their content is not: what a client broke is kept as it is."""


class TransactionTrail:
    """Follows the transactions of a log from its start: which data were aborted, and which markers may go."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._has_data: set[int] = set()
        self.still_indexed: list[AbortedTransaction] = []
        """Aborted transactions of which batches were seen: they stay in the transaction index."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to a transaction that was aborted in the end."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        self._has_data.add(header.producer_id)
        aborted = self._aborted.get(header.producer_id)
        return aborted is not None and header.last_offset < aborted.last_offset

    def is_marker_spent(self, header: BatchHeader, batch: Bytes) -> bool:
        """Whether a control batch has nothing left in front of it that it would have to explain."""
        self._advance(header.last_offset)
        control_type = _control_type(batch, header)
        if control_type is None:
            return True
        if control_type not in (ControlType.ABORT, ControlType.COMMIT):
            return False
        had_data = header.producer_id in self._has_data
        self._has_data.discard(header.producer_id)
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is not None and had_data and control_type == ControlType.ABORT:
            self.still_indexed.append(aborted)
        return not had_data

    def take_indexed(self) -> list[AbortedTransaction]:
        taken, self.still_indexed = self.still_indexed, []
        return taken

    def _advance(self, offset: int) -> None:
        upcoming = self._upcoming
        while upcoming and upcoming[-1].first_offset <= offset:
            entry = upcoming.pop()
            self._aborted[entry.producer_id] = entry  # transactions of one producer follow one another


def _control_type(batch: Bytes, header: BatchHeader) -> int | None:
    """None for a batch that compaction has already emptied, -1 for one that nobody understands."""
    if not header.record_count:
        return None
    try:
        return decode_control_records(batch)[0].type
    except Malformed:
        return -1


@dataclass(slots=True)
class BatchFilter:
    """The rules of one round; `rewrite` is called with every batch of the log in order."""

    offsets: OffsetMap
    trail: TransactionTrail
    last_records: Mapping[int, LastRecord]
    """By producer id, as of the start of the round."""
    upper_bound_offset: int
    now_ms: int
    delete_retention_ms: int
    stats: CleaningStats = field(default_factory=CleaningStats)
    pause: Callable[[], None] = go_on
    """Called every few hundred records, so that others get a turn."""

    def needs_content(self, header: BatchHeader) -> bool:
        """Whether more than the header is needed; if not, `rewrite` takes the header for the batch."""
        if header.is_control or not header.record_count:
            return True
        if self.trail.is_aborted(header):
            return False
        return not self._is_mapped(header) or len(self.offsets.staying(header)) > 0

    def _is_mapped(self, header: BatchHeader) -> bool:
        return self.offsets.covers(header) and header.base_offset not in self.offsets.unreadable

    def rewrite(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        """What is left of the batch: itself, a smaller one, or nothing."""
        kept = self._rewrite(batch, header)
        self.stats.bytes_read += header.size
        self.stats.records_read += header.record_count
        if kept is not None:
            self.stats.bytes_written += header.size if kept is batch else len(kept)
        return kept

    def _rewrite(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        if header.is_control:
            return self._rewrite_marker(batch, header)
        if self.trail.is_aborted(header):
            return self._emptied(batch, header)
        if header.base_offset >= self.offsets.end_offset:
            self.stats.records_kept += header.record_count
            return batch  # the next round's business; the map ends between batches, so none is half in it
        try:
            return self._rewrite_data(batch, header)
        except Malformed:
            self.stats.unreadable_batches += 1
            self.stats.records_kept += header.record_count
            return batch

    def _rewrite_marker(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        is_spent = self.trail.is_marker_spent(header, batch)
        horizon_ms = header.delete_horizon_ms
        if not header.record_count or (is_spent and horizon_ms is not None and horizon_ms <= self.now_ms):
            return self._emptied(batch, header)
        self.stats.records_kept += header.record_count
        if is_spent and horizon_ms is None:
            content = content_of(batch, header)
            for _ in scan_records(content, header.record_count, header.last_offset_delta):
                pass  # raises if it is no sound one
            return self._rebuilt(header, content, range(header.record_count), needs_horizon=True)
        return batch

    def _rewrite_data(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        is_mapped, has_tombstones = self._is_mapped(header), True
        if is_mapped:
            staying = self.offsets.staying(header)
            has_tombstones = header.base_offset in self.offsets.with_tombstones
            if not staying:
                return self._emptied(batch, header)
            if len(staying) == header.record_count and not has_tombstones:
                self.stats.records_kept += header.record_count
                return batch
        content = content_of(batch, header)
        if is_mapped and not has_tombstones:
            kept = self._picked(content, header, staying)
        else:
            kept, has_tombstones = self._latest(content, header)
        if not kept:
            return self._emptied(batch, header)
        self.stats.records_kept += len(kept)
        needs_horizon = has_tombstones and not header.has_delete_horizon
        if len(kept) == header.record_count and not needs_horizon:
            return batch
        return self._rebuilt(header, content, kept, needs_horizon)

    def _picked(self, content: Content, header: BatchHeader, offsets: Sequence[int]) -> list[int]:
        """The records with these offsets, by their number in the batch."""
        base = header.base_offset
        if header.record_count == header.last_offset_delta + 1:  # none is missing
            return [offset - base for offset in offsets]
        wanted = set(offsets)
        deltas = (
            delta
            for part in pausing(scan_records(content, header.record_count, header.last_offset_delta), self.pause)
            for delta in part.deltas
        )
        return [number for number, delta in enumerate(deltas) if base + delta in wanted]

    def _latest(self, content: Content, header: BatchHeader) -> tuple[list[int], bool]:
        """The last record of each key, a tombstone only until its horizon; and whether there is a tombstone left."""
        find, base = self.offsets.latest.get, header.base_offset
        horizon_ms = header.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and horizon_ms <= self.now_ms
        kept: list[int] = []
        has_tombstones = False
        first = 0
        for part in scan_records(content, header.record_count, header.last_offset_delta):
            numbers = [
                number
                for number, (slot, delta) in enumerate(zip(slots_of(part.keys), part.deltas, strict=True), first)
                if slot is not None and find(slot, -1) <= base + delta
            ]
            if part.nulls:
                tombstones = {first + number for number in part.nulls}.intersection(numbers)
                if drops_tombstones:
                    numbers = [number for number in numbers if number not in tombstones]
                elif tombstones:
                    has_tombstones = True
            kept += numbers
            first += len(part.keys)
            self.pause()
        return kept, has_tombstones

    def _rebuilt(self, header: BatchHeader, content: Content, kept: Sequence[int], needs_horizon: bool) -> bytes:
        """The batch with these of its records; with a new horizon, their times are counted from that."""
        data, bounds = content.data, record_bounds(content, kept[-1] + 1)
        base_ms = self.now_ms + self.delete_retention_ms if needs_horizon else header.base_timestamp
        shift_ms = header.base_timestamp - base_ms
        deltas = [timestamp_delta(data, bounds[number]) for number in kept]
        records = [data[bounds[number] : bounds[number + 1]] for number in kept]
        if needs_horizon:
            records = [rebase_timestamp(raw, delta + shift_ms) for raw, delta in zip(records, deltas, strict=True)]
        latest_ms = header.base_timestamp + max(deltas)
        if latest_ms > _TIMESTAMP_MAX or header.base_timestamp + min(deltas) < -_TIMESTAMP_MAX:
            raise Malformed("a timestamp that does not fit into 64 bits")
        new = header._replace(
            attributes=header.attributes | DELETE_HORIZON if needs_horizon else header.attributes,
            base_timestamp=base_ms,
            max_timestamp=header.max_timestamp if header.is_log_append_time else latest_ms,
            record_count=len(kept),
        )
        return seal_batch(new, compress(header.codec, b"".join(records)))

    def _emptied(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        """Nothing; or the header alone where a producer's state or the end of the round hangs on it."""
        if not self._must_stay(header):
            return None
        if not header.record_count:
            return batch
        attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
        return seal_batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.next_offset == self.upper_bound_offset:
            return True
        last = self.last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch
