"""What a micro-batch takes and how it becomes tasks: nothing is lost, nothing is read twice, nobody starves."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import TopicName, TopicPartition
from ottla.spark.source.options import Splitting
from ottla.spark.source.planning import (
    Range,
    fair_shares,
    limited,
    limited_in_bytes,
    ranges_between,
    tasks_of,
)
from ottla.spark.source.progress import Group, Progress


def place(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


places = st.builds(place, st.integers(0, 40), st.sampled_from(["a", "b"]))
ends = st.dictionaries(places, st.integers(0, 10_000), max_size=20)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[Range]:
    lengths = draw(st.dictionaries(places, st.tuples(st.integers(0, 1000), st.integers(1, 5000)), max_size=20))
    return [Range(where, start, start + length) for where, (start, length) in sorted(lengths.items())]


splittings = st.builds(
    Splitting,
    partitions_min=st.none() | st.integers(1, 50),
    records_max=st.none() | st.integers(1, 3000),
    rows_per_task=st.integers(1, 10_000),
)


@given(some_ranges(), splittings)
def test_tasks_read_every_offset_once(ranges: list[Range], splitting: Splitting) -> None:
    pieces = sorted(piece for task in tasks_of(ranges, splitting) for piece in task)
    for one in ranges:
        own = [piece for piece in pieces if piece.place == one.place]
        assert own[0].start == one.start and own[-1].end == one.end
        assert all(piece.end == after.start for piece, after in pairwise(own))
    assert all(piece.length > 0 for piece in pieces)
    assert {piece.place for piece in pieces} == {one.place for one in ranges}


@given(some_ranges(), splittings)
def test_tasks_are_as_many_as_asked_and_as_small_as_asked(ranges: list[Range], splitting: Splitting) -> None:
    tasks = tasks_of(ranges, splitting)
    total = sum(one.length for one in ranges)
    if splitting.partitions_min is not None:
        assert len(tasks) >= min(splitting.partitions_min, total)
    if splitting.records_max is not None:
        assert all(sum(piece.length for piece in task) <= splitting.records_max for task in tasks)


def test_small_partitions_share_a_task_and_large_ones_are_not_cut_unasked() -> None:
    ranges = [Range(place(index), 0, 10) for index in range(32)]
    assert len(tasks_of(ranges, Splitting())) == 1
    assert [len(task) for task in tasks_of([Range(place(0), 0, 10_000_000)], Splitting())] == [1]
    assert len(tasks_of([Range(place(index), 0, 1_000_000) for index in range(4)], Splitting())) == 4


@given(st.dictionaries(st.integers(), st.integers(1, 10_000), min_size=1), st.integers(1, 20_000))
def test_shares_are_fair_and_use_up_what_there_is(waiting: dict[int, int], total: int) -> None:
    shares = fair_shares(waiting, total)
    everything = sum(waiting.values())
    assert sum(shares.values()) == min(total, everything)
    for key, count in waiting.items():
        assert 0 <= shares[key] <= count
        if total < everything:
            assert abs(shares[key] - count * total / everything) < 1


@given(ends, ends, st.integers(1, 10_000))
def test_a_limit_is_kept_and_something_always_moves(
    start: dict[TopicPartition, int], available: dict[TopicPartition, int], count_max: int
) -> None:
    end = limited(start, available, count_max)
    taken = sum(one.length for one in ranges_between(start, end))
    waiting = sum(one.length for one in ranges_between(start, available))
    assert taken == min(count_max, waiting)
    assert end.keys() == available.keys()


@given(ends, ends, st.dictionaries(places, st.floats(0.01, 1e6)), st.integers(1, 10**9))
def test_a_limit_of_bytes_moves_on_too(
    start: dict[TopicPartition, int],
    available: dict[TopicPartition, int],
    sizes: dict[TopicPartition, float],
    bytes_max: int,
) -> None:
    end = limited_in_bytes(start, available, sizes, bytes_max)
    assert all(
        start.get(where, 0) <= end[where] <= offset or end[where] == offset for where, offset in available.items()
    )
    assert bool(ranges_between(start, end)) == bool(ranges_between(start, available))


@given(ends, st.none() | ends, st.none() | st.builds(Group, st.text(), st.text()))
def test_progress_survives_the_checkpoint(
    ends: dict[TopicPartition, int], began: dict[TopicPartition, int] | None, group: Group | None
) -> None:
    assert Progress.from_json(Progress(ends, began, group).as_json()) == Progress(ends, began, group)


def test_progress_looks_like_the_connectors() -> None:
    progress = Progress({place(1, "orders"): 7, place(0, "orders"): 5})
    assert progress.as_json() == {"orders": {"0": 5, "1": 7}}


def test_the_first_batch_remembers_where_it_began_and_later_ones_do_not() -> None:
    group = Group("g", "here:9092")
    begin = Progress({place(0): 5}, {place(0): 5}, group)
    first = begin.then({place(0): 9}, group)
    second = first.then({place(0): 12}, group)
    assert (first.began, second.began) == ({place(0): 5}, None)
    assert second.group == group
