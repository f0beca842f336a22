"""Names of files under way: `.deleted` will go, `.cleaned` is being written, `.swap` is whole and is to take its place.

A crash may fall between any two renames; `finish_interrupted` brings the directory to one side or the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.files import Entry, Files
from ottla.storage.segment import LOG, SUFFIXES, Segment

DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
_NAME_DIGITS = 20


def offset_in(name: str, suffix: str) -> int | None:
    """The offset that a file of this kind is named after; None if it is of another kind."""
    if len(name) == _NAME_DIGITS + len(suffix) and name.endswith(suffix):
        digits = name[:_NAME_DIGITS]
        if digits.isascii() and digits.isdigit():
            return int(digits)
    return None


def finish_interrupted(files: Files, directory: str, entries: list[Entry]) -> list[Entry]:
    """Delete or complete what a compaction or deletion left unfinished; returns the files as they are then."""
    names = [entry.name for entry in entries]
    if not any(name.endswith((DELETED, CLEANED, SWAP)) for name in names):
        return entries
    for name in names:
        if name.endswith(DELETED):
            files.unlink(f"{directory}/{name}")
    _drop_unfinished(files, directory, names)
    _take_over(files, directory)
    return files.entries(directory)


def _base_offset(name: str) -> int:
    digits = name[:_NAME_DIGITS]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


def _drop_unfinished(files: Files, directory: str, names: Iterable[str]) -> None:
    """A compaction that was still writing has replaced nothing; its earlier part is dropped with it."""
    cleaned = [name for name in names if name.endswith(CLEANED)]
    lowest = min(map(_base_offset, cleaned), default=None)
    for name in names:
        if lowest is not None and name.endswith(SWAP) and _base_offset(name) >= lowest:
            files.unlink(f"{directory}/{name}")
    for name in cleaned:
        files.unlink(f"{directory}/{name}")


def _take_over(files: Files, directory: str) -> None:
    """Put what was swapped in the place of the segments whose offsets it covers."""
    names = [entry.name for entry in files.entries(directory)]
    sizes = {entry.name: entry.size for entry in files.entries(directory)}
    swapped = [name for name in names if name.endswith(SWAP)]
    logs = [name for name in swapped if offset_in(name, LOG + SWAP) is not None]
    if logs:
        begin = min(map(_base_offset, logs))
        end = max(_end_offset(files, directory, name, sizes[name]) for name in logs)
        for name in names:
            is_regular = any(offset_in(name, suffix) is not None for suffix in SUFFIXES)
            if is_regular and begin <= _base_offset(name) < end:
                files.unlink(f"{directory}/{name}")
    for name in swapped:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _end_offset(files: Files, directory: str, name: str, size: int) -> int:
    segment = Segment(files, directory, _base_offset(name))
    segment.file = files.lazy(f"{directory}/{name}")
    segment.size = size
    end_offset = segment.base_offset
    for _, header in segment.batches():
        end_offset = header.next_offset
    return end_offset
