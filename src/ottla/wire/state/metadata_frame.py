"""How a record of `__cluster_metadata` becomes the value of a log record: three unsigned varints, then the message.

The varints are the frame's own version (1), the record's key and the record's version.
"""

from __future__ import annotations

from ottla.wire.primitives import Buffer, Malformed, Message, read_uvarint, write_uvarint
from ottla.wire.state.cluster_metadata import RECORDS, BrokerRegistrationChangeRecord, RegisterBrokerRecord

FRAME_VERSION = 1


def written_version(record: Message) -> int:
    """The newest version that every Kafka since 4.0 reads; a newer one only where the record needs it (KIP-1066)."""
    newest = max(record.WRITERS)
    if isinstance(record, (RegisterBrokerRecord, BrokerRegistrationChangeRecord)) and record.cordoned_log_dirs is None:
        return newest - 1
    return newest


def encode_metadata_record(record: Message, version: int | None = None) -> bytes:
    key = record.API_KEY
    if RECORDS.get(key) is not type(record):
        raise TypeError(f"{type(record).__name__} is no record of the metadata log")
    if version is None:
        version = written_version(record)
    out = Buffer()
    out.append(FRAME_VERSION)
    write_uvarint(out, key)
    write_uvarint(out, version)
    record.encode(out, version)
    return bytes(out)


def decode_metadata_record(value: bytes | memoryview) -> Message:
    """The record that `value` frames; anything unknown, short or long is Malformed: no guessing here."""
    buf = memoryview(value)
    try:
        frame_version, at = read_uvarint(buf, 0)
        key, at = read_uvarint(buf, at)
        version, at = read_uvarint(buf, at)
    except IndexError as broken:
        raise Malformed(f"a metadata record of {len(buf)} bytes has no whole frame") from broken
    if frame_version != FRAME_VERSION:
        raise Malformed(f"a metadata record has frame version {frame_version}, not {FRAME_VERSION}")
    record_class = RECORDS.get(key)
    if record_class is None:
        raise Malformed(f"a metadata record has the unknown key {key}")
    record, at = record_class.decode(buf, at, version)
    if at != len(buf):
        raise Malformed(f"{record_class.__name__} leaves {len(buf) - at} bytes behind")
    return record
