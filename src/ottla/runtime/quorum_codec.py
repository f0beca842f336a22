"""Metadata records as batches of a log or a snapshot, and back.

A snapshot is a file of batches like a segment's: first a header, then the quorum's own control records and the
metadata, last a footer, without which it is not whole (KIP-630).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ottla.base.limits import METADATA_RECORDS_PER_BATCH_MAX
from ottla.core.quorum.messages import Batch
from ottla.wire.batch import Record, decode_records, encode_batch
from ottla.wire.batch_header import BatchHeader, crc_ok, iter_headers
from ottla.wire.control import ControlType, decode_control_records, encode_control_batch
from ottla.wire.malformed import Malformed
from ottla.wire.primitives import Buffer, Message
from ottla.wire.state.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from ottla.wire.state.metadata_frame import decode_metadata_record, encode_metadata_record

KRAFT_VERSION = 1
"""Voters are named in the log with their directories (KIP-853), as `kafka-storage format --standalone` has it."""


@dataclass(frozen=True, slots=True)
class Voter:
    id: int
    directory_id: bytes
    endpoints: tuple[tuple[str, str, int], ...] = ()
    """Name, host and port of its listeners."""


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    records: list[object]
    voters: VotersRecord | None


def metadata_batch(records: Sequence[object], base_offset: int, epoch: int, now_ms: int) -> bytes:
    return encode_batch(
        [
            Record(base_offset + index, now_ms, None, encode_metadata_record(record))  # type: ignore[arg-type]
            for index, record in enumerate(records)
        ],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def leader_change_batch(
    leader_id: int, voters: Sequence[Voter], granting: Iterable[int], place: tuple[int, int], now_ms: int
) -> bytes:
    """`place` is base offset and epoch. Version 0: Apache's own tools read no other."""
    named = {voter.id: LeaderChangeMessageVoter(voter.id, voter.directory_id) for voter in voters}
    message = LeaderChangeMessage(
        version=0, leader_id=leader_id, voters=list(named.values()), granting_voters=[named[id] for id in granting]
    )
    base_offset, epoch = place
    return encode_control_batch(
        [(ControlType.LEADER_CHANGE, _encoded(message, 0))],
        timestamp_ms=now_ms,
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def voters_record(voters: Sequence[Voter]) -> VotersRecord:
    return VotersRecord(
        version=0,
        voters=[
            VotersRecordVoter(
                voter_id=voter.id,
                voter_directory_id=voter.directory_id,
                endpoints=[Endpoint(name, host, port) for name, host, port in voter.endpoints],
                k_raft_version_feature=KRaftVersionFeature(0, KRAFT_VERSION),
            )
            for voter in voters
        ],
    )


def batches_of(data: bytes) -> tuple[Batch, ...]:
    """Whole and sound batches, as the quorum passes them on; raises Malformed."""
    batches = []
    for at, header in iter_headers(data):
        if not crc_ok(data, at, header):
            raise Malformed(f"the checksum of the batch at offset {header.base_offset} is wrong")
        whole = data[at : at + header.size]
        batches.append(Batch(header.base_offset, header.next_offset, header.leader_epoch, whole))
    return tuple(batches)


def records_in(batch: bytes, header: BatchHeader) -> list[object]:
    """The metadata records of one batch; the quorum's control records are none."""
    if header.is_control:
        return []
    records: list[object] = []
    for record in decode_records(batch):
        if record.value is None:
            raise Malformed(f"a metadata record without a value at offset {record.offset}")
        records.append(decode_metadata_record(record.value))
    return records


def encode_snapshot(
    records: Iterable[object], voters: VotersRecord | None, epoch: int, contained_ms: int
) -> Iterator[bytes]:
    """The batches of a snapshot. `contained_ms` is the timestamp of the last record that it stands for."""
    offset = 0
    header = _encoded(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=contained_ms), 0)
    controls = [[(ControlType.SNAPSHOT_HEADER, header)]]
    if voters is not None:
        kraft = _encoded(KRaftVersionRecord(version=0, k_raft_version=KRAFT_VERSION), 0)
        controls.append([(ControlType.KRAFT_VERSION, kraft), (ControlType.KRAFT_VOTERS, _encoded(voters, 0))])
    for pairs in controls:
        yield encode_control_batch(pairs, timestamp_ms=contained_ms, base_offset=offset, leader_epoch=epoch)
        offset += len(pairs)
    left = iter(records)
    while chunk := list(islice(left, METADATA_RECORDS_PER_BATCH_MAX)):
        yield metadata_batch(chunk, offset, epoch, contained_ms)
        offset += len(chunk)
    footer = _encoded(SnapshotFooterRecord(version=0), 0)
    yield encode_control_batch(
        [(ControlType.SNAPSHOT_FOOTER, footer)], timestamp_ms=contained_ms, base_offset=offset, leader_epoch=epoch
    )


def decode_snapshot(data: bytes) -> SnapshotContent:
    """Raises Malformed unless the snapshot is whole, from header to footer."""
    records: list[object] = []
    voters: VotersRecord | None = None
    seen: list[int] = []
    for batch in batches_of(data):
        assert isinstance(batch.data, bytes)
        header = next(iter_headers(batch.data))[1]
        if not header.is_control:
            records += records_in(batch.data, header)
            continue
        for control in decode_control_records(batch.data):
            seen.append(control.type)
            if control.type == ControlType.KRAFT_VOTERS:
                voters, _ = VotersRecord.decode(memoryview(control.value), 0, 0)
    if not seen or seen[0] != ControlType.SNAPSHOT_HEADER or seen[-1] != ControlType.SNAPSHOT_FOOTER:
        raise Malformed("a snapshot that is cut off")
    return SnapshotContent(records, voters)


def _encoded(message: Message, version: int) -> bytes:
    out = Buffer()
    message.encode(out, version)
    return bytes(out)
