import errno
import gc
import os
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.topic_settings import LogConfig
from ottla.storage.files import Files
from ottla.storage.index import PENDING_BYTES_MAX
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.wire.batch import ProducerStamp, decode_records, iter_headers, patch_offsets, read_header
from ottla.wire.control import EndTxnMarker, encode_control_batch
from tests.unit.storage.batches import append, append_marker, bases, batch, everything, headers

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def opened(directory: Path, config: LogConfig = SMALL, *, clean: bool = False, recovery_point: int = 0) -> Log:
    return Log.open(LogPlace(directory, "t", 0), config, LogStart(clean, recovery_point), 0)


def names(directory: Path, suffix: str) -> list[int]:
    return sorted(int(path.stem) for path in (directory / "t-0").glob("*" + suffix))


def open_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


# --- append


def test_offset_and_epoch_are_patched_into_the_senders_memory_and_the_checksum_still_fits(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(3))
    data = batch(2)
    assert append(log, data, epoch=7) == 3
    assert log.read(3, 1000, 5).read() == bytes(data)
    assert (read_header(data).base_offset, read_header(data).leader_epoch) == (3, 7)
    assert [record.offset for record in decode_records(data)] == [3, 4]


def test_read_only_memory_is_taken_too(tmp_path: Path) -> None:
    log = opened(tmp_path)
    data = bytes(batch(2))
    log.append(memoryview(data), read_header(data), 4, 0)
    log.append(data, read_header(data), 4, 0)
    assert [(header.base_offset, header.leader_epoch) for header in headers(everything(log))] == [(0, 4), (2, 4)]
    assert read_header(data).leader_epoch == -1


def test_a_segment_is_rolled_when_the_next_batch_does_not_fit(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(5):
        append(log, batch(size=200))
    assert names(tmp_path, ".log") == [0, 3]
    assert all(segment.size <= 1000 for segment in log.segments)


def test_a_segment_is_rolled_when_its_first_record_is_too_old(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_ms=100))
    for timestamp in (1000, 1100, 1101, 1300):
        append(log, batch(timestamp=timestamp))
    assert names(tmp_path, ".log") == [0, 2, 3]


def test_without_timestamps_the_wall_clock_rolls(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(segment_ms=100))
    for now_ms in (0, 100, 101):
        append(log, batch(timestamp=-1), now_ms=now_ms)
    assert names(tmp_path, ".log") == [0, 2]


def test_a_segment_is_rolled_when_its_index_is_full(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=4 * 8))
    for timestamp in range(7):
        append(log, batch(timestamp=timestamp))
    assert names(tmp_path, ".log")[:2] == [0, 2]  # two entries of 12 bytes fit into 32, one of them is kept free


def test_a_segment_is_rolled_before_offsets_outgrow_its_index(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch())
    far = batch(2)
    patch_offsets(far, 0, 2**31 - 2, 0)
    log.append_as_follower(far, 0)
    assert names(tmp_path, ".log") == [0]
    log.append_as_follower(_at(2**31), 0)
    assert names(tmp_path, ".log") == [0, 2**31]
    assert bases(log) == [0, 2**31 - 2, 2**31]


def _at(offset: int, epoch: int = 0) -> bytearray:
    data = batch()
    patch_offsets(data, 0, offset, epoch)
    return data


def test_a_roll_leaves_a_snapshot_of_the_producers_and_whole_indexes(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(2, stamp=ProducerStamp(1, 0, 0)))
    log.roll(0)
    assert names(tmp_path, ".snapshot") == [2]
    assert log.roll(0) is log.active
    assert names(tmp_path, ".log") == [0, 2]
    assert (tmp_path / "t-0" / "00000000000000000000.timeindex").stat().st_size == 12


@pytest.mark.parametrize("flaw", ["order", "checksum", "magic", "marker"])
def test_a_follower_refuses_what_is_no_row_of_sound_batches(tmp_path: Path, flaw: str) -> None:
    log = opened(tmp_path)
    append(log, batch(3))
    good, bad = _at(3), _at(4)
    if flaw == "order":
        bad = _at(3)
    elif flaw == "checksum":
        bad[-1] ^= 1
    elif flaw == "magic":
        bad[16] = 3
    elif flaw == "marker":
        stamp = ProducerStamp(1, 0, -1, True)
        bad = bytearray(encode_control_batch([(0, b"")], timestamp_ms=0, base_offset=4, producer=stamp))
    with pytest.raises(Refused) as refused:
        log.append_as_follower(good + bad, 0)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (log.end_offset, bases(log)) == (3, [0])


