"""A process that appends to a log is killed at any moment; another one opens what it left."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.wire.batch import decode_records, iter_headers
from tests.unit.storage.batches import append, bases, batch, everything

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from pathlib import Path
from tests.crash.test_log_killed import opened
from tests.unit.storage.batches import append, batch
log = opened(Path(sys.argv[1]))
flushes = sys.argv[2] == "flush"
print(log.end_offset, flush=True)
while True:
    end = log.end_offset
    offset = append(log, batch(1, timestamp=end, size=50 + end % 400), epoch=end // 100)
    if flushes and offset % 20 == 0:
        log.flush()
    print(offset, flush=True)
"""


def opened(directory: Path) -> Log:
    return Log.open(LogPlace(directory, "t", 0), CONFIG, LogStart(), 0)


def kill_a_writer(directory: Path, lines: int, mode: str) -> int:
    """Run a writer until it has told of `lines` appends and kill it; returns the last offset it told of."""
    command = [sys.executable, "-c", WRITER, str(directory), mode]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert writer.stdout is not None
    first, last = int(writer.stdout.readline()), -1
    for _ in range(lines):
        last = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    for line in writer.stdout.read().split():
        last = int(line)
    assert writer.wait() == -signal.SIGKILL
    assert last >= first
    return last


def check(log: Log, acknowledged: int) -> None:
    """Everything acknowledged is there once and in order, and each record is what was appended at its offset."""
    data = everything(log)
    records = [r for at, header in iter_headers(data) for r in decode_records(data[at : at + header.size])]
    assert [record.offset for record in records] == list(range(log.end_offset))
    assert all(record.timestamp == record.offset for record in records)
    assert log.end_offset > acknowledged
    assert log.epochs.entries == [(epoch, epoch * 100) for epoch in range(-(-log.end_offset // 100))]
    for offset in range(0, log.end_offset, 37):
        found = log.offset_for_timestamp(offset)
        assert found is not None
        assert found.offset == offset


@pytest.mark.parametrize("mode", ["no flush", "flush"])
def test_a_killed_writer_leaves_every_acknowledged_record(tmp_path: Path, mode: str) -> None:
    random = Random(mode)
    for _ in range(6):
        acknowledged = kill_a_writer(tmp_path, random.randint(1, 300), mode)
        log = opened(tmp_path)
        check(log, acknowledged)
        log.close(clean=False)


def test_every_cut_of_the_last_batches_leaves_the_whole_ones(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in range(12):
        append(log, batch(1, timestamp=timestamp, size=20))
    log.close(clean=False)
    path = Path(log.active.path(".log"))
    data = path.read_bytes()
    ends = [at + header.size for at, header in iter_headers(data)]
    for size in range(ends[8], len(data) + 1):
        path.write_bytes(data[:size])
        log = opened(tmp_path)
        assert log.end_offset == sum(end <= size for end in ends)
        check(log, 8)
        log.close(clean=False)


def test_a_flipped_byte_of_a_batch_ends_the_log_in_front_of_it(tmp_path: Path) -> None:
    """Offset and epoch lie outside the checksum: a later offset passes for a gap of compaction, any epoch passes."""
    log = opened(tmp_path)
    for timestamp in range(4):
        append(log, batch(1, timestamp=timestamp, size=20))
    log.close(clean=False)
    path = Path(log.active.path(".log"))
    data = path.read_bytes()
    at, header = list(iter_headers(data))[2]
    for position in range(at, at + header.size):
        damaged = bytearray(data)
        damaged[position] ^= 0x80
        path.write_bytes(damaged)
        log = opened(tmp_path)
        is_offset, is_epoch = position < at + 8, at + 12 <= position < at + 16
        assert bases(log)[:2] == [0, 1]
        assert is_offset or log.end_offset == (4 if is_epoch else 2), position - at
        log.close(clean=False)


def test_a_full_file_system_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """EFBIG stands for ENOSPC here: the kernel lets the part of a write through that fits, and refuses the rest."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = Log.open(LogPlace(tmp_path, "t", 0), LogConfig(), LogStart(), 0)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
        with pytest.raises(OSError, match="too large") as refused:
            for timestamp in range(1000):
                append(log, batch(1, timestamp=timestamp, size=300))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert refused.value.errno == errno.EFBIG
    held = log.end_offset
    assert 20 < held < 40
    assert Path(log.active.path(".log")).stat().st_size == log.size
    assert append(log, batch(1, timestamp=held, size=300)) == held
    log.close(clean=False)
    log = opened(tmp_path)
    assert [header.base_offset for _, header in iter_headers(everything(log))] == list(range(held + 1))


def mount_small(directory: Path) -> bool:
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def test_a_full_disk_refuses_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    if not mount_small(disk):
        pytest.skip("may not mount a file system here")
    try:
        log = opened(disk)
        with pytest.raises(OSError, match="No space") as refused:
            for timestamp in range(10_000):
                append(log, batch(1, timestamp=timestamp, size=700), epoch=timestamp // 100)
        assert refused.value.errno == errno.ENOSPC
        held = log.end_offset
        check(log, held - 1)
        log.close(clean=False)
        (disk / "t-0" / f"{0:020d}.log").unlink()
        log = opened(disk)
        assert append(log, batch(1, timestamp=held, size=700), epoch=held // 100) == log.end_offset - 1 == held
        log.close(clean=False)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
