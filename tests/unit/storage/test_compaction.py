"""Whole rounds over real files, against a model of twenty lines."""

import errno
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.compaction import Cleaning, CleaningOvertaken, clean, survey
from ottla.storage.compaction_files import Uncleanable
from ottla.storage.compaction_map import ENTRY_BYTES
from ottla.storage.files import Files
from ottla.storage.log import Log
from ottla.wire.batch import Codec, ProducerStamp, Record, decode_records, read_header
from tests.unit.storage.compaction_world import (
    NOW,
    Killed,
    Model,
    MortalFiles,
    append,
    append_marker,
    batches,
    begin,
    compact,
    compacted,
    directory,
    filled,
    open_log,
    records,
)

DAY = 86_400_000


def last_values(found: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in found}


# --- against the model

keys = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 40, None])
values = st.none() | st.binary(min_size=1, max_size=60)
appends = st.tuples(
    st.just("append"),
    st.lists(st.tuples(keys, values), min_size=1, max_size=4),
    st.sampled_from(Codec),
    st.integers(-1, 2),
)
rounds = st.tuples(st.just("compact"), st.integers(1, 12), st.integers(0, 2 * DAY))
steps = st.lists(appends | appends | appends | rounds | st.just(("roll",)) | st.just(("reopen",)), max_size=40)


@settings(max_examples=60)
@given(steps, st.sampled_from([0, DAY]))
def test_every_round_leaves_what_the_model_says(script: list[tuple], retention_ms: int) -> None:  # type: ignore[type-arg]
    with directory() as path:
        config = compacted(delete_retention_ms=retention_ms, segment_bytes=400)
        log, model, checkpoint, now = open_log(path, config), Model(retention_ms), None, NOW
        sequences = dict.fromkeys(range(3), 0)
        for step in [*script, ("roll",), ("compact", 12, 1), ("reopen",)]:
            match step:
                case ("append", pairs, codec, producer_id):
                    stamp = ProducerStamp(producer_id, 0, sequences[producer_id]) if producer_id >= 0 else None
                    model.records += [Record(log.end_offset + i, NOW, *pair) for i, pair in enumerate(pairs)]
                    if stamp is None:
                        append(log, pairs, codec)
                    else:
                        append(log, pairs, codec, stamp)
                        sequences[producer_id] += len(pairs)
                case ("compact", entries, elapsed_ms):
                    now += elapsed_ms
                    cleaning = compact(log, checkpoint, now, map_bytes=entries * ENTRY_BYTES)
                    checkpoint = cleaning.end_offset
                    model.compact(checkpoint, now)
                case ("roll",):
                    log.roll(now)
                case ("reopen",):
                    log.close()
                    log = open_log(path, config)
            assert records(log) == model.records
        for offset in range(log.start_offset, log.end_offset):
            assert records(log, offset) == [record for record in model.records if record.offset >= offset]
        log.close()


@settings(max_examples=30)
@given(steps)
def test_what_the_producers_know_survives_in_the_log_alone(script: list[tuple]) -> None:  # type: ignore[type-arg]
    with directory() as path:
        log, sequences, checkpoint = open_log(path, compacted(segment_bytes=400)), dict.fromkeys(range(3), 0), None
        for step in [*script, ("roll",), ("compact", 1000, 0)]:
            match step:
                case ("append", pairs, codec, producer_id) if producer_id >= 0:
                    append(log, pairs, codec, ProducerStamp(producer_id, 0, sequences[producer_id]))
                    sequences[producer_id] += len(pairs)
                case ("append", pairs, codec, _):
                    append(log, pairs, codec)
                case ("compact", _, _):
                    checkpoint = compact(log, checkpoint).end_offset
                case ("roll",):
                    log.roll(NOW)
        known, end_offset = sorted(log.producers.snapshot()), log.end_offset
        log.close()
        for snapshot in path.glob("*/*.snapshot"):
            snapshot.unlink()
        log = open_log(path, compacted(segment_bytes=400))
        assert sorted(log.producers.snapshot()) == known
        assert log.end_offset == end_offset
        log.close()


