"""The files of a compaction: reading the batches of finished segments, writing a draft, swapping it in.

A crash leaves `.cleaned` files, which start-up removes, or a whole `.swap`, which takes the place of what it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.storage.files import Files
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, Segment
from ottla.storage.swap import CLEANED, DELETED, SWAP
from ottla.wire.batch_header import HEADER_BYTES, BatchHeader, Bytes, crc_ok, read_header
from ottla.wire.malformed import Malformed

READ_BYTES = 1024 * 1024
LARGE_BYTES = 64 * 1024
"""A batch from this size on is read by itself, and its bytes are taken as they come."""
HEADERS_BYTES = 4096
"""Read behind a batch that was stepped over: its neighbour's header may be all that is needed."""
WRITE_BYTES = 1024 * 1024


class Uncleanable(Exception):
    """The log holds something that is no sound batch; it stays as it is until someone has looked at it."""


def _always(_: BatchHeader) -> bool:
    return True


def read_batches(
    segment: Segment,
    size: int,
    progress: Callable[[], None],
    needs_content: Callable[[BatchHeader], bool] = _always,
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch in the first `size` bytes, its checksum verified; something may follow it in the bytes given.

    One whose content nobody needs comes as its header alone, and what would be read for nothing else is not read.
    """
    position, want = 0, READ_BYTES
    while position < size:
        asked = min(want, size - position)
        window = segment.file.handle().pread(asked, position)
        if len(window) < max(asked, HEADER_BYTES):
            raise Uncleanable(f"{segment.path(LOG)} ends within the batch at {position}")
        at, want = 0, READ_BYTES
        while len(window) - at >= HEADER_BYTES:
            header = _header_at(segment, window, at, position, size)
            if not needs_content(header):
                progress()
                yield header, window[at : at + HEADER_BYTES]
            elif header.size > len(window) - at:
                # With the header behind it, so that the next one can be read in the same way.
                want = READ_BYTES if header.size < LARGE_BYTES else header.size + HEADER_BYTES
                break
            elif crc_ok(window, at, header):
                progress()
                yield header, window if not at and header.size >= LARGE_BYTES else window[at : at + header.size]
            else:
                raise Uncleanable(f"{segment.path(LOG)} at {position + at}: the checksum of the batch does not fit")
            at += header.size
        if at > len(window):
            want = HEADERS_BYTES  # the next one's content may not be needed either
        position += at


def _header_at(segment: Segment, window: bytes, at: int, position: int, size: int) -> BatchHeader:
    try:
        header = read_header(window, at)
    except Malformed as error:
        raise Uncleanable(f"{segment.path(LOG)} at {position + at}: {error}") from error
    if header.size > size - position - at:
        raise Uncleanable(f"{segment.path(LOG)} ends within the batch at {position + at}")
    return header


class DraftSegment(Segment):
    """A segment under another name, until it takes the place of those that it was made from."""

    __slots__ = ()

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED


class DraftWriter:
    """Writes a draft in large pieces, and its indexes with it."""

    def __init__(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self.draft = DraftSegment.create(files, directory, base_offset, 0)
        self._interval_bytes = index_interval_bytes
        self._parts: list[Bytes] = []
        self._headers: list[BatchHeader] = []
        self._waiting_bytes = 0

    def add(self, batch: Bytes, header: BatchHeader) -> None:
        self._parts.append(batch if len(batch) == header.size else memoryview(batch)[: header.size])
        self._headers.append(header)
        self._waiting_bytes += header.size
        if self._waiting_bytes >= WRITE_BYTES:
            self.write_out()

    def write_out(self) -> None:
        draft = self.draft
        position = draft.write(b"".join(self._parts))
        for header in self._headers:
            draft.make_room_in_indexes()
            draft.note_batch(position, header.size, header.last_offset, header.max_timestamp, self._interval_bytes)
            position += header.size
        self._parts, self._headers, self._waiting_bytes = [], [], 0

    def finish(self, modified_ms: int) -> Segment:
        """All on disk, names included. Ageing goes on from where the sources were, hence `modified_ms`."""
        self.write_out()
        draft = self.draft
        draft.finish()
        draft.files.set_modified_ms(draft.path(LOG), modified_ms)
        draft.sync()
        draft.files.sync_directory(draft.directory)
        draft.close()
        return draft


def swap_in(draft: Segment, sources: Sequence[Segment]) -> tuple[Segment, list[str]]:
    """Give the draft the place of its sources on disk; returns it as a segment, and the paths of what may be deleted.

    The order matters at start-up: as long as a `.cleaned` is there nothing has happened, and with a `.swap` of the log
    there is no other file in its range that counts. A few renames: meant for the thread that appends.
    """
    files, sizes = draft.files, _sizes(draft)
    final = {suffix: Segment.path(draft, suffix) for suffix in sizes}
    for suffix in sizes:
        files.rename(draft.path(suffix), final[suffix] + SWAP)
    removed = [path for segment in sources for path in segment.rename(DELETED)]
    for suffix in sizes:
        files.rename(final[suffix] + SWAP, final[suffix])
    segment = Segment.existing(files, draft.directory, draft.base_offset, sizes)
    segment.is_synced = True
    return segment, removed


def _sizes(segment: Segment) -> dict[str, int]:
    """The log stands first: once it has its name, the indexes follow it whatever happens."""
    sizes = {
        LOG: segment.size,
        INDEX: segment.offsets.stored * OFFSET_ENTRY.size,
        TIME_INDEX: segment.times.stored * TIME_ENTRY.size,
    }
    if segment.has_aborted:
        sizes[TXN_INDEX] = 1
    return sizes
