"""Which batches of a fetch a reader gets to see: by offset, by what a transaction came to, by what is whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ottla.wire.batch_header import HEADER_BYTES, BatchHeader, Bytes, crc_ok, iter_headers
from ottla.wire.control import decode_end_txn_marker
from ottla.wire.malformed import Malformed

_OFFSET_MAX = 2**63 - 1


class BadBatch(Malformed):
    """A batch that cannot be read, with its place in the log."""

    def __init__(self, where: str, offset: int, why: str) -> None:
        super().__init__(f"{where}: the batch at offset {offset} is malformed: {why}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one answer to a fetch says of one partition.

    `aborted` are the pairs (producer id, first offset) of a `read_committed` answer; without that isolation it is None,
    and every transaction is seen, however it ended.
    """

    topic: str
    partition: int
    records: Bytes
    aborted: Iterable[tuple[int, int]] | None = None

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Window:
    """The offsets that are wanted: from `start` up to and without `end`."""

    start: int = 0
    end: int = _OFFSET_MAX


ALL_OFFSETS = Window()


@dataclass(frozen=True, slots=True)
class SeenBatch:
    at: int
    header: BatchHeader
    is_visible: bool


def seen_batches(fetched: Fetched, window: Window, *, check_crcs: bool = True) -> Iterator[SeenBatch]:
    """The whole batches in front of the window's end, in order; a last one that is cut off is not among them.

    An aborted transaction is known from its first offset on, until its marker: the producer may begin another one.
    """
    waiting = sorted(fetched.aborted or (), key=lambda pair: pair[1], reverse=True)
    aborted: set[int] = set()
    for at, header in _headers(fetched):
        _check(fetched, at, header, check_crcs)
        if header.base_offset >= window.end:
            return
        while waiting and waiting[-1][1] <= header.last_offset:
            aborted.add(waiting.pop()[0])
        if header.is_control:
            if header.producer_id in aborted and _is_abort(fetched, at, header):
                aborted.discard(header.producer_id)
            is_visible = False
        else:
            is_visible = not (header.is_transactional and header.producer_id in aborted)
        is_empty = header.record_count == 0 and header.size == HEADER_BYTES
        yield SeenBatch(at, header, is_visible and not is_empty and header.last_offset >= window.start)


def _headers(fetched: Fetched) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_headers(fetched.records)
    except Malformed as fault:
        raise Malformed(f"{fetched.where}: {fault}") from None


def _check(fetched: Fetched, at: int, header: BatchHeader, check_crcs: bool) -> None:
    if check_crcs and not crc_ok(fetched.records, at, header):
        raise BadBatch(fetched.where, header.base_offset, "its checksum does not fit")
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset >= _OFFSET_MAX:
        raise BadBatch(fetched.where, header.base_offset, f"it ends at offset {header.last_offset}")


def _is_abort(fetched: Fetched, at: int, header: BatchHeader) -> bool:
    try:
        marker = decode_end_txn_marker(memoryview(fetched.records)[at : at + header.size])
    except Malformed as fault:
        raise BadBatch(fetched.where, header.base_offset, str(fault)) from None
    return marker is not None and not marker.committed