# --- files


def test_segments_that_shrink_are_joined(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log, 60)
    active = log.active
    assert len(log.segments) > 6
    compact(log)  # what becomes of segments counts, not what they were
    assert log.segments == [log.segments[0], active]
    assert log.segments[0].base_offset == 0
    names = sorted(path.name for path in (tmp_path / "topic-0").iterdir())
    assert [name for name in names if name.endswith(".log")] == [
        "00000000000000000000.log", f"{active.base_offset:020d}.log",
    ]  # fmt: skip
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert [name for name in names if name.endswith(".snapshot")] == [f"{active.base_offset:020d}.snapshot"]


def test_a_round_that_changes_nothing_leaves_the_files_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted(segment_bytes=10_000))
    append(log, [(b"a", b"1"), (b"b", b"2")])
    log.roll(NOW)
    segments = list(log.segments)
    assert compact(log).end_offset == 2
    assert log.segments == segments


def test_the_indexes_of_a_rewritten_segment_lead_to_its_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted(segment_bytes=10**6, index_interval_bytes=200))
    for i in range(200):
        append(log, [(b"once %d" % i, b"x" * 20), (b"again", b"%d" % i)], timestamp=NOW + i)
    log.roll(NOW)
    compact(log)
    segment = log.segments[0]
    assert segment.offsets.count > 20
    positions = dict(segment.batches())
    for relative, position in segment.offsets:
        assert positions[position].last_offset == segment.base_offset + relative
    for timestamp, relative in segment.times:
        assert timestamp == NOW + (segment.base_offset + relative) // 2
    found = log.offset_for_timestamp(NOW + 77)
    assert found is not None
    assert (found.offset, found.timestamp) == (154, NOW + 77)
    assert segment.max_timestamp == NOW + 199


def test_a_rewritten_segment_is_as_old_as_its_sources(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log)
    for age, segment in enumerate(log.segments):
        segment.files.set_modified_ms(segment.path(".log"), NOW - 1000 + age)
    last = len(log.segments) - 2
    log.config = compacted(segment_bytes=10**6)
    compact(log)
    assert log.segments[0].files.modified_ms(log.segments[0].path(".log")) == NOW - 1000 + last


def test_a_slice_read_before_the_swap_still_shows_the_old_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log)
    slices = log.read(0, 500, log.end_offset, True)
    before = slices.read()
    compact(log)
    assert slices.read() == before
    assert records(log)[0].offset > 0


def test_a_segment_of_which_nothing_is_left_can_still_be_read_across(tmp_path: Path) -> None:
    config = compacted(segment_bytes=150)
    log = open_log(tmp_path, config)
    for _ in range(6):
        append(log, [(b"k", b"x" * 60)])
    append(log, [(b"k", b"last")])
    log.roll(NOW)
    compact(log)
    assert [(record.offset, record.value) for record in records(log)] == [(6, b"last")]
    assert records(log, 3) == records(log)
    assert log.start_offset == 0
    log.close()
    log = open_log(tmp_path, config)
    assert records(log) == records(log, 3) == [Record(6, NOW, b"k", b"last")]
    assert log.start_offset == 0, "an offset that was there may still be asked for"


def test_a_log_above_the_high_watermark_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log)
    before = records(log)
    second = log.segments[1].base_offset
    cleaning = Cleaning(log, survey(log, None, second + 1, NOW), NOW)
    clean(cleaning)
    assert cleaning.end_offset == second
    assert records(log, second) == [record for record in before if record.offset >= second]


