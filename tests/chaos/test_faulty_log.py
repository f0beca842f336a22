"""The judge against a log that breaks one promise, once, among clients that overlap."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.chaos import faulty_transactions
from tests.chaos.faulty_log import CRIMES, SOUND, World
from tests.chaos.faulty_transactions import TransactionWorld
from tools.chaos.checker import check

SEEDS = st.integers(0, 1 << 32)


@given(SEEDS, st.integers(1, 400))
@settings(max_examples=60)
def test_a_sound_log_is_never_accused(seed: int, steps: int) -> None:
    assert check(World(seed).run(steps)).illegal == {}


@pytest.mark.parametrize("crime", [crime for crime in CRIMES if crime != SOUND])
@given(seed=SEEDS)
@settings(max_examples=25)
def test_a_crime_is_found_whenever_it_was_done(crime: str, seed: int) -> None:
    world = World(seed, crime)
    found = check(world.run(400)).illegal
    assume(world.log.is_done)
    assert found.keys() & CRIMES[crime], found


@given(SEEDS)
@settings(max_examples=15)
def test_a_history_is_judged_by_its_times_not_by_the_order_of_its_lines(seed: int) -> None:
    ops = World(seed, "use an offset again").run(200)
    assert check(ops).anomalies.keys() == check(ops[::-1]).anomalies.keys()


@given(SEEDS, st.integers(1, 400))
@settings(max_examples=60)
def test_sound_transactions_are_never_accused(seed: int, steps: int) -> None:
    assert check(TransactionWorld(seed).run(steps)).illegal == {}


@pytest.mark.parametrize("crime", [crime for crime in faulty_transactions.CRIMES if crime != SOUND])
@given(seed=SEEDS)
@settings(max_examples=25)
def test_a_crime_against_transactions_is_found_whenever_it_was_done(crime: str, seed: int) -> None:
    world = TransactionWorld(seed, crime)
    found = check(world.run(400)).illegal
    assume(world.partitions.is_done)
    assert found.keys() & faulty_transactions.CRIMES[crime], found
