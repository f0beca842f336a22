"""What was sent, what was promised, what was seen: and whether a log keeps to it.

A value says who wrote it (writer), the how-manyth it is (number), and carries a checksum of all its bytes. The laws:
an acknowledged record is where the acknowledgement said; every record is there once at most; a writer's records
stand in the order of their numbers; nothing is there that nobody sent; what a consumer saw stays as it was.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ottla.wire.batch import decode_records

_HEAD = Struct(">IQI")
_STAMP = Struct(">IQ")
_PATTERN = bytes(range(256)) * 64
VALUE_BYTES_MIN = _HEAD.size


class Stamp(NamedTuple):
    writer: int
    number: int


class Stored(NamedTuple):
    offset: int
    stamp: Stamp
    key: bytes | None


def _crc(stamp: Stamp, filler: bytes) -> int:
    return crc32(filler, crc32(_STAMP.pack(*stamp)))


def sealed_value(stamp: Stamp, size: int) -> bytes:
    filler = _PATTERN[stamp.number % 251 :][: max(0, size - VALUE_BYTES_MIN)]
    return _HEAD.pack(*stamp, _crc(stamp, filler)) + filler


def stamp_in(value: bytes) -> Stamp:
    writer, number, crc = _HEAD.unpack_from(value)
    stamp = Stamp(writer, number)
    assert _crc(stamp, value[VALUE_BYTES_MIN:]) == crc, f"{stamp} has another content than was sent"
    return stamp


def stored_in(batches: Iterable[bytes | memoryview]) -> list[Stored]:
    """The records in these batches, in the order in which they stand."""
    found = []
    for batch in batches:
        for record in decode_records(batch):
            assert record.value is not None
            found.append(Stored(record.offset, stamp_in(record.value), record.key))
    return found


@dataclass
class Ledger:
    """Of one partition. Writers and readers fill it from their threads."""

    name: str
    is_compacted: bool = False
    acked: dict[int, Stamp] = field(default_factory=dict)
    """By offset."""
    numbers_sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By writer: one more than the largest number that may be anywhere."""
    seen: dict[int, Stamp] = field(default_factory=dict)
    """By offset, what consumers got."""
    keys: dict[int, bytes | None] = field(default_factory=dict)
    """The key of every acknowledged record by offset, where there are keys."""
    start_offset: int = 0
    """Where the log was seen, or promised, to begin at least."""
    faults: list[str] = field(default_factory=list)
    """What writers and readers noticed on their way."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_acked(self, base_offset: int, stamps: Iterable[Stamp], keys: Iterable[bytes | None] = ()) -> None:
        with self._lock:
            for offset, stamp in enumerate(stamps, base_offset):
                known = self.acked.setdefault(offset, stamp)
                if known != stamp:
                    self.faults.append(f"{self.name}: offset {offset} acknowledged for {known} and for {stamp}")
            self.keys.update(enumerate(keys, base_offset))

    def note_seen(self, stored: Iterable[Stored]) -> None:
        with self._lock:
            for record in stored:
                known = self.seen.setdefault(record.offset, record.stamp)
                if known != record.stamp:
                    self.faults.append(f"{self.name}: offset {record.offset} was {known}, then {record.stamp}")

    def note_fault(self, what: str) -> None:
        with self._lock:
            self.faults.append(f"{self.name}: {what}")

    # --- the laws

    def check(self, stored: list[Stored], start_offset: int) -> None:
        """`stored` is the whole log from `start_offset` on."""
        assert not self.faults, self.faults[:5]
        assert start_offset >= self.start_offset, f"{self.name}: log start fell from {self.start_offset}"
        self.start_offset = start_offset
        self._check_order(stored, start_offset)
        by_offset = {record.offset: record.stamp for record in stored}
        if self.is_compacted:
            self._check_compacted(stored, by_offset)
        else:
            self._check_whole(by_offset, start_offset)

    def _check_order(self, stored: list[Stored], start_offset: int) -> None:
        last_numbers: dict[int, int] = {}
        expected = start_offset
        for record in stored:
            writer, number = record.stamp
            if record.offset < start_offset:
                continue  # the front of the batch in which the log starts
            fault = f"{self.name}: {record} "
            assert record.offset == expected or (self.is_compacted and record.offset > expected), fault + str(expected)
            expected = record.offset + 1
            assert number < self.numbers_sent[writer], fault + "was never sent"
            assert number > last_numbers.get(writer, -1), fault + f"stands behind {last_numbers.get(writer)}"
            last_numbers[writer] = number

    def _check_whole(self, by_offset: dict[int, Stamp], start_offset: int) -> None:
        for what, known in (("acknowledged", self.acked), ("seen", self.seen)):
            wrong = {o: s for o, s in known.items() if o >= start_offset and by_offset.get(o) != s}
            sample = [(o, s, by_offset.get(o)) for o, s in sorted(wrong.items())[:5]]
            assert not wrong, f"{self.name}: {len(wrong)} of {len(known)} {what} are lost or changed: {sample}"

    def _check_compacted(self, stored: list[Stored], by_offset: dict[int, Stamp]) -> None:
        """Of each key the last acknowledged record is there, or a later one; what is there is what was sent."""
        promised = {stamp: offset for offset, stamp in self.acked.items()}
        for offset, stamp in by_offset.items():
            assert promised.get(stamp, offset) == offset, f"{self.name}: {stamp} is at {offset}, not {promised[stamp]}"
            assert self.acked.get(offset, stamp) == stamp and self.seen.get(offset, stamp) == stamp, offset
        last_of_key: dict[bytes | None, int] = {}
        for offset, key in self.keys.items():
            last_of_key[key] = max(offset, last_of_key.get(key, -1))
        there: dict[bytes | None, int] = {}
        for record in stored:
            there[record.key] = record.offset
        lost = {key: (o, there.get(key)) for key, o in last_of_key.items() if there.get(key, -1) < o}
        assert not lost, f"{self.name}: the last record of {len(lost)} keys is gone: {sorted(lost.items())[:5]}"
