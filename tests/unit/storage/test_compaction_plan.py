"""Which log is compacted, how far, and which segments become one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.compaction_plan import (
    CleaningPlan,
    Group,
    LogFacts,
    SegmentFacts,
    first_dirty_offset,
    is_due,
    most_due,
    plan_cleaning,
)

NOW = 1_000_000
HUNDREDS = [SegmentFacts(base, base + 100, 1000, 80, 120, 900_000, 900_000) for base in range(0, 500, 100)]
CONFIG = LogConfig(cleanup_policy=("compact",))


def log(**fields: object) -> LogFacts:
    return replace(LogFacts(HUNDREDS, 0, 500, 500), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checkpoint", "start", "expected"), [(None, 30, 30), (29, 30, 30), (30, 30, 30), (500, 0, 500), (501, 0, 0)]
)
def test_the_dirty_part_begins_at_the_checkpoint_unless_the_log_does_not_reach_there(
    checkpoint: int | None, start: int, expected: int
) -> None:
    assert first_dirty_offset(log(start_offset=start), checkpoint) == expected


def test_the_active_segment_is_never_compacted() -> None:
    plan = plan_cleaning(log(), None, CONFIG, NOW)
    assert (plan.first_dirty_offset, plan.upper_bound_offset) == (0, 400)
    assert (plan.clean_bytes, plan.dirty_bytes, plan.dirty_ratio) == (0, 4000, 1.0)


def test_a_log_of_one_segment_has_nothing_to_compact() -> None:
    plan = plan_cleaning(LogFacts(HUNDREDS[:1], 0, 100, 100), None, replace(CONFIG, min_cleanable_dirty_ratio=0), NOW)
    assert (plan.upper_bound_offset, plan.dirty_bytes, plan.dirty_ratio) == (0, 0, 0.0)
    assert not is_due(plan, CONFIG)


@pytest.mark.parametrize(("last_stable", "bound"), [(399, 300), (300, 300), (299, 200), (50, 0), (0, 0)])
def test_nothing_past_the_last_stable_offset_is_touched(last_stable: int, bound: int) -> None:
    plan = plan_cleaning(log(last_stable_offset=last_stable), None, CONFIG, NOW)
    assert plan.upper_bound_offset == bound
    assert plan.dirty_bytes == 10 * bound


def test_records_younger_than_the_minimum_lag_stay_and_all_behind_them() -> None:
    segments = [*HUNDREDS[:2], replace(HUNDREDS[2], largest_timestamp=NOW - 9_999), *HUNDREDS[3:]]
    config = replace(CONFIG, min_compaction_lag_ms=10_000)
    assert plan_cleaning(log(segments=segments), None, config, NOW).upper_bound_offset == 200
    assert plan_cleaning(log(segments=segments), None, config, NOW + 1).upper_bound_offset == 400


def test_what_is_clean_does_not_count_for_the_minimum_lag() -> None:
    segments = [replace(HUNDREDS[0], largest_timestamp=NOW), *HUNDREDS[1:]]
    config = replace(CONFIG, min_compaction_lag_ms=10_000)
    assert plan_cleaning(log(segments=segments), 100, config, NOW).upper_bound_offset == 400
    assert plan_cleaning(log(segments=segments), 99, config, NOW).upper_bound_offset == 0


@pytest.mark.parametrize(("ratio", "due"), [(0.49, True), (0.5, False), (0.51, False)])
def test_a_log_is_due_when_more_than_the_ratio_is_dirty(ratio: float, due: bool) -> None:
    plan = plan_cleaning(log(), 200, CONFIG, NOW)
    assert (plan.clean_bytes, plan.dirty_bytes) == (2000, 2000)
    assert is_due(plan, replace(CONFIG, min_cleanable_dirty_ratio=ratio)) is due


def test_a_segment_that_the_checkpoint_cuts_is_dirty() -> None:
    plan = plan_cleaning(log(), 250, CONFIG, NOW)
    assert (plan.clean_bytes, plan.dirty_bytes) == (2000, 2000)


def test_a_dirty_record_older_than_the_maximum_lag_is_due_whatever_the_ratio() -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100_000)
    assert not is_due(plan_cleaning(log(), 300, config, NOW), config)
    assert is_due(plan_cleaning(log(), 300, config, NOW + 1), config)
    assert not is_due(plan_cleaning(log(), 400, config, NOW + 1), config)


def test_records_without_a_timestamp_are_never_overdue() -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1)
    timeless = [replace(segment, first_timestamp=-1) for segment in HUNDREDS]
    assert not is_due(plan_cleaning(log(segments=timeless), 300, config, NOW), config)


def test_a_checkpoint_past_the_upper_bound_leaves_nothing_to_do() -> None:
    plan = plan_cleaning(log(last_stable_offset=100), 300, CONFIG, NOW)
    assert plan.dirty_bytes == 0
    assert plan.first_dirty_offset <= plan.upper_bound_offset


def test_of_several_logs_the_dirtiest_that_is_due_comes_first() -> None:
    half, most, all_of_it = (
        CleaningPlan(0, 9, 50, 50, False),
        CleaningPlan(0, 9, 30, 70, False),
        CleaningPlan(0, 9, 0, 9, False),
    )
    patient = replace(CONFIG, min_cleanable_dirty_ratio=1.0)
    assert most_due({"half": (half, CONFIG), "most": (most, CONFIG), "all": (all_of_it, patient)}) == "most"
    assert most_due({"half": (half, CONFIG), "all": (all_of_it, patient)}) is None
    overdue = replace(half, is_overdue=True)
    assert most_due({"half": (overdue, CONFIG), "all": (all_of_it, patient)}) == "half"
    assert most_due({}) is None


def groups(segments: Sequence[SegmentFacts], kept: float, segment_bytes: int, index_bytes: int = 10**6) -> list[int]:
    """How many segments become one, group by group, if of each this part is kept."""
    counts, left = [], list(segments)
    while left:
        group, draft = Group(left[0].base_offset), SegmentFacts(left[0].base_offset, left[0].base_offset, 0)
        while left and group.admits(draft, left[0], segment_bytes, index_bytes):
            source = left.pop(0)
            group.add(source)
            draft = replace(
                draft,
                size=draft.size + int(kept * source.size),
                index_bytes=draft.index_bytes + int(kept * source.index_bytes),
                time_index_bytes=draft.time_index_bytes + int(kept * source.time_index_bytes),
            )
        counts.append(group.sources)
    return counts


@pytest.mark.parametrize(
    ("kept", "segment_bytes", "index_bytes", "expected"),
    [
        (1, 10_000, 10_000, [5]),
        (1, 3000, 10_000, [3, 2]),
        (1, 2999, 10_000, [2, 2, 1]),
        (1, 1, 10_000, [1, 1, 1, 1, 1]),
        (1, 10_000, 240, [2, 2, 1]),
        (0.5, 2000, 10_000, [3, 2]),
        (0, 1000, 10_000, [5]),
    ],
)
def test_neighbours_are_joined_as_long_as_what_is_left_of_them_fits_a_segment_and_its_indexes(
    kept: float, segment_bytes: int, index_bytes: int, expected: list[int]
) -> None:
    assert groups(HUNDREDS, kept, segment_bytes, index_bytes) == expected


def test_full_segments_are_joined_if_little_of_them_is_expected_to_stay() -> None:
    full = [SegmentFacts(base, base + 1, 1000, kept_bytes=300) for base in range(7)]
    assert groups(full, 0.3, 1000) == [3, 3, 1]
    assert groups(full, 0.5, 1000) == [2, 2, 2, 1], "what was not expected is taken account of as it comes"


def test_no_position_outgrows_an_index_whatever_was_expected() -> None:
    large = [SegmentFacts(base, base + 1, 2**30, kept_bytes=0) for base in range(3)]
    assert groups(large, 1, 2**30) == [1, 1, 1]


def test_a_group_spans_no_more_offsets_than_an_index_can_hold() -> None:
    far = [SegmentFacts(0, 10, 10), SegmentFacts(10, 2**31, 10), SegmentFacts(2**31, 2**31 + 5, 10)]
    assert groups(far, 1, 10_000) == [2, 1]


def test_a_group_is_bounded_in_what_is_read_for_it_though_nothing_is_kept() -> None:
    many = [SegmentFacts(base, base + 1, 10) for base in range(40)]
    assert groups(many, 0, 10_000) == [16, 16, 8]
    large = [SegmentFacts(base, base + 1, 2**30) for base in range(9)]
    assert groups(large, 0, 2**30) == [4, 4, 1]


def test_the_dirty_ratio_of_nothing_is_zero() -> None:
    assert CleaningPlan(0, 0, 0, 0, False).dirty_ratio == 0.0
