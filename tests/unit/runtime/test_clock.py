from __future__ import annotations

import asyncio

from ottla.runtime.clock import AttendedClock


class Steady:
    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


def test_attended_clock_goes_with_the_steady_one_while_somebody_looks() -> None:
    steady = Steady()
    clock = AttendedClock(steady)
    for _ in range(100):
        steady.ms += 200
        assert clock.now_ms() == steady.ms


def test_attended_clock_counts_a_pause_of_the_process_as_half_a_second_at_most() -> None:
    steady = Steady()
    clock = AttendedClock(steady)
    steady.ms += 3_600_000
    assert clock.now_ms() == 1_500
    steady.ms += 10
    assert clock.now_ms() == 1_510


def test_attended_clock_reaches_every_deadline_however_often_the_process_stalls() -> None:
    steady = Steady()
    clock = AttendedClock(steady)
    for _ in range(100):
        steady.ms += 2_000
        clock.now_ms()
    assert clock.now_ms() == 1_000 + 100 * 500


def test_attended_clock_that_is_started_takes_no_quiet_time_for_a_pause() -> None:
    async def scenario() -> None:
        steady = Steady()
        clock = AttendedClock(steady)
        clock.start()
        steady.ms += 400
        await asyncio.sleep(0.3)
        steady.ms += 400
        assert clock.now_ms() == 1_800
        clock.stop()

    asyncio.run(scenario())
