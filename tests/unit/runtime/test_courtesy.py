"""A thread that computes makes room for the loop, and only for a loop that wants it."""

import threading
import time

import pytest

from ottla.runtime import courtesy
from ottla.runtime.courtesy import REST_SECONDS_MAX, REST_SECONDS_MIN, WORK_SECONDS, Courtesy


class Clocks:
    """The time of the thread, which passes where it sleeps, and the processor time of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.loop = 100.0, 5.0
        self.rests: list[float] = []
        monkeypatch.setattr(courtesy.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(courtesy.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


def test_a_loop_that_does_nothing_is_left_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pause = Courtesy(lambda: clocks.loop)
    pause()
    clocks.rests.clear()
    for _ in range(10):
        clocks.now += 2 * WORK_SECONDS
        pause()
    assert clocks.rests == []


def test_a_loop_that_runs_is_left_more_time_the_more_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pause = Courtesy(lambda: clocks.loop)
    pause()
    clocks.rests.clear()
    for ran in (0.000001, 0.0001, 0.0005, 1.0):
        clocks.now += 2 * WORK_SECONDS
        clocks.loop += ran
        pause()
    assert clocks.rests == [REST_SECONDS_MIN, pytest.approx(0.0002), pytest.approx(0.001), REST_SECONDS_MAX]


def test_the_thread_works_for_a_moment_between_two_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pause = Courtesy(lambda: clocks.loop)
    pause()
    clocks.rests.clear()
    for _ in range(9):
        clocks.now += WORK_SECONDS / 10
        clocks.loop += WORK_SECONDS / 10
        pause()
    assert clocks.rests == []


def test_the_processor_time_of_the_loops_thread_is_what_counts() -> None:
    pause, found = Courtesy(), []

    def look() -> None:
        found.append(pause._loop_seconds())

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
    assert 0.02 <= found[1] - found[0] < 1
