"""The shape against the thing itself: a list with the epoch of every record."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.quorum.log_shape import LogShape
from ottla.core.quorum.messages import SnapshotId

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("truncate"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("snapshot"), st.integers(0, 100), st.just(0)),
    ),
    max_size=30,
)


@given(steps)
@settings(max_examples=200)
def test_the_shape_answers_like_the_list_of_epochs(steps: list[tuple[str, int, int]]) -> None:
    shape, epochs, start = LogShape(), list[int](), 0
    for step, number, count in steps:
        if step == "append":
            epoch = max(shape.last_epoch, 1) + number
            assert shape.append(epoch, count) == len(epochs)
            epochs += [epoch] * count
        elif step == "truncate" and len(epochs) > start:
            offset = start + number % (len(epochs) - start)
            shape.truncate(offset)
            del epochs[offset:]
        elif step == "snapshot" and epochs:
            start = start + number % (len(epochs) - start + 1)
            shape.begin_at(SnapshotId(start, epochs[start - 1] if start else 0))
        check(shape, epochs, start)


def check(shape: LogShape, epochs: list[int], start: int) -> None:
    assert shape.end_offset == len(epochs) and shape.start.end_offset == start
    assert shape.last_epoch == (epochs[-1] if epochs else 0)
    offsets = [offset for _, offset in shape.epochs]
    assert offsets == sorted(set(offsets)) and all(start <= offset < len(epochs) for offset in offsets)
    for offset in range(start, len(epochs) + 1):
        before = epochs[offset - 1] if offset else 0
        assert shape.epoch_at(offset) == before
        for epoch in range(max(epochs, default=0) + 2):
            assert shape.holds(epoch, offset) == (epoch == before), (epoch, offset)
    for epoch in range(max(epochs, default=0) + 2):
        end = max((at + 1 for at, one in enumerate(epochs) if one <= epoch and at >= start), default=start)
        assert shape.end_of(epoch)[1] == end


def test_a_snapshot_from_elsewhere_takes_the_place_of_the_log() -> None:
    shape = LogShape()
    shape.append(1, 5)
    generation = shape.generation
    shape.restart_at(SnapshotId(20, 3))
    assert (shape.end_offset, shape.flushed_end, shape.last_epoch, shape.epochs) == (20, 20, 3, [])
    assert shape.generation > generation
    assert shape.append(4, 2) == 20
