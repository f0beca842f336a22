"""The disk fails at any operation of an append, a roll or a flush: nothing is lost, nothing half-written is seen."""

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.files import SyncFailed
from ottla.storage.log import FlushFailed, Log, LogPlace, LogStart
from ottla.storage.retention import remove_segments
from ottla.wire.batch import ProducerStamp
from ottla.wire.control import EndTxnMarker
from tests.unit.storage.batches import append, append_marker, bases, batch, everything
from tests.unit.storage.faults import FaultyFiles

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=100)
OPERATIONS_MAX = 40


class Bench:
    """A log on a faulty disk, and what it must hold."""

    def __init__(self, directory: Path) -> None:
        self.files = FaultyFiles()
        self.place = LogPlace(directory, "t", 0)
        self.log = self.opened()
        self.sequence = self.count = 0

    def opened(self, *, clean: bool = False, recovery_point: int = 0) -> Log:
        return Log.open(self.place, CONFIG, LogStart(clean, recovery_point), 0, self.files)

    def append(self) -> None:
        epoch = self.count // 3
        data = batch(2, timestamp=self.count, size=80, stamp=ProducerStamp(1, 0, self.sequence))
        append(self.log, data, epoch=epoch)
        self.sequence += 2
        self.count += 1

    def expect(self, content: bytes) -> None:
        assert everything(self.log) == content
        assert self.log.end_offset == self.sequence
        producer = self.log.producers.get(1)
        assert (producer.last_sequence if producer else -1) == self.sequence - 1


def armed(bench: Bench, number: int, *, is_lasting: bool, is_short: bool) -> Iterator[int]:
    """Let the first operation fail, then the second, … until an append passes without using up that many."""
    for fail_at in range(1, OPERATIONS_MAX):
        bench.files.faults.arm(fail_at, number, is_lasting=is_lasting, is_short=is_short)
        yield fail_at
        if len(bench.files.faults.done) < fail_at:
            return
    pytest.fail("an append takes more operations than expected")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("is_lasting", [False, True])
@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("already", range(1, 9))
def test_an_append_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, number: int, is_lasting: bool, is_short: bool, already: int
) -> None:
    bench = Bench(tmp_path)
    failures = 0
    for _ in range(already):
        bench.append()
    for _ in armed(bench, number, is_lasting=is_lasting, is_short=is_short):
        content, bases_before = everything_without_faults(bench), bench.count
        try:
            bench.append()
        except OSError as error:
            failures += 1
            assert error.errno == number
            bench.files.faults.disarm()
            bench.expect(content)
            assert bench.count == bases_before
    assert failures
    bench.files.faults.disarm()
    bench.append()
    content = everything(bench.log)
    bench.log.close(clean=False)
    bench.log = bench.opened()
    bench.expect(content)


def everything_without_faults(bench: Bench) -> bytes:
    faults = bench.files.faults
    fail_at, faults.fail_at = faults.fail_at, 0
    content = everything(bench.log)
    faults.done.clear()
    faults.fail_at = fail_at
    return content


