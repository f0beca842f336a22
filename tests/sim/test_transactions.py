"""Transactions under faults: random worlds, every law after every event, and nothing left open once the faults stop."""

import pytest

from tests.sim.transactions_groups import run_groups
from tests.sim.transactions_scenario import Kind, run

SEEDS_PER_TEST = 50
SEEDS_PER_KIND = 500
SEEDS_OF_GROUPS = 200


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("first", range(0, SEEDS_PER_KIND, SEEDS_PER_TEST))
def test_transactions_commit_whole_or_not_at_all(kind: Kind, first: int) -> None:
    committed = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            committed += run(kind, seed).laws.committed_count
        except BaseException:
            print(f"replay: tests.sim.transactions_scenario.run(Kind.{kind.name}, {seed})")
            raise
    assert committed > SEEDS_PER_TEST, "these worlds do too little to prove anything"


@pytest.mark.parametrize("first", range(0, SEEDS_OF_GROUPS, SEEDS_PER_TEST))
def test_a_group_of_transactions_commits_whole_and_once_or_not_at_all(first: int) -> None:
    acknowledged = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            acknowledged += len(run_groups(seed).acknowledged)
        except BaseException:
            print(f"replay: tests.sim.transactions_groups.run_groups({seed})")
            raise
    assert acknowledged > SEEDS_PER_TEST, "these worlds do too little to prove anything"
