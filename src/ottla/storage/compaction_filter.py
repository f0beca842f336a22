"""Compaction of single batches: which records stay, and what the batch looks like then. Bytes in, bytes out.

Offsets never change, nor do sequence numbers: a batch that loses records keeps its first and last offset, and a batch
that a live producer's state hangs on keeps at least its header. A batch that loses nothing stays the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from ottla.storage.txn_index import AbortedTransaction
from ottla.wire.batch import BatchHeader, Malformed, batch_payload, split_batch
from ottla.wire.batch_header import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, Bytes, seal_batch
from ottla.wire.compression import compress
from ottla.wire.control import ControlType, decode_control_records
from ottla.wire.records import RawRecord, rebase_timestamp, split_records

Slot: TypeAlias = bytes | int
"""What stands for a key in the map: a short key itself, or a long one's digest, as a number so that none is both."""

SHORT_KEY_BYTES = 32
ENTRY_BYTES = 176
"""Memory of one entry of the map, its objects counted, with keys of SHORT_KEY_BYTES; measured."""

_TIMESTAMP_MAX = 2**63 - 1


def slot_of(key: bytes) -> Slot:
    if len(key) <= SHORT_KEY_BYTES:
        return key
    return int.from_bytes(blake2b(key, digest_size=16).digest(), "big")


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
    keyless_records: int = 0
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


class OffsetMap:
    """The last offset of every key in the dirty part of a log, as far as memory allows."""

    def __init__(self, bytes_max: int, start_offset: int) -> None:
        self.latest: dict[Slot, int] = {}
        self.end_offset = start_offset
        """Every record in front of this offset is in the map, from `start_offset` on."""
        self._start_offset = start_offset
        self._entries_max = max(bytes_max // ENTRY_BYTES, 1)

    def add(self, batch: Bytes, header: BatchHeader) -> bool:
        """Take up the batch's keys; False when there is no room for them, which never happens to the first batch."""
        latest, base = self.latest, header.base_offset
        if latest and len(latest) + header.record_count > self._entries_max:
            return False
        start_delta = self._start_offset - base
        with suppress(Malformed):  # then none of its keys count; the filter keeps the batch, and counts it
            latest.update(
                {
                    (key if len(key) <= SHORT_KEY_BYTES else slot_of(key)): base + delta
                    for _, delta, key, _, _, _, _ in split_batch(batch, header)
                    if key is not None and delta >= start_delta
                }
            )
        self.end_offset = max(self.end_offset, header.next_offset)
        return True

    def skip_to(self, offset: int) -> None:
        """What lies in front of `offset` has no keys: control batches, aborted data, a gap."""
        self.end_offset = max(self.end_offset, offset)


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

    def rewrite(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        """What is left of the batch: itself, a smaller one, or nothing."""
        kept = self._rewrite(batch, header)
        self.stats.bytes_read += header.size
        self.stats.records_read += header.record_count
        self.stats.bytes_written += len(kept) if kept is not None else 0
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
            data = batch_payload(batch, header)
            raws = list(split_records(data, header.record_count, header.last_offset_delta))
            return self._rebuilt(header, data, raws, needs_horizon=True)
        return batch

    def _rewrite_data(self, batch: Bytes, header: BatchHeader) -> Bytes | None:
        data = batch_payload(batch, header)
        raws = split_records(data, header.record_count, header.last_offset_delta)
        kept = self._kept(raws, header)
        if not kept:
            return self._emptied(batch, header)
        needs_horizon = not header.has_delete_horizon and any(raw[3] is None for raw in kept)
        if len(kept) == header.record_count and not needs_horizon:
            rewritten = batch
        else:
            rewritten = self._rebuilt(header, data, kept, needs_horizon)
        self.stats.records_kept += len(kept)
        return rewritten

    def _kept(self, raws: Iterable[RawRecord], header: BatchHeader) -> list[RawRecord]:
        """The last record of each key; a tombstone only until its horizon."""
        latest, base = self.offsets.latest, header.base_offset
        horizon_ms = header.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and horizon_ms <= self.now_ms
        kept = []
        for raw in raws:
            key = raw[2]
            if key is None:
                self.stats.keyless_records += 1
                continue
            slot = key if len(key) <= SHORT_KEY_BYTES else slot_of(key)
            if latest.get(slot, -1) <= base + raw[1] and not (drops_tombstones and raw[3] is None):
                kept.append(raw)
        return kept

    def _rebuilt(self, header: BatchHeader, data: bytes, kept: Sequence[RawRecord], needs_horizon: bool) -> bytes:
        """The batch with these of its records; with a new horizon, their times are counted from that."""
        base_ms = self.now_ms + self.delete_retention_ms if needs_horizon else header.base_timestamp
        shift_ms = header.base_timestamp - base_ms
        if needs_horizon:
            payload = b"".join([rebase_timestamp(data[raw[5] : raw[6]], raw[0] + shift_ms) for raw in kept])
        else:
            payload = b"".join([data[raw[5] : raw[6]] for raw in kept])
        deltas = [raw[0] for raw in kept]
        latest_ms = header.base_timestamp + max(deltas)
        if latest_ms > _TIMESTAMP_MAX or header.base_timestamp + min(deltas) < -_TIMESTAMP_MAX:
            raise Malformed("a timestamp that does not fit into 64 bits")
        new = header._replace(
            attributes=header.attributes | DELETE_HORIZON if needs_horizon else header.attributes,
            base_timestamp=base_ms,
            max_timestamp=header.max_timestamp if header.is_log_append_time else latest_ms,
            record_count=len(kept),
        )
        return seal_batch(new, compress(header.codec, payload))

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