def test_the_fault_test_reaches_every_kind_of_operation(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.files.faults.arm(0, 0)
    for _ in range(12):
        bench.append()
    assert {"pwrite", "open .log", "open .index", "open .snapshot", "rename"} <= set(bench.files.faults.done)


def test_after_a_full_disk_a_clean_stop_still_leaves_a_clean_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(4):
        bench.append()
    bench.files.faults.arm(1, errno.ENOSPC, is_lasting=True, is_short=True)
    with pytest.raises(OSError, match="No space"):
        bench.append()
    bench.files.faults.disarm()
    content = everything(bench.log)
    bench.log.close()
    bench.log = bench.opened(clean=True)
    assert not bench.log.has_recovered
    bench.expect(content)


def test_an_aborted_transaction_is_not_lost_to_a_full_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    append(bench.log, batch(2, stamp=ProducerStamp(9, 0, 0, True)))
    bench.files.faults.arm(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        append_marker(bench.log, EndTxnMarker(9, 0, False, 0))
    bench.files.faults.disarm()
    assert bench.log.producers.first_unstable_offset == 0
    append_marker(bench.log, EndTxnMarker(9, 0, False, 0))
    assert [aborted[:3] for aborted in bench.log.aborted_transactions(0, 10)] == [(9, 0, 2)]


def fail_fsync(bench: Bench) -> None:
    faults = bench.files.faults
    faults.arm(0, errno.EIO)
    original: Callable[[str], bool] = faults.is_due
    faults.is_due = lambda what: original(what) or what == "fsync"  # type: ignore[method-assign]


def test_a_failed_fsync_is_never_tried_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append()
    fail_fsync(bench)
    with pytest.raises(SyncFailed):
        bench.log.flush()
    del bench.files.faults.is_due
    bench.append()
    with pytest.raises(FlushFailed):
        bench.log.flush()
    with pytest.raises(FlushFailed):
        bench.log.close()
    assert bench.log.recovery_point == 0


def test_a_flush_beside_a_truncation_promises_nothing_about_what_was_cut(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(3):
        bench.append()
    original = bench.files.sync_directory

    def truncate_meanwhile(path: str) -> None:
        bench.files.sync_directory = original  # type: ignore[method-assign]
        bench.log.truncate_to(2)
        append(bench.log, batch(4))

    bench.files.sync_directory = truncate_meanwhile  # type: ignore[method-assign]
    bench.log.flush()
    assert bench.log.recovery_point <= 2


@pytest.mark.parametrize("seed", range(60))
def test_what_was_flushed_survives_a_power_cut(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    bench = Bench(tmp_path)
    flushed, flushed_content = 0, b""
    for _ in range(random.randint(1, 25)):
        bench.append()
        if random.random() < 0.2:
            bench.log.flush()
            flushed, flushed_content = bench.log.end_offset, everything(bench.log)
    content = everything(bench.log)
    # The checkpoint of recovery points is written now and then, so it may say less than is true.
    checkpointed = random.choice([0, bench.log.recovery_point])
    bench.log.close(clean=False)
    bench.files.cut_power(tmp_path, random)
    bench.log = bench.opened(recovery_point=checkpointed)
    survived = everything(bench.log)
    assert survived.startswith(flushed_content)
    assert content.startswith(survived)
    assert bench.log.end_offset >= flushed
    assert [entry.epoch for entry in bench.log.epochs.entries] == list(range(-(-len(bases(bench.log)) // 3)))


def test_the_power_cut_does_cut(tmp_path: Path) -> None:
    lost = 0
    for seed in range(10):
        bench = Bench(tmp_path / str(seed))
        for _ in range(5):
            bench.append()
        bench.log.close(clean=False)
        bench.files.cut_power(tmp_path / str(seed), Random(seed))
        bench.log = bench.opened()
        lost += bench.log.end_offset < 10
    assert lost >= 5


def test_flushes_in_a_thread_get_along_with_appends_rolls_truncations_and_deletions(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stop, flushes = threading.Event(), 0

    def flush_again_and_again() -> int:
        nonlocal flushes
        while not stop.is_set():
            bench.log.flush()
            bench.log.flush_rolled()
            flushes += 1
        return flushes

    random = Random(1)
    with ThreadPoolExecutor(1) as pool:
        flushing = pool.submit(flush_again_and_again)
        while (len(bases(bench.log)) < 300 or flushes < 20) and not flushing.done():
            append(bench.log, batch(2, size=80), epoch=0)
            if random.random() < 0.05:
                bench.log.truncate_to(max(bench.log.end_offset - 6, bench.log.start_offset))
            if random.random() < 0.02:
                remove_segments(bench.log, bench.log.segments[:1], 0)
            assert bench.log.recovery_point <= bench.log.end_offset
        stop.set()
        assert flushing.result() >= 20
    bench.log.flush()
    assert bench.log.recovery_point == bench.log.end_offset