def test_several_rounds_take_up_what_one_map_cannot_hold(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    for i in range(300):
        append(log, [(b"key%d" % (i % 100), b"%d" % i)])
    log.roll(NOW)
    expected = last_values(records(log))
    checkpoint, ends = None, []
    while checkpoint != log.active.base_offset:
        checkpoint = compact(log, checkpoint, map_bytes=40 * ENTRY_BYTES).end_offset
        ends.append(checkpoint)
    assert ends[:2] == [40, 80]
    assert len(records(log)) == 100
    assert last_values(records(log)) == expected


def test_the_map_ends_in_front_of_the_first_batch_that_does_not_fit_even_if_later_ones_would(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    for pairs in ([(b"a", b"1"), (b"b", b"1")], [(b"c", b"1"), (b"d", b"1"), (b"c", b"2")], [(b"a", b"2")]):
        append(log, pairs)
        log.roll(NOW)
    assert compact(log, map_bytes=4 * ENTRY_BYTES).end_offset == 2
    assert len(records(log)) == 6


def test_a_log_is_clean_up_to_the_active_segment_though_its_last_segment_ends_in_a_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    for key in (b"a", b"b", b"c"):
        append(log, [(key, b"1"), (key, b"2")])
        log.roll(NOW)
    middle = log.segments[-2]
    log.close()
    for suffix in (".log", ".index", ".timeindex"):
        Path(middle.path(suffix)).unlink()
    log = open_log(tmp_path, compacted(), recovery_point=6)
    cleaning = compact(log)
    assert [record.offset for record in records(log)] == [1, 3]
    assert cleaning.end_offset == log.active.base_offset == 6
    assert survey(log, cleaning.end_offset, log.end_offset, NOW).dirty_bytes == 0


# --- transactions


def test_aborted_data_disappear_and_their_index_entry_with_them_a_round_later(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted(delete_retention_ms=DAY))
    append(log, [(b"a", b"aborted")], producer=ProducerStamp(7, 0, 0, True))
    append(log, [(b"a", b"kept")])
    append(log, [(b"b", b"committed")], producer=ProducerStamp(8, 0, 0, True))
    append_marker(log, 7, committed=False)
    append_marker(log, 8, committed=True)
    for producer_id in (7, 8):  # so that nothing but the transactions holds the first batches
        append(log, [(b"c", b"-")], producer=ProducerStamp(producer_id, 0, 1, True))
        append_marker(log, producer_id, committed=True)
    log.roll(NOW)
    assert len(log.aborted_transactions(0, 100)) == 1
    append(log, [(b"z", b"-")])

    compact(log)
    assert [(record.offset, record.value) for record in records(log)][:2] == [(1, b"kept"), (2, b"committed")]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 100)] == [7]
    offsets = [record.offset for record in records(log, control=True)]
    assert offsets[:2] == [3, 4]

    compact(log, None, NOW + 1)
    assert log.aborted_transactions(0, 100) == []
    abort = next(batch for batch in batches(log) if read_header(batch).base_offset == 3)
    assert read_header(abort).delete_horizon_ms == NOW + 1 + DAY
    compact(log, None, NOW + 1 + DAY)
    offsets = [record.offset for record in records(log, control=True)]
    assert 3 not in offsets and 4 in offsets
    log.close()
    log = open_log(tmp_path, compacted())
    assert [(record.offset, record.value) for record in records(log)][:2] == [(1, b"kept"), (2, b"committed")]


def test_an_aborted_transaction_stays_in_the_index_of_its_own_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted(segment_bytes=500))
    append(log, [(b"a", b"aborted")], producer=ProducerStamp(7, 0, 0, True))
    append(log, [(b"d", b"stays as it is" * 20)])
    log.roll(NOW)
    append_marker(log, 7, committed=False)
    append(log, [(b"b", b"stays as it is" * 20)])
    log.roll(NOW)
    append(log, [(b"c", b"replaced" * 5)])
    append(log, [(b"c", b"2" * 100)])
    log.roll(NOW)
    append(log, [(b"z", b"-")])
    compact(log)
    assert [(segment.base_offset, len(list(segment.txn_index))) for segment in log.segments] == [
        (0, 0), (2, 1), (4, 0), (6, 0),
    ]  # fmt: skip


