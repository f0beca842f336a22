"""Very many groups, and very many members of one. How long that takes is measured in `bench`."""

import pytest

from bench.group_load import big_group, many_groups


@pytest.mark.timeout(300)
def test_ten_thousand_groups_are_small() -> None:
    figures = many_groups(10_000)
    print(figures)
    assert figures["10000 groups: memory MB"] <= 150


def test_two_hundred_members_share_one_rebalance() -> None:
    figures = big_group(200)
    print(figures)
    assert figures["200 members: rebalances"] == 1
