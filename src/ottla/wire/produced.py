"""What a batch from a producer must look like, as far as its header and its bytes tell; each fault has Kafka's code.

What depends on the topic, the clock (size, timestamps, keys) or the producer (epoch, sequence) is asked elsewhere.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode, Refused
from ottla.wire.batch_header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    crc_ok,
    read_header,
)
from ottla.wire.compression import Codec
from ottla.wire.malformed import Malformed

_MAGIC_AT = 16
_OLD_MAGICS = (0, 1)
_UNUSED_ATTRIBUTES = 0xFF80
_NOT_PLAIN = (_UNUSED_ATTRIBUTES | CODEC_MASK & ~0x3) | TRANSACTIONAL | CONTROL | DELETE_HORIZON
"""Codecs 4 to 7 are among it: the last of them do not exist."""


def check_produced(data: Bytes | None) -> BatchHeader:
    """The header of the one sound batch that `data` must be; raises Refused otherwise."""
    if data is None or not len(data):
        raise Refused(ErrorCode.INVALID_RECORD, "a partition without a record batch")
    try:
        header = read_header(data)
    except Malformed as fault:
        # Producers try again after CORRUPT_MESSAGE: it is for what a wire may have done, not for what they meant.
        is_meant = len(data) < HEADER_BYTES or data[_MAGIC_AT] in _OLD_MAGICS
        raise Refused(ErrorCode.INVALID_RECORD if is_meant else ErrorCode.CORRUPT_MESSAGE, str(fault)) from None
    size = header.size
    if size > len(data):
        raise Refused(ErrorCode.INVALID_RECORD, f"record batch of {size} bytes in {len(data)}")
    if size < len(data):
        raise Refused(ErrorCode.INVALID_RECORD, "more than one record batch in one partition")
    if not crc_ok(data, 0, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch does not fit")
    if not _is_plain(header):
        fault_found = _fault(header)
        if fault_found is not None:
            raise Refused(ErrorCode.INVALID_RECORD, fault_found)
    if header.attributes & LOG_APPEND_TIME:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "LogAppendTime is the broker's to set")
    if header.max_timestamp < -1 or header.base_timestamp < -1:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "a timestamp below -1")
    return header


def _is_plain(header: BatchHeader) -> bool:
    """Whether there is nothing to look at twice: most batches need no more than this."""
    count = header.record_count
    return (
        header.base_offset == 0
        and 0 < count == header.last_offset_delta + 1
        and header.attributes & _NOT_PLAIN == 0
        and (header.producer_id < 0 or (header.base_sequence >= 0 and header.producer_epoch >= 0))
    )


def _fault(header: BatchHeader) -> str | None:
    """What is wrong with a batch that is not as plain as nearly all are."""
    if header.base_offset != 0:
        return f"the base offset is {header.base_offset}, a producer's must be 0"
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
    if header.is_control:
        return "a control batch from a client"
    if header.has_delete_horizon or header.attributes & _UNUSED_ATTRIBUTES:
        return f"attributes {header.attributes:#06x} that a producer may not set"
    if header.codec > Codec.ZSTD:
        return f"compression codec {header.codec} does not exist"
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return f"producer {header.producer_id} without an epoch or a sequence number"
    if header.is_transactional and header.producer_id < 0:
        return "a transactional batch without a producer id"
    return None
