"""Which segments are let go, and what is left of the log then."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.topic_settings import LogConfig
from ottla.storage.log import Log
from ottla.storage.retention import apply_retention, expired_segments
from tests.unit.storage.compaction_world import NOW, Killed, MortalFiles, append, compact, directory, open_log, records

HOUR = 3_600_000


def config(**settings: Any) -> LogConfig:
    return LogConfig(**({"segment_bytes": 100, "retention_ms": -1} | settings))


def log_of(path: Path, ages_ms: list[int], files: MortalFiles | None = None, **settings: Any) -> Log:
    """One segment for each age, with one record; the last one is active."""
    log = open_log(path, config(**settings), files)
    for age_ms in ages_ms:
        append(log, [(b"k", b"v" * 10)], timestamp=NOW - age_ms)
    assert [segment.base_offset for segment in log.segments] == list(range(len(ages_ms)))
    return log


def left(log: Log, high_watermark: int | None = None, now_ms: int = NOW) -> list[int]:
    """Base offsets of the segments that stay."""
    apply_retention(log, log.end_offset if high_watermark is None else high_watermark, now_ms)
    return [segment.base_offset for segment in log.segments]


def test_without_a_bound_everything_stays(tmp_path: Path) -> None:
    assert left(log_of(tmp_path, [10 * HOUR] * 4)) == [0, 1, 2, 3]


# --- by time


def test_segments_older_than_the_retention_time_go(tmp_path: Path) -> None:
    log = log_of(tmp_path, [3 * HOUR, 2 * HOUR + 1, 2 * HOUR, HOUR, 0], retention_ms=2 * HOUR)
    assert left(log) == [2, 3, 4]
    assert log.start_offset == 2
    assert [record.offset for record in records(log)] == [2, 3, 4]
    assert left(log, now_ms=NOW + 1) == [3, 4]


def test_a_segment_that_stays_keeps_older_ones_behind_it(tmp_path: Path) -> None:
    assert left(log_of(tmp_path, [HOUR, 5 * HOUR, 5 * HOUR, 0], retention_ms=2 * HOUR)) == [0, 1, 2, 3]


def test_a_timestamp_from_the_future_keeps_its_segment(tmp_path: Path) -> None:
    assert left(log_of(tmp_path, [5 * HOUR, -HOUR, 5 * HOUR, 0], retention_ms=2 * HOUR)) == [1, 2, 3]


def test_the_age_of_a_file_stands_in_for_records_without_a_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path, config(retention_ms=HOUR))
    for _ in range(3):
        append(log, [(b"k", b"v" * 10)], timestamp=-1)
    for segment, age_ms in zip(log.segments, (2 * HOUR, 0, 0), strict=True):
        segment.files.set_modified_ms(segment.path(".log"), NOW - age_ms)
    assert left(log) == [1, 2]


def test_when_all_has_expired_an_empty_segment_is_begun(tmp_path: Path) -> None:
    log = log_of(tmp_path, [5 * HOUR] * 3, retention_ms=HOUR)
    assert left(log) == [3]
    assert (log.start_offset, log.end_offset, log.size) == (3, 3, 0)
    assert left(log) == [3], "an empty one has nothing to part with"
    append(log, [(b"k", b"new")])
    assert [record.offset for record in records(log)] == [3]
    log.close()
    log = open_log(tmp_path, config())
    assert (log.start_offset, log.end_offset) == (3, 4)


# --- by size


@pytest.mark.parametrize(
    ("retention_segments", "spare", "expected"),
    [(5, 0, [0, 1, 2, 3]), (4, 0, [0, 1, 2, 3]), (3, 0, [1, 2, 3]), (3, 1, [0, 1, 2, 3]), (1, 0, [3]), (1, 1, [2, 3])],
)
def test_segments_go_while_enough_bytes_stay(
    tmp_path: Path, retention_segments: int, spare: int, expected: list[int]
) -> None:
    log = log_of(tmp_path, [0] * 4)
    size = log.segments[0].size
    log.config = config(retention_bytes=retention_segments * size + spare)
    assert left(log) == expected


def test_retention_bytes_of_zero_keeps_nothing(tmp_path: Path) -> None:
    assert left(log_of(tmp_path, [0] * 4, retention_bytes=0)) == [4]


# --- by the start of the log


def test_segments_in_front_of_the_start_of_the_log_go(tmp_path: Path) -> None:
    log = open_log(tmp_path, config(segment_bytes=250))
    for _ in range(9):
        append(log, [(b"k", b"v" * 10)])
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    log.advance_start(5)
    assert left(log) == [3, 6]
    assert log.start_offset == 5
    log.advance_start(6)
    assert left(log) == [6]


@pytest.mark.parametrize("policy", [(), ("compact",)], ids=["empty", "compact"])
def test_without_delete_only_the_start_of_the_log_counts(tmp_path: Path, policy: tuple[str, ...]) -> None:
    log = log_of(tmp_path, [5 * HOUR] * 4, retention_ms=1, retention_bytes=0, cleanup_policy=policy)
    assert left(log) == [0, 1, 2, 3]
    log.advance_start(2)
    assert left(log) == [2, 3]


def test_compact_and_delete_does_both(tmp_path: Path) -> None:
    log = log_of(tmp_path, [5 * HOUR, HOUR, HOUR, 0], retention_ms=2 * HOUR, cleanup_policy=("compact", "delete"))
    assert left(log) == [1, 2, 3]
    compact(log)
    assert [record.offset for record in records(log)] == [2, 3]


def test_the_rules_add_up(tmp_path: Path) -> None:
    log = log_of(tmp_path, [9 * HOUR, 9 * HOUR, 9 * HOUR, 0, 0], retention_ms=HOUR)
    log.config = config(retention_ms=HOUR, retention_bytes=4 * log.segments[0].size)
    log.advance_start(1)
    assert left(log) == [3, 4]


# --- bounds


@pytest.mark.parametrize(("high_watermark", "expected"), [(0, [0, 1, 2, 3]), (1, [1, 2, 3]), (3, [3]), (4, [4])])
def test_only_what_lies_wholly_below_the_high_watermark_goes(
    tmp_path: Path, high_watermark: int, expected: list[int]
) -> None:
    assert left(log_of(tmp_path, [5 * HOUR] * 4, retention_ms=HOUR), high_watermark) == expected


@given(
    st.lists(st.sampled_from([0, HOUR, 3 * HOUR, -HOUR]), min_size=1, max_size=6), st.integers(0, 6), st.integers(-1, 6)
)
def test_what_goes_is_always_the_beginning_and_never_too_much(
    ages_ms: list[int], high_watermark: int, kept: int
) -> None:
    with directory() as path:
        log = log_of(path, ages_ms, retention_ms=2 * HOUR)
        size = log.segments[0].size
        log.config = config(retention_ms=2 * HOUR, retention_bytes=kept * size if kept >= 0 else -1)
        gone = expired_segments(log, high_watermark, NOW)
        count = len(gone)
        assert gone == log.segments[:count]
        assert count <= high_watermark
        too_many = max(len(ages_ms) - kept, 0) if kept >= 0 else 0
        old = next((i for i, age in enumerate([*ages_ms[too_many:], 0]) if age <= 2 * HOUR), 0)
        assert count == min(too_many + old, high_watermark, len(ages_ms))


# --- files


def test_files_wait_under_another_name_until_their_readers_are_done(tmp_path: Path) -> None:
    log = log_of(tmp_path, [5 * HOUR, 5 * HOUR, 0], retention_ms=HOUR)
    slices = log.read(0, 1000, log.end_offset, True)
    expected, size = slices.read(), log.segments[0].size
    removed = apply_retention(log, log.end_offset, NOW)
    assert slices.read() == expected
    assert (removed.start_offset, removed.bytes) == (2, 2 * size)
    assert sorted(removed.paths) == sorted(map(str, tmp_path.rglob("*.deleted")))
    assert len(removed.paths) == 6
    assert log.snapshots.offsets == [2]


def test_nothing_to_do_changes_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path, [0, 0])
    removed = apply_retention(log, log.end_offset, NOW)
    assert (removed.paths, removed.bytes, removed.start_offset) == ((), 0, 0)


def test_a_crash_during_removal_leaves_the_end_of_the_log(tmp_path: Path) -> None:
    whole = log_of(tmp_path / "whole", [5 * HOUR] * 3 + [0], files := MortalFiles(), retention_ms=HOUR)
    before = files.changes
    apply_retention(whole, whole.end_offset, NOW)
    count = files.changes - before
    assert count >= 9
    for step in range(count):
        path = tmp_path / str(step)
        log = log_of(path, [5 * HOUR] * 3 + [0], files := MortalFiles(), retention_ms=HOUR)
        files.lives = files.changes + step
        with pytest.raises(Killed):
            apply_retention(log, log.end_offset, NOW)
        log = open_log(path, config(retention_ms=HOUR))
        offsets = [record.offset for record in records(log)]
        assert offsets == list(range(offsets[0], 4))
        assert log.end_offset == 4
        assert left(log) == [3]
