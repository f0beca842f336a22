"""A partition's directory as it lies on disk, read by no code of the node: what a recovery may keep, byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import crc32c

_HEADER = struct.Struct(">qiibIhi")
_HEADER_BYTES = 61


class Found(NamedTuple):
    base_offset: int
    last_offset: int
    position: int
    size: int


def segment_files(partition: Path) -> list[Path]:
    """The log files, in order."""
    return sorted(path for path in partition.glob("*.log") if len(path.stem) == 20 and path.stem.isdigit())


def batches_in(data: bytes, expected: int) -> tuple[list[Found], bool]:
    """The sound batches at the start of a segment, and whether they fill it. `expected` is the lowest next offset."""
    found, at = [], 0
    while at + _HEADER_BYTES <= len(data):
        base, length, _, magic, crc, _, delta = _HEADER.unpack_from(data, at)
        end = at + 12 + length
        if magic != 2 or length < _HEADER_BYTES - 12 or end > len(data) or base < expected or delta < 0:
            break
        if crc32c.crc32c(data[at + 21 : end]) != crc:
            break
        found.append(Found(base, base + delta, at, end - at))
        expected, at = base + delta + 1, end
    return found, at == len(data)


def sound_prefix(partition: Path) -> list[bytes]:
    """Every batch up to the first that is torn or wrong, across segments."""
    kept, expected = [], 0
    for path in segment_files(partition):
        data = path.read_bytes()
        if int(path.stem) < expected:
            break
        found, is_whole = batches_in(data, max(expected, int(path.stem)))
        kept += [data[one.position : one.position + one.size] for one in found]
        expected = found[-1].last_offset + 1 if found else expected
        if not is_whole:
            break
    return kept
