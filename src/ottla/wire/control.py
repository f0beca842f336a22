"""Control batches: what brokers write into logs for one another, between the clients' records.

Transactions end with a marker, ABORT or COMMIT; the quorum writes the other types into its own log and snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.wire.batch import (
    NO_STAMP,
    ProducerStamp,
    Record,
    decode_records,
    encode_control_records,
    read_header,
)
from ottla.wire.batch_header import Bytes
from ottla.wire.malformed import Malformed

_KEY = Struct(">hh")
_END_TXN = Struct(">hi")
_CONTROL_BYTES_MAX = 1024 * 1024


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """`type` is a plain number, since a newer writer may know types that we have to pass over."""

    offset: int
    timestamp: int
    type: int
    value: bytes


class EndTxnMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


def encode_control_batch(
    records: Sequence[tuple[int, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: ProducerStamp = NO_STAMP,
) -> bytes:
    """A control batch of (type, value) pairs; in partitions there is always one."""
    return encode_control_records(
        [
            Record(base_offset + index, timestamp_ms, _KEY.pack(0, control_type), value)
            for index, (control_type, value) in enumerate(records)
        ],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer=producer,
    )


def encode_end_txn_marker(marker: EndTxnMarker, *, timestamp_ms: int) -> bytes:
    """The batch that ends a transaction in one partition; the leader gives it its offset."""
    control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return encode_control_batch(
        [(control_type, _END_TXN.pack(0, marker.coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        producer=ProducerStamp(marker.producer_id, marker.producer_epoch, -1, is_transactional=True),
    )


def decode_control_records(batch: Bytes) -> list[ControlRecord]:
    controls = []
    for record in decode_records(batch, _CONTROL_BYTES_MAX):
        if record.key is None or len(record.key) < _KEY.size:
            raise Malformed("a control record whose key is not a version and a type")
        version, control_type = _KEY.unpack_from(record.key)
        if version < 0:
            raise Malformed(f"a control record of version {version}")
        controls.append(ControlRecord(record.offset, record.timestamp, control_type, record.value or b""))
    return controls


def decode_end_txn_marker(batch: Bytes) -> EndTxnMarker | None:
    """The marker in a control batch; None when it is of another kind, or emptied by compaction."""
    header = read_header(batch)
    for control in decode_control_records(batch):
        if control.type in (ControlType.ABORT, ControlType.COMMIT):
            if len(control.value) < _END_TXN.size:
                raise Malformed("a transaction marker without a coordinator epoch")
            _, coordinator_epoch = _END_TXN.unpack_from(control.value)
            committed = control.type == ControlType.COMMIT
            return EndTxnMarker(header.producer_id, header.producer_epoch, committed, coordinator_epoch)
    return None
