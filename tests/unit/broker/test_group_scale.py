"""Very many groups, and very many members of one. The bounds are promises of the project, not of this machine."""

import pytest

from bench.group_load import big_group, many_groups


@pytest.mark.timeout(300)
def test_ten_thousand_groups_are_small_and_soon_there_after_a_restart() -> None:
    figures = many_groups(10_000)
    print(figures)
    assert figures["10000 groups: memory MB"] <= 150
    assert figures["10000 groups: load s"] <= 3


def test_two_hundred_members_share_one_rebalance() -> None:
    figures = big_group(200)
    print(figures)
    assert figures["200 members: rebalances"] == 1
    assert figures["200 members: assigned after s"] <= 5
