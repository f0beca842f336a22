"""Checkpoints: small text files of a version, a count and one entry a line, replaced as a whole.

A file that does not say what its count promises is refused, so that a torn one never passes for a short one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ottla.base.types import Epoch, Offset, TopicName, TopicPartition
from ottla.core.replication.epochs import EpochEntry
from ottla.storage.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

_VERSION = "0"


class BadCheckpoint(ValueError):
    """A checkpoint file that is cut off or says something else than its kind of file says."""


def checkpoint_text(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode("utf-8")


def checkpoint_lines(data: bytes, columns: int) -> list[list[str]]:
    """The entries, each of `columns` words."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadCheckpoint("not a text") from error
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise BadCheckpoint(f"its first line is not version {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    if _number(lines[1]) != len(entries):
        raise BadCheckpoint(f"{len(entries)} entries where {lines[1][:20]!r} are promised")
    if any(len(entry) != columns for entry in entries):
        raise BadCheckpoint(f"an entry that has not {columns} words")
    return entries


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadCheckpoint(f"{text[:40]!r} where a number belongs") from error


class OffsetCheckpoint:
    """One offset for each partition of a log directory."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files

    def read(self) -> dict[TopicPartition, Offset]:
        """Raises BadCheckpoint; a missing file says nothing about any partition."""
        if not self._files.exists(str(self.path)):
            return {}
        offsets = {}
        for topic, partition, offset in checkpoint_lines(self._files.read(str(self.path)), 3):
            offsets[TopicPartition(TopicName(topic), _number(partition))] = Offset(_number(offset))
        return offsets

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        self._files.write_atomically(str(self.path), checkpoint_text(lines))


def encode_epochs(entries: Sequence[EpochEntry]) -> bytes:
    return checkpoint_text(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[EpochEntry]:
    """Raises BadCheckpoint, also when epochs or offsets do not rise."""
    entries = [EpochEntry(Epoch(_number(epoch)), Offset(_number(start))) for epoch, start in checkpoint_lines(data, 2)]
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise BadCheckpoint(f"epoch {after.epoch} from {after.start_offset} on does not follow {before}")
    return entries