def test_a_follower_leaves_out_a_last_batch_that_is_cut_off(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append_as_follower(_at(0) + _at(1)[:-1], 0)
    assert (log.end_offset, bases(log)) == (1, [0])
    log.append_as_follower(_at(1)[:40], 0)
    assert log.end_offset == 1


def test_a_follower_takes_over_the_epochs_that_the_batches_carry_and_keeps_them(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append_as_follower(_at(0, 2) + _at(1, 2) + _at(2, 5), 0)
    assert log.epochs.entries == [(2, 0), (5, 2)]
    log.close()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n2 0\n5 2\n"


# --- read


@pytest.mark.parametrize("offset", [-1, 7, 2**62])
def test_reading_outside_the_log_is_refused(tmp_path: Path, offset: int) -> None:
    log = opened(tmp_path)
    append(log, batch(6))
    with pytest.raises(Refused) as refused:
        log.read(offset, 100, 6)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(6, 100, 6) == ()


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(2))
    slices = log.read(0, 1000, 2)
    content = everything(log)
    log.truncate_fully_and_start_at(10)
    log.close(clean=False)
    assert names(tmp_path, ".log") == [10]
    assert os.pread(slices[0].file.fd, slices[0].size, slices[0].position) == content


def test_a_descriptor_is_closed_with_its_last_slice(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(2))
    slices = log.read(0, 1000, 2)
    fd = slices[0].file.fd
    log.close(clean=False)
    os.fstat(fd)
    del slices
    gc.collect()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_many_logs_share_few_descriptors(tmp_path: Path) -> None:
    files = Files(open_max=10)
    logs = [Log.open(LogPlace(tmp_path, "t", number), SMALL, LogStart(), 0, files) for number in range(40)]
    before = open_descriptors()
    for number, log in enumerate(logs):
        append(log, batch(timestamp=number))
    assert open_descriptors() <= before + 10
    for number, log in enumerate(logs):
        assert read_header(everything(log)).max_timestamp == number


def test_a_file_in_use_stays_open_while_others_come_and_go(tmp_path: Path) -> None:
    files = Files(open_max=4)
    lazy = [files.lazy(str(tmp_path / str(number))) for number in range(20)]
    for file in lazy:
        files.create(file.path)
    handle = lazy[0].handle()
    for file in lazy[1:]:
        file.handle()
        assert lazy[0].handle() is handle
    assert sum(file.is_open for file in lazy) <= 4


def test_where_descriptors_run_out_fewer_files_are_held_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(open_max=100)
    lazy = [files.lazy(str(tmp_path / str(number))) for number in range(40)]
    for file in lazy:
        files.create(file.path)
    really_open = os.open

    def open_if_there_is_one_left(path: str, flags: int, mode: int = 0o777) -> int:
        if sum(file.is_open for file in lazy) >= 10:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_if_there_is_one_left)
    for file in lazy:
        file.handle()
    assert lazy[-1].is_open
    assert files.read(lazy[0].path) == b""
    for file in lazy:
        file.close()
    assert len([file.handle() for file in lazy[:10]]) == 10


def test_index_entries_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(index_interval_bytes=0))
    for timestamp in range(500):
        append(log, batch(timestamp=timestamp))
        assert len(log.active.offsets.pending) <= PENDING_BYTES_MAX
    assert log.active.offsets.count == 499


def test_a_read_goes_on_in_the_next_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(6):
        append(log, batch(size=300))
    assert len(log.segments) == 3
    assert bases(log) == list(range(6))
    assert log.read(1, 10_000, 6).size == log.segments[0].size // 2