def test_an_aborted_transaction_that_ends_in_the_active_segment_is_known(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    append(log, [(b"a", b"old")])
    append(log, [(b"a", b"aborted")], producer=ProducerStamp(7, 0, 0, True))
    log.roll(NOW)
    append_marker(log, 7, committed=False)
    append(log, [(b"b", b"1")], producer=ProducerStamp(7, 0, 1, True))
    append_marker(log, 7, committed=True)
    compact(log)
    assert [(record.offset, record.value) for record in records(log)] == [(0, b"old"), (3, b"1")]


def test_an_open_transaction_is_not_touched(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    append(log, [(b"a", b"1")])
    log.roll(NOW)
    append(log, [(b"a", b"2")], producer=ProducerStamp(7, 0, 0, True))
    log.roll(NOW)
    append(log, [(b"a", b"3")])
    log.roll(NOW)
    assert compact(log).end_offset == 1
    assert len(records(log)) == 3


# --- beside others


def test_appends_and_reads_go_on_while_a_round_is_under_way(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log, 200)
    expected = last_values(records(log))
    cleaning = begin(log)
    proceed, waiting = threading.Event(), threading.Event()
    rewritten, finished = [], []

    def work() -> None:
        try:
            cleaning.read_keys()
            while (group := cleaning.rewrite_next()) is not None:
                rewritten.append(group)
                waiting.set()
                proceed.wait(10)
                proceed.clear()
            finished.append(True)
        finally:
            waiting.set()

    worker = threading.Thread(target=work)
    worker.start()
    count = 0
    while worker.is_alive():
        append(log, [(b"beside %d" % count, b"x" * 50)])
        expected[b"beside %d" % count] = b"x" * 50
        assert records(log, log.end_offset - 1)[0].key == b"beside %d" % count
        count += 1
        if waiting.is_set():
            waiting.clear()
            while rewritten:
                cleaning.swap(rewritten.pop())
            assert last_values(records(log)) == expected
            proceed.set()
    worker.join()
    cleaning.settle()
    assert finished
    assert count
    assert last_values(records(log)) == expected
    assert len([record for record in records(log) if not (record.key or b"").startswith(b"beside")]) < 50


def test_a_round_is_overtaken_by_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted())
    filled(log)
    cleaning = begin(log)
    cleaning.read_keys()
    rewritten = cleaning.rewrite_next()
    assert rewritten is not None
    log.truncate_to(10)
    before = records(log)
    assert not cleaning.is_current()
    with pytest.raises(CleaningOvertaken):
        cleaning.swap(rewritten)
    cleaning.discard(rewritten)
    assert records(log) == before
    assert not list(tmp_path.rglob("*.cleaned"))


def test_a_round_is_overtaken_by_a_deletion_whenever_it_comes(tmp_path: Path) -> None:
    for turn in range(2):
        log = open_log(tmp_path / str(turn), compacted())
        filled(log)
        cleaning = begin(log)
        if turn:
            cleaning.read_keys()
        log.truncate_fully_and_start_at(500)
        with pytest.raises(CleaningOvertaken):
            cleaning.read_keys() if not turn else cleaning.rewrite_next()
        assert not list(tmp_path.rglob("*.cleaned"))
        assert records(log) == []


def test_what_progress_raises_ends_the_round_without_a_trace(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    log = open_log(tmp_path, compacted())
    filled(log, 200)
    before, calls = records(log), 0

    def progress() -> None:
        nonlocal calls
        calls += 1
        if calls == 380:  # of two times 200: in the second of two groups
            raise Stop

    cleaning = Cleaning(log, survey(log, None, log.end_offset, NOW), NOW, progress=progress)
    with pytest.raises(Stop):
        clean(cleaning)
    assert calls == 380
    assert set(records(log)) < set(before)
    assert last_values(records(log)) == last_values(before)
    assert not list(tmp_path.rglob("*.cleaned"))


@pytest.mark.parametrize("position", [8, 16, 100])
def test_a_damaged_batch_makes_the_log_uncleanable_and_nothing_else(tmp_path: Path, position: int) -> None:
    log = open_log(tmp_path, compacted())
    filled(log)
    path = Path(log.segments[1].path(".log"))
    data = bytearray(path.read_bytes())
    data[position] ^= 0x7F
    path.write_bytes(data)
    names = sorted(path.name for path in (tmp_path / "topic-0").iterdir())
    with pytest.raises(Uncleanable):
        compact(log)
    assert sorted(path.name for path in (tmp_path / "topic-0").iterdir()) == names


def test_a_batch_larger_than_a_read_is_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path, compacted(segment_bytes=10**8))
    append(log, [(b"a", b"x" * 3_000_000), (b"b", b"y" * 2_000_000)])
    append(log, [(b"a", b"z" * 1_500_000)])
    log.roll(NOW)
    compact(log)
    assert [(record.key, len(record.value or b"")) for record in records(log)] == [(b"b", 2_000_000), (b"a", 1_500_000)]


class FullFiles(MortalFiles):
    """A disk that is full after so many changes: what writes fails, what renames and deletes does not."""

    def change(self) -> None:
        self.changes += 1
        if self.lives is not None and self.changes > self.lives:
            raise OSError(errno.ENOSPC, "no space left on device")

    def rename(self, old: str, new: str) -> None:
        Files.rename(self, old, new)

    def unlink(self, path: str) -> None:
        Files.unlink(self, path)


@pytest.mark.parametrize("room", (0, 1, 2, 5, 9, 14, 30))
def test_a_full_disk_ends_the_round_and_leaves_no_drafts(tmp_path: Path, room: int) -> None:
    files = FullFiles()
    log = open_log(tmp_path, compacted(), files)
    filled(log)
    before = last_values(records(log))
    cleaning = begin(log)
    cleaning.read_keys()
    files.lives = files.changes + room
    try:
        while (rewritten := cleaning.rewrite_next()) is not None:
            cleaning.swap(rewritten)
    except OSError as error:
        assert error.errno == errno.ENOSPC
        assert not list(tmp_path.rglob("*.cleaned"))
    else:
        assert room > 9
    assert last_values(records(log)) == before
    files.lives = None
    compact(log)
    assert last_values(records(log)) == before


# --- crashes


def steps_of_a_round(path: Path) -> int:
    log = open_log(path, compacted(segment_bytes=700), files := MortalFiles())
    fill_for_crash(log)
    before = files.changes
    compact(log)
    return files.changes - before


def fill_for_crash(log: Log) -> None:
    filled(log, 20)
    append(log, [(b"key0", None)], Codec.LZ4, ProducerStamp(7, 0, 0, True))
    append_marker(log, 7, committed=False)
    filled(log, 8)
    log.roll(NOW)
    filled(log, 1)


def test_a_crash_at_any_step_of_a_round_loses_nothing_and_the_next_round_finishes(tmp_path: Path) -> None:
    count = steps_of_a_round(tmp_path / "whole")
    assert count > 60
    whole = open_log(tmp_path / "whole", compacted(segment_bytes=700))
    expected = records(whole)
    for step in range(count):
        path = tmp_path / str(step)
        log = open_log(path, compacted(segment_bytes=700), files := MortalFiles())
        fill_for_crash(log)
        before, end_offset = records(log), log.end_offset
        files.lives = files.changes + step
        with pytest.raises(Killed):
            compact(log)
        log = open_log(path, compacted(segment_bytes=700), recovery_point=end_offset if step % 2 else 0)
        log.producers.advance_high_watermark(log.end_offset)
        after = records(log)
        assert log.end_offset == end_offset
        assert log.start_offset == 0
        assert set(expected) <= set(after) <= set(before), f"killed after {step} changes"
        assert [record.offset for record in after] == sorted({record.offset for record in after})
        for offset in (0, 31, end_offset - 1):
            assert records(log, offset) == [record for record in after if record.offset >= offset]
        assert not [p for p in path.rglob("*") if p.name.endswith((".cleaned", ".swap", ".deleted"))]
        compact(log)
        assert records(log) == expected
        log.close()
        shutil.rmtree(path)


def test_decoding_is_what_a_consumer_sees(tmp_path: Path) -> None:
    """The reader of these tests against one that takes the whole log at once."""
    log = open_log(tmp_path, compacted())
    filled(log)
    compact(log)
    assert [r for batch in batches(log) for r in decode_records(batch)] == records(log)
