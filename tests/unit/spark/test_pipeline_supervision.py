"""When flows are started, tried again, given up, paused and over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.pipelines.supervision import WELL_AFTER_MS, State, Supervisor


def started(restarts_max: int = 2) -> Supervisor:
    supervisor = Supervisor({"a": restarts_max, "b": restarts_max})
    for name in supervisor.due(0):
        supervisor.started(name, 0)
    return supervisor


def test_everything_is_due_at_once() -> None:
    assert Supervisor({"a": 1, "b": 1}).due(0) == ["a", "b"]


def test_a_failure_is_followed_by_pauses_that_double_and_then_by_the_end() -> None:
    supervisor, now = started(), 0
    for expected in (1_000, 2_000):
        assert supervisor.failed("a", "broken", now) == expected
        assert supervisor.due(now + expected - 1) == [] and supervisor.due(now + expected) == ["a"]
        now += expected
        supervisor.started("a", now)
    assert supervisor.failed("a", "broken", now) is None
    assert (supervisor["a"].state, supervisor["a"].why) == (State.FAILED, "broken")
    assert supervisor.due(10**9) == []


def test_one_flow_that_fails_does_not_take_the_other() -> None:
    supervisor = started(0)
    supervisor.failed("a", "broken", 0)
    assert supervisor.running() == ["b"] and not supervisor.is_over


def test_who_ran_well_for_a_while_starts_counting_anew() -> None:
    supervisor = started(1)
    assert supervisor.failed("a", "x", 0) == 1_000
    supervisor.started("a", 1_000)
    assert supervisor.failed("a", "x", 1_000 + WELL_AFTER_MS) == 1_000
    assert supervisor["a"].restarts == 2


def test_pauses_do_not_grow_for_ever() -> None:
    supervisor = started(1000)
    pauses = []
    for _ in range(12):
        pauses.append(supervisor.failed("a", "x", 0))
        supervisor.started("a", 0) if supervisor["a"].start_ms == 0 else None
    assert pauses[-1] == 60_000


def test_a_run_is_over_when_all_have_finished_or_failed() -> None:
    supervisor = started(0)
    supervisor.finished("a")
    assert not supervisor.is_over
    supervisor.failed("b", "x", 0)
    assert supervisor.is_over


def test_a_paused_flow_keeps_a_run_alive_only_if_the_run_has_no_end() -> None:
    supervisor = started()
    supervisor.wish({"a", "b"}, 0)
    assert not supervisor.is_over
    supervisor = started()
    supervisor.finished("a")
    supervisor.wish({"b"}, 0)
    assert supervisor.is_over


def test_pausing_stops_and_going_on_forgives() -> None:
    supervisor = started(0)
    supervisor.failed("b", "x", 0)
    assert supervisor.wish({"a", "b"}, 5) == (["a"], [])
    assert supervisor.wish({"a", "b"}, 6) == ([], [])
    assert supervisor.wish(set(), 7) == ([], ["a", "b"])
    assert supervisor.due(7) == ["a", "b"] and supervisor["b"].why == ""


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "fail", "finish", "pause", "resume"]), st.sampled_from("ab"), st.integers(0, 99)
    )
)


@given(_EVENTS, st.integers(0, 3))
def test_whatever_happens_nobody_is_started_twice_or_more_often_than_allowed(
    events: list[tuple[str, str, int]], restarts_max: int
) -> None:
    supervisor = Supervisor({"a": restarts_max, "b": restarts_max})
    paused: set[str] = set()
    in_a_row = {"a": 0, "b": 0}
    now = 0
    for event, name, later in events:
        now += later * 1_000
        is_running = name in supervisor.running()
        if event == "start" and name in supervisor.due(now):
            assert not is_running and name not in paused
            supervisor.started(name, now)
        elif event == "fail" and is_running:
            if now - supervisor[name].start_ms >= WELL_AFTER_MS:
                in_a_row[name] = 0
            in_a_row[name] += 1
            assert (supervisor.failed(name, "x", now) is None) == (in_a_row[name] > restarts_max)
        elif event == "finish" and is_running:
            supervisor.finished(name)
        elif event in ("pause", "resume"):
            paused = paused | {name} if event == "pause" else paused - {name}
            _, going_on = supervisor.wish(paused, now)
            in_a_row |= dict.fromkeys(going_on, 0)
    stopped = supervisor.stop()
    assert supervisor.running() == [] and len(stopped) == len(set(stopped))


@pytest.mark.parametrize("state", [State.FINISHED, State.STOPPED])
def test_what_is_over_cannot_be_paused(state: State) -> None:
    supervisor = started()
    supervisor["a"].state = state
    supervisor.wish({"a"}, 0)
    assert supervisor["a"].state is state