def test_a_catching_up_reader_gets_whole_batches_that_fill_what_it_asked_for(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(index_interval_bytes=300))
    size = len(batch())
    for timestamp in range(1000):
        append(log, batch(timestamp=10_000 + timestamp))
    for offset in range(1000):
        assert log.read(offset, size, 1000).read()[:8] == offset.to_bytes(8, "big")
    for offset in (0, 1, 17, 500):
        assert log.read(offset, 10 * size + size // 2, 1000).size == pytest.approx(10 * size, abs=size)
        assert [h.base_offset for h in headers(log.read(offset, 1 << 20, offset + 3).read())] == [
            offset, offset + 1, offset + 2,
        ]  # fmt: skip


# --- time


def test_a_time_is_found_across_segments_and_out_of_order(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in (50, 10, 90, 20, 30, 95, 5):
        append(log, batch(2, timestamp=timestamp, size=150))
    assert len(log.segments) > 1
    found = {asked: log.offset_for_timestamp(asked) for asked in (0, 50, 51, 91, 96)}
    assert {asked: one and one.offset for asked, one in found.items()} == {0: 0, 50: 0, 51: 4, 91: 10, 96: None}
    largest = log.max_timestamp_offset()
    assert largest == (95, 10, 0)


def test_records_before_the_log_start_are_not_found_by_time(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in (100, 50, 60):
        append(log, batch(2, timestamp=timestamp))
    log.advance_start(3)
    found = log.offset_for_timestamp(0)
    assert found == (50, 3, 0)
    assert log.offset_for_timestamp(61) is None
    assert log.max_timestamp_offset() == (60, 4, 0)


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert (log.offset_for_timestamp(0), log.max_timestamp_offset()) == (None, None)


# --- transactions


def abort(log: Log, producer_id: int) -> int:
    return append_marker(log, EndTxnMarker(producer_id, 0, False, 0))


def in_transaction(log: Log, producer_id: int, sequence: int = 0) -> int:
    return append(log, batch(2, size=100, stamp=ProducerStamp(producer_id, 0, sequence, True)))


@pytest.mark.parametrize("restart", ["none", "clean", "crash"])
def test_aborted_transactions_are_found_from_where_their_data_lie(tmp_path: Path, restart: str) -> None:
    log = opened(tmp_path)
    first, second = in_transaction(log, 1), in_transaction(log, 2)
    log.roll(0)
    first_end = abort(log, 1)
    append_marker(log, EndTxnMarker(2, 0, True, 0))
    third = in_transaction(log, 1, 2)
    log.roll(0)
    third_end = abort(log, 1)
    assert log.producers.first_unstable_offset == first
    if restart != "none":
        log.close(clean=restart == "clean")
        log = opened(tmp_path, clean=restart == "clean", recovery_point=0)
    everyone = log.aborted_transactions(0, log.end_offset)
    assert everyone == [(1, first, first_end, second), (1, third, third_end, third_end + 1)]
    assert log.aborted_transactions(0, first_end) == everyone[:1]
    assert log.aborted_transactions(first_end + 1, log.end_offset) == everyone[1:]
    assert log.aborted_transactions(0, first) == []


def test_a_read_is_told_of_the_aborted_transactions_that_it_touches_and_no_others(tmp_path: Path) -> None:
    log = opened(tmp_path)
    ends = []
    for number in range(300):
        if number in (120, 240):
            log.roll(0)
        in_transaction(log, number)
        ends.append(abort(log, number))
    for number in (0, 1, 119, 120, 121, 239, 240, 298, 299):
        first = ends[number] - 2
        for max_bytes, count in ((1, 1), (1_000, None), (10_000_000, None)):
            slices = log.read(first, max_bytes, log.end_offset)
            last = max(header.last_offset for _, header in iter_headers(memoryview(slices.read())))
            touched = [n for n in range(300) if ends[n] - 2 <= last and ends[n] >= first]
            assert [entry.producer_id for entry in log.aborted_among(slices, first)] == touched
            assert count is None or len(touched) == count


def test_a_truncated_marker_opens_its_transaction_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    in_transaction(log, 1)
    end = abort(log, 1)
    log.truncate_to(end)
    assert log.producers.first_unstable_offset == 0
    assert log.aborted_transactions(0, 10) == []
    assert abort(log, 1) == end
    assert len(log.aborted_transactions(0, 10)) == 1


def test_control_batches_of_the_quorum_pass_untouched(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, bytearray(encode_control_batch([(2, b"leader")], timestamp_ms=5)))
    log.close(clean=False)
    assert opened(tmp_path).end_offset == 1


# --- start and end


def test_deleted_records_are_out_of_range_and_epochs_begin_at_the_start(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for epoch in range(3):
        append(log, batch(2), epoch=epoch)
    log.advance_start(3)
    assert log.epochs.entries == [(1, 3), (2, 4)]
    with pytest.raises(Refused):
        log.read(2, 100, 6)
    assert read_header(log.read(3, 100, 6).read()).base_offset == 2
    with pytest.raises(Refused):
        log.advance_start(7)
    log.advance_start(1)
    assert log.start_offset == 3


def test_a_closed_log_is_opened_without_reading_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in range(30):
        append(log, batch(stamp=ProducerStamp(1, 0, timestamp), timestamp=timestamp))
    log.flush()
    log.close()
    assert max(names(tmp_path, ".snapshot")) == 30
    # Every byte but the last segment's could be wrong: nobody looks.
    for segment in log.segments[:-1]:
        Path(segment.path(".log")).write_bytes(bytes(segment.size))
    again = opened(tmp_path, clean=True)
    assert (again.end_offset, again.recovery_point, again.has_recovered) == (30, 30, False)
    assert again.producers.snapshot() == log.producers.snapshot()


def test_what_was_flushed_before_a_clean_stop_is_indexed_too(tmp_path: Path) -> None:
    log = opened(tmp_path, LogConfig(index_interval_bytes=100), clean=True)
    for timestamp in range(10):
        append(log, batch(timestamp=timestamp))
    log.flush()
    log.close()
    assert (tmp_path / "t-0" / "00000000000000000000.index").stat().st_size == 8 * log.active.offsets.count > 8
    assert names(tmp_path, ".snapshot") == [10]


def test_a_flush_of_rolled_segments_spares_a_restart_from_reading_them(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in range(30):
        append(log, batch(timestamp=timestamp))
    assert log.has_unflushed_segments
    log.flush_rolled()
    assert not log.has_unflushed_segments
    assert log.recovery_point == log.active.base_offset < 30
    log.close(clean=False)
    damaged = Path(log.segments[0].path(".log"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    assert opened(tmp_path, recovery_point=log.recovery_point).end_offset == 30
    assert opened(tmp_path, recovery_point=0).end_offset < 30


def test_a_corrupt_batch_in_the_middle_ends_the_log_and_later_segments_go(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for timestamp in range(30):
        append(log, batch(timestamp=timestamp), epoch=timestamp // 5)
    log.close(clean=False)
    hurt = log.segments[1]
    path, place = Path(hurt.path(".log")), hurt.find(hurt.base_offset + 2)
    assert place is not None
    data = bytearray(path.read_bytes())
    data[place.position + 70] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path)
    assert again.end_offset == place.base_offset
    assert names(tmp_path, ".log") == [0, hurt.base_offset]
    assert again.epochs.latest == (place.base_offset - 1) // 5
    assert append(again, batch(), epoch=9) == place.base_offset


@pytest.mark.parametrize("compacted", [False, True])
def test_a_gap_between_segments_ends_the_log_unless_compaction_makes_gaps(tmp_path: Path, compacted: bool) -> None:
    log = opened(tmp_path)
    for timestamp in range(30):
        append(log, batch(timestamp=timestamp))
    log.close(clean=False)
    first = log.segments[0]
    cut = first.find(3)
    assert cut is not None
    os.truncate(first.path(".log"), cut.position)
    policy = ("compact",) if compacted else ("delete",)
    again = opened(tmp_path, LogConfig(cleanup_policy=policy))
    assert again.end_offset == (30 if compacted else 3)


def test_a_log_that_ends_before_its_start_begins_anew(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(5))
    log.close(clean=False)
    again = Log.open(LogPlace(tmp_path, "t", 0), SMALL, LogStart(False, 0, 8), 0)
    assert (again.start_offset, again.end_offset, names(tmp_path, ".log")) == (8, 8, [8])
    assert append(again, batch()) == 8


def test_what_a_failed_roll_left_behind_is_removed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch(2))
    log.roll(0)
    append(log, batch(2))
    log.close()
    for litter in (1, 3):
        (tmp_path / "t-0" / f"{litter:020d}.log").touch()
    (tmp_path / "t-0" / f"{9:020d}.index").touch()
    again = opened(tmp_path)
    assert (again.end_offset, bases(again)) == (4, [0, 2])
    assert names(tmp_path, ".log") == [0, 2]
    assert names(tmp_path, ".index") == [0, 2]


def test_an_unreadable_epoch_checkpoint_is_rebuilt_from_the_batches(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for epoch in (1, 1, 4):
        append(log, batch(), epoch=epoch)
    log.close()
    checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
    for damage in (b"", b"0\n2\n1 0\n"):
        checkpoint.write_bytes(damage)
        log = opened(tmp_path, clean=True)
        assert log.epochs.entries == [(1, 0), (4, 2)]
        assert checkpoint.read_bytes() == b"0\n2\n1 0\n4 2\n"
        log.close()


def test_producer_snapshots_are_those_of_segments_and_the_newest(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(20):
        append(log, batch(stamp=ProducerStamp(1, 0, sequence)))
        if sequence % 3 == 0:
            log.close()
            log = opened(tmp_path, clean=True)
    log.close()
    log = opened(tmp_path, clean=True)
    bases_of_segments = [segment.base_offset for segment in log.segments[1:]]
    assert names(tmp_path, ".snapshot") == [*bases_of_segments, 20]


def test_truncation_forgets_snapshots_that_say_too_much(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(20):
        append(log, batch(stamp=ProducerStamp(1, 0, sequence)))
    log.truncate_to(7)
    assert all(offset <= 7 for offset in names(tmp_path, ".snapshot"))
    producer = log.producers.get(1)
    assert producer is not None
    assert producer.last_sequence == 6
