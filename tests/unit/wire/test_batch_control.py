"""Control batches: transaction markers and the quorum's records."""

import struct

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.wire.batch import Malformed, Record, crc_ok, decode_records, read_header
from ottla.wire.batch import ProducerStamp as Stamp
from ottla.wire.batch import encode_control_records as encode_raw
from ottla.wire.control import (
    ControlType,
    EndTxnMarker,
    decode_control_records,
    decode_end_txn_marker,
    encode_control_batch,
    encode_end_txn_marker,
)

NOW = 1_700_000_000_000


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_comes_back_and_other_clients_know_it(committed: bool) -> None:
    marker = EndTxnMarker(producer_id=4000, producer_epoch=7, committed=committed, coordinator_epoch=12)
    batch = encode_end_txn_marker(marker, timestamp_ms=NOW)
    header = read_header(batch)
    assert crc_ok(batch, 0, header)
    assert header.is_control and header.is_transactional
    assert (header.record_count, header.base_sequence, header.leader_epoch) == (1, -1, -1)
    assert decode_end_txn_marker(batch) == marker
    (record,) = decode_records(batch)
    assert record.value == struct.pack(">hi", 0, 12)
    assert ControlRecord.parse(record.key) == (COMMIT_MARKER if committed else ABORT_MARKER)


def test_a_quorum_batch_may_hold_several_records_of_any_type() -> None:
    batch = encode_control_batch(
        [(ControlType.SNAPSHOT_HEADER, b"head"), (ControlType.KRAFT_VERSION, b"v"), (99, b"")],
        timestamp_ms=NOW,
        base_offset=5,
        leader_epoch=2,
    )
    header = read_header(batch)
    assert header.is_control and not header.is_transactional
    assert (header.producer_id, header.leader_epoch, header.next_offset) == (-1, 2, 8)
    assert [(c.offset, c.type, c.value) for c in decode_control_records(batch)] == [
        (5, ControlType.SNAPSHOT_HEADER, b"head"),
        (6, ControlType.KRAFT_VERSION, b"v"),
        (7, 99, b""),
    ]
    assert decode_end_txn_marker(batch) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_a_control_record_without_version_and_type_is_malformed(key: bytes | None) -> None:
    with pytest.raises(Malformed):
        decode_control_records(encode_raw([Record(0, NOW, key, b"")], producer=Stamp(1, 0, -1, True)))


def test_a_marker_without_a_coordinator_epoch_is_malformed() -> None:
    batch = encode_raw([Record(0, NOW, struct.pack(">hh", 0, 1), b"\0\0")], producer=Stamp(1, 0, -1, True))
    with pytest.raises(Malformed):
        decode_end_txn_marker(batch)
