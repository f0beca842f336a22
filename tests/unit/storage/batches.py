"""Batches for tests of storage, and a short way to append them."""

from collections.abc import Sequence

from ottla.storage.log import Log
from ottla.wire.batch import BatchHeader, ProducerStamp, encode_batch, iter_headers, new_records, read_header
from ottla.wire.control import EndTxnMarker, encode_end_txn_marker

NO_STAMP = ProducerStamp()


def batch(count: int = 1, *, timestamp: int = 0, size: int = 10, stamp: ProducerStamp = NO_STAMP) -> bytearray:
    """A batch as a producer sends it; every value holds `size` bytes that name its timestamp."""
    value = (b"%d|" % timestamp).ljust(size, b"v")
    return bytearray(encode_batch(new_records([(b"k", value)] * count, timestamp), producer=stamp))


def append(log: Log, data: bytearray, *, epoch: int = 0, now_ms: int = 0) -> int:
    return log.append(memoryview(data), read_header(data), epoch, now_ms)


def append_marker(log: Log, marker: EndTxnMarker, *, timestamp: int = 0) -> int:
    return append(log, bytearray(encode_end_txn_marker(marker, timestamp_ms=timestamp)))


def headers(data: bytes) -> Sequence[BatchHeader]:
    found = list(iter_headers(data))
    assert sum(header.size for _, header in found) == len(data), "not whole batches"
    return [header for _, header in found]


def everything(log: Log) -> bytes:
    """All batches from the log's start on."""
    parts, offset = [], log.start_offset
    while offset < log.end_offset:
        part = log.read(offset, 1 << 20, log.end_offset).read()
        if not part:
            break
        parts.append(part)
        offset = headers(part)[-1].next_offset
    return b"".join(parts)


def bases(log: Log) -> list[int]:
    return [header.base_offset for header in headers(everything(log))]
