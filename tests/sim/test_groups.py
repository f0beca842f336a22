"""Groups under faults: random worlds, every law after every event, and peace once the faults stop."""

import pytest

from tests.sim.groups_scenario import Kind, run

SEEDS_PER_TEST = 50
SEEDS_PER_KIND = 750


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("first", range(0, SEEDS_PER_KIND, SEEDS_PER_TEST))
def test_a_group_shares_its_work_without_doubling_or_losing_any(kind: Kind, first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            run(kind, seed)
        except BaseException:
            print(f"replay: tests.sim.groups_scenario.run(Kind.{kind.name}, {seed})")
            raise
