"""Room is made on a disk that has none: old segments go, and the log's start moves."""

import errno
import os
from pathlib import Path

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.files import Bytes, Files, Handle
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.storage.retention import apply_retention
from tests.unit.storage.batches import append, batch

CONFIG = LogConfig(segment_bytes=400, retention_ms=-1)


class FullDisk(Files):
    """Nothing can be written once it is full; names can be changed and removed."""

    is_full = False

    def write(self, path: str, data: Bytes) -> None:
        self._refuse()
        super().write(path, data)

    def write_atomically(self, path: str, data: Bytes, sync: bool = True) -> None:
        self._refuse()
        super().write_atomically(path, data, sync)

    def open(self, path: str, create: bool = False) -> Handle:
        if create:
            self._refuse()
        return super().open(path, create)

    def _refuse(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def log(tmp_path: Path, disk: FullDisk) -> Log:
    log = Log.open(LogPlace(tmp_path, "t", 0), CONFIG, LogStart(), 0, disk)
    for number in range(12):
        append(log, batch(1, timestamp=number, size=100), epoch=number)
    assert len(log.segments) > 3
    disk.is_full = True
    return log


def files_of(log: Log) -> set[str]:
    return {path.name for path in Path(log.place.path).glob("*.log")}


def test_records_are_deleted_on_a_full_disk(log: Log) -> None:
    log.advance_start(5)
    assert log.start_offset == 5
    assert apply_retention(log, log.end_offset, 0).paths
    assert files_of(log) == {f"{segment.base_offset:020d}.log" for segment in log.segments}


def test_retention_keeps_the_active_segment_as_long_as_there_is_no_room_for_another(log: Log, disk: FullDisk) -> None:
    log.config = LogConfig(segment_bytes=400, retention_ms=-1, retention_bytes=0)
    apply_retention(log, log.end_offset, 0)
    assert [segment.base_offset for segment in log.segments] == [log.active.base_offset]
    assert log.active.size and log.start_offset == log.active.base_offset
    assert files_of(log) == {f"{log.active.base_offset:020d}.log"}
    disk.is_full = False
    apply_retention(log, log.end_offset, 0)
    assert log.size == 0
    assert log.start_offset == log.end_offset == 12


def test_epochs_that_could_not_be_written_are_written_at_the_end(log: Log, disk: FullDisk, tmp_path: Path) -> None:
    log.advance_start(5)
    disk.is_full = False
    entries = list(log.epochs.entries)
    log.close()
    again = Log.open(LogPlace(tmp_path, "t", 0), CONFIG, LogStart(clean=True, log_start_offset=5), 0)
    assert list(again.epochs.entries) == entries
    assert f"{entries[0].epoch} 5" in (Path(log.place.path) / "leader-epoch-checkpoint").read_text()
