"""What a round of compaction knows of the dirty part of a log: the last offset of every key in it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

from ottla.wire.batch import BatchHeader, Malformed, content_of
from ottla.wire.batch_header import Bytes
from ottla.wire.scan import Part, scan_records

Slot: TypeAlias = bytes | int
"""What stands for a key in the map: a short key itself, or a long one's digest, as a number so that none is both."""

SHORT_KEY_BYTES = 32
ENTRY_BYTES = 192
"""Memory of one entry of the map, its objects counted, with keys of SHORT_KEY_BYTES; measured."""


_RUN = 16_384


def go_on() -> None:
    """Nobody else wants a turn."""


def slot_of(key: bytes) -> Slot:
    if len(key) <= SHORT_KEY_BYTES:
        return key
    return int.from_bytes(blake2b(key, digest_size=16).digest(), "big")


def slots_of(keys: list[bytes | None]) -> list[Slot | None]:
    """Those of a batch's keys, nearly always the keys themselves."""
    if max(map(len, filter(None, keys)), default=0) <= SHORT_KEY_BYTES:
        return keys  # type: ignore[return-value]
    return [None if key is None else slot_of(key) for key in keys]


class OffsetMap:
    """The last offset of every key in the dirty part of a log, as far as memory allows.

    Of a record in the part that is mapped the offset alone says whether it stays: no key is read twice.
    """

    def __init__(self, bytes_max: int, start_offset: int) -> None:
        self.latest: dict[Slot, int] = {}
        self.start_offset = start_offset
        self.end_offset = start_offset
        """Every record in front of this offset is in the map, from `start_offset` on."""
        self.with_tombstones: set[int] = set()
        """Base offsets of batches in which a record has no value."""
        self.unreadable: set[int] = set()
        """Base offsets of batches whose content is broken: none of their keys count, and they stay."""
        self.keyless_records = 0
        self._entries_max = max(bytes_max // ENTRY_BYTES, 1)
        self._staying: array[int] | None = None

    def add(self, batch: Bytes, header: BatchHeader, pause: Callable[[], None] = go_on) -> bool:
        """Take up the batch's keys; False when there is no room for them, which never happens to the first batch."""
        held = len(self.latest) + len(self.with_tombstones) + len(self.unreadable)
        if held and held + header.record_count > self._entries_max:
            return False
        try:
            content = content_of(batch, header)
            parts = list(pausing(scan_records(content, header.record_count, header.last_offset_delta), pause))
        except Malformed:
            self.unreadable.add(header.base_offset)
        else:
            for part in pausing(parts, pause):
                self._add_part(part, header)
        self.end_offset = max(self.end_offset, header.next_offset)
        self._staying = None
        return True

    def _add_part(self, part: Part, header: BatchHeader) -> None:
        base, latest = header.base_offset, self.latest
        slots = slots_of(part.keys)
        first, last = base + part.deltas[0], base + part.deltas[-1]
        offsets: Sequence[int] = range(first, last + 1)
        if len(offsets) != len(slots):  # deltas rise: with none missing there are as many as numbers in between
            offsets = [base + delta for delta in part.deltas]
        if first < self.start_offset:
            begin = bisect_left(offsets, self.start_offset)
            slots, offsets = slots[begin:], offsets[begin:]
        latest.update(zip(slots, offsets, strict=True))  # type: ignore[arg-type]
        if latest.pop(None, None) is not None:  # type: ignore[call-overload]
            self.keyless_records += slots.count(None)
        if part.nulls:
            self.with_tombstones.add(base)

    def skip_to(self, offset: int) -> None:
        """What lies in front of `offset` has no keys: control batches, aborted data, a gap."""
        self.end_offset = max(self.end_offset, offset)

    def covers(self, header: BatchHeader) -> bool:
        """Whether every record of this batch that was to be mapped is."""
        return self.start_offset <= header.base_offset and header.next_offset <= self.end_offset

    def staying(self, header: BatchHeader) -> array[int]:
        """The offsets of the records of a covered batch that are the last ones of their keys."""
        begin, end = self._staying_between(header.base_offset, header.next_offset)
        return self._every_staying()[begin:end]

    def count_staying(self, base_offset: int, end_offset: int) -> int:
        begin, end = self._staying_between(base_offset, end_offset)
        return end - begin

    def _staying_between(self, base_offset: int, end_offset: int) -> tuple[int, int]:
        every = self._every_staying()
        begin = bisect_left(every, base_offset)
        return begin, bisect_left(every, end_offset, begin)

    def settle(self, pause: Callable[[], None] = go_on) -> None:
        """Once all keys are in: put the offsets that stay in order, in steps that nobody has to wait for."""
        self._staying = array("q", _in_order(list(self.latest.values()), pause))

    def _every_staying(self) -> array[int]:
        if self._staying is None:
            self.settle()
        assert self._staying is not None
        return self._staying


def _in_order(numbers: list[int], pause: Callable[[], None]) -> list[int]:
    """Sorted; to sort a full map at once would keep the interpreter for a quarter of a second."""
    runs = []
    for start in range(0, len(numbers), _RUN):
        runs.append(sorted(numbers[start : start + _RUN]))
        pause()
    while len(runs) > 1:
        merged = []
        for pair in zip(runs[::2], runs[1::2], strict=False):
            merged.append(sorted(pair[0] + pair[1]))  # sorting two runs is no more than merging them
            pause()
        runs = merged + runs[len(merged) * 2 :]
    return runs[0] if runs else []


def pausing(parts: Iterable[Part], pause: Callable[[], None]) -> Iterator[Part]:
    for part in parts:
        yield part
        pause()
