"""Rows that come while others are being written go together; none is lost, doubled or overtaken, whatever fails."""

import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.sink import gathering
from ottla.spark.sink.gathering import COMPANY_ROWS, Gathering


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.int64())})


def assert_true(is_so: bool) -> None:
    assert is_so


class Writer:
    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.writes: list[list[int]] = []
        self._before = before

    @property
    def written(self) -> list[int]:
        return [value for write in self.writes for value in write]

    def write(self, rows: pa.RecordBatch) -> None:
        self._before()
        self.writes.append(rows.column("value").to_pylist())


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3 * COMPANY_ROWS // 2), max_size=12))
def test_all_rows_are_written_in_their_order(batches: list[list[int]]) -> None:
    writer = Writer()
    with Gathering(writer) as together:
        for batch in batches:
            together.write(rows(*batch))
    assert writer.written == [value for batch in batches for value in batch]
    assert all(len(write) <= COMPANY_ROWS or write in batches for write in writer.writes)


def test_a_row_does_not_wait_for_another() -> None:
    was_written = threading.Event()
    writer = Writer(was_written.set)
    with Gathering(writer) as together:
        together.write(rows(1))
        assert was_written.wait(10)


def test_what_comes_while_others_are_written_goes_together() -> None:
    is_writing, may_go_on = threading.Event(), threading.Event()

    def hesitate() -> None:
        is_writing.set()
        assert may_go_on.wait(10)

    writer = Writer(hesitate)
    with Gathering(writer) as together:
        together.write(rows(0))
        assert is_writing.wait(10)
        for number in range(1, 6):
            together.write(rows(number))
        may_go_on.set()
    assert writer.writes == [[0], [1, 2, 3, 4, 5]]


def test_what_fails_is_told_to_whoever_comes_next_and_nothing_is_written_behind_it() -> None:
    def fail() -> None:
        raise ValueError("no room")

    writer = Writer(fail)
    with pytest.raises(ValueError, match="no room"), Gathering(writer) as together:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            together.write(rows(1))
    assert writer.writes == []


def test_what_fails_last_is_told_at_the_end() -> None:
    def fail() -> None:
        time.sleep(0.05)
        raise ValueError("fenced")

    with pytest.raises(ValueError, match="fenced"), Gathering(Writer(fail)) as together:
        together.write(rows(1))


def test_behind_a_failure_elsewhere_nobody_writes_any_more() -> None:
    is_writing, may_go_on = threading.Event(), threading.Event()

    def hesitate() -> None:
        is_writing.set()
        assert may_go_on.wait(10)

    writer = Writer(hesitate)

    def take() -> None:
        with Gathering(writer) as together:
            together.write(rows(1))
            assert is_writing.wait(10)
            together.write(rows(2))
            threading.Timer(0.05, may_go_on.set).start()
            raise KeyError("the task is killed")

    with pytest.raises(KeyError):
        take()
    assert writer.written == [1]


def test_who_brings_more_than_can_wait_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WAITING_ROWS_MAX", 3)
    may_go_on = threading.Event()
    writer = Writer(lambda: assert_true(may_go_on.wait(10)))
    brought: list[int] = []

    def bring() -> None:
        with Gathering(writer) as together:
            for number in range(20):
                together.write(rows(number))
                brought.append(number)

    bringing = threading.Thread(target=bring)
    bringing.start()
    time.sleep(0.2)
    assert len(brought) <= 6  # three that are being written, and three that wait
    may_go_on.set()
    bringing.join(10)
    assert writer.written == list(range(20))


def test_nothing_to_write_is_no_thread() -> None:
    before = threading.active_count()
    with Gathering(Writer()):
        assert threading.active_count() == before
