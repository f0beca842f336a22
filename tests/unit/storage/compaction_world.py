"""A log that is compacted, beside a model that says what must be left of it, and a file system that stops working."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.base.topic_settings import LogConfig
from ottla.storage.compaction import MAP_BYTES, Cleaning, clean, survey
from ottla.storage.files import Bytes, Files, Handle
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.wire.batch import NO_STAMP, ProducerStamp, Record, crc_ok, decode_records, encode_batch, iter_headers
from ottla.wire.batch import read_header as header_of
from ottla.wire.control import EndTxnMarker, encode_end_txn_marker

NOW = 1_700_000_000_000
Pairs = Sequence[tuple[bytes | None, bytes | None]]


@contextmanager
def directory() -> Iterator[Path]:
    """For each example of a property its own."""
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def compacted(**settings: Any) -> LogConfig:
    defaults: dict[str, Any] = {"cleanup_policy": ("compact",), "segment_bytes": 1000, "index_interval_bytes": 100}
    return LogConfig(**(defaults | settings))


def open_log(directory: Path, config: LogConfig, files: Files | None = None, recovery_point: int = 0) -> Log:
    start = LogStart(clean=False, recovery_point=recovery_point, log_start_offset=0)
    return Log.open(LogPlace(directory, "topic", 0), config, start, NOW, files or MortalFiles())


def append(log: Log, pairs: Pairs, codec: int = 0, producer: ProducerStamp = NO_STAMP, timestamp: int = NOW) -> None:
    records = [Record(i, timestamp, key, value) for i, (key, value) in enumerate(pairs)]
    batch = bytearray(encode_batch(records, codec=codec, producer=producer))
    log.append(batch, header_of(batch), 0, NOW)


def filled(log: Log, rounds: int = 30, keys: int = 5) -> None:
    """Batches of three records, keys in turn."""
    for i in range(rounds):
        append(log, [(b"key%d" % ((3 * i + j) % keys), b"value %d" % (3 * i + j)) for j in range(3)])


def append_marker(log: Log, producer_id: int, committed: bool, epoch: int = 0) -> None:
    batch = bytearray(encode_end_txn_marker(EndTxnMarker(producer_id, epoch, committed, 1), timestamp_ms=NOW))
    log.append(batch, header_of(batch), 0, NOW)
    log.producers.advance_high_watermark(log.end_offset)


def batches(log: Log, offset: int = 0) -> list[bytes]:
    """All batches from `offset` on, as a consumer fetches them: a little at a time."""
    found: list[bytes] = []
    offset = max(offset, log.start_offset)
    while offset < log.end_offset:
        data = log.read(offset, 300, log.end_offset, True).read()
        if not data:
            break  # nothing but gaps up to the end
        for at, header in iter_headers(data):
            assert crc_ok(data, at, header)
            assert header.next_offset > offset
            found.append(data[at : at + header.size])
            offset = header.next_offset
    return found


def records(log: Log, offset: int = 0, control: bool = False) -> list[Record]:
    return [
        record
        for batch in batches(log, offset)
        if header_of(batch).is_control == control
        for record in decode_records(batch)
        if record.offset >= offset
    ]


def stable_offset(log: Log) -> int:
    first = log.producers.first_unstable_offset
    return log.end_offset if first is None else first


def begin(log: Log, checkpoint: int | None = None, now_ms: int = NOW, map_bytes: int = MAP_BYTES) -> Cleaning:
    plan = survey(log, checkpoint, stable_offset(log), now_ms)
    return Cleaning(log, plan, now_ms, map_bytes=map_bytes)


def compact(log: Log, checkpoint: int | None = None, now_ms: int = NOW, map_bytes: int = MAP_BYTES) -> Cleaning:
    cleaning = begin(log, checkpoint, now_ms, map_bytes)
    for path in clean(cleaning):
        log.active.files.unlink(path)
    return cleaning


@dataclass
class Model:
    """What must be left: the last record of each key in front of the clean end, and all behind it."""

    delete_retention_ms: int
    records: list[Record] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)
    """Of tombstones, by offset."""

    def compact(self, end_offset: int, now_ms: int) -> None:
        last = {record.key: record.offset for record in self.records if record.offset < end_offset}
        self.records = [record for record in self.records if self._stays(record, last, end_offset, now_ms)]
        for record in self.records:
            if record.value is None and record.offset < end_offset:
                self.horizons.setdefault(record.offset, now_ms + self.delete_retention_ms)

    def _stays(self, record: Record, last: dict[bytes | None, int], end_offset: int, now_ms: int) -> bool:
        if record.offset >= end_offset:
            return True
        if record.key is None or last[record.key] != record.offset:
            return False
        return record.value is not None or now_ms < self.horizons.get(record.offset, now_ms + 1)


class Killed(BaseException):
    """The process is no more: what it would have done next does not happen."""


class MortalFiles(Files):
    """A file system under a process that dies when it has changed something `lives` times.

    Nothing is forced to the disk: it is the process that dies here, not the machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.lives: int | None = None

    def change(self) -> None:
        if self.lives is not None and self.changes >= self.lives:
            raise Killed
        self.changes += 1

    def open(self, path: str, create: bool = False) -> Handle:
        if create:
            self.change()
        plain = super().open(path, create)
        return MortalHandle(plain.fd, self, plain)

    def sync_directory(self, path: str) -> None:
        self.change()


class MortalHandle(Handle):
    def __init__(self, fd: int, files: MortalFiles, keeper: Handle) -> None:
        super().__init__(fd)
        self._files = files
        self._keeper = keeper

    def __del__(self) -> None:
        """The plain handle closes the descriptor."""

    def pwrite(self, data: Bytes, position: int) -> int:
        self._files.change()
        return super().pwrite(data, position)

    def truncate(self, size: int) -> None:
        self._files.change()
        super().truncate(size)

    def fsync(self) -> None:
        self._files.change()


def _mortal(name: str) -> Callable[..., None]:
    def method(self: MortalFiles, *arguments: Any) -> None:
        self.change()
        getattr(Files, name)(self, *arguments)

    return method


for _name in ("rename", "unlink", "set_modified_ms"):
    setattr(MortalFiles, _name, _mortal(_name))
