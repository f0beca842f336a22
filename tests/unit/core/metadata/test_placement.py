from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.entries import BrokerImage
from ottla.core.metadata.placement import place_replicas


def broker(id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(id, 0, bytes(16), (), {}, rack, fenced, False, ())


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 30),
    st.integers(1, 5),
    st.integers(0, 1000),
)
@settings(max_examples=150)
def test_replicas_are_different_brokers_on_as_many_racks_as_can_be(
    kinds: list[tuple[str | None, bool]], count: int, factor: int, seed: int
) -> None:
    brokers = [broker(at, rack, fenced) for at, (rack, fenced) in enumerate(kinds)]
    usable = [b for b in brokers if b.is_usable]
    if factor > len(brokers) or not usable:
        with pytest.raises(Refused) as refusal:
            place_replicas(brokers, count, factor, Random(seed))
        assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place_replicas(brokers, count, factor, Random(seed))
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert brokers[replicas[0]].is_usable, "a fenced broker leads"
        chosen_usable = [r for r in replicas if brokers[r].is_usable]
        assert len(chosen_usable) == min(factor, len(usable)), "a fenced broker took the place of another"
        racks = {brokers[r].rack for r in chosen_usable}
        assert len(racks) == min(len(chosen_usable), len({b.rack for b in usable}))


def test_leaders_are_spread_evenly() -> None:
    placed = place_replicas([broker(at) for at in range(5)], 100, 3, Random(3))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {20}


def test_followers_of_one_leader_differ() -> None:
    placed = place_replicas([broker(at) for at in range(4)], 40, 2, Random(3))
    followers = {follower for leader, follower in placed if leader == placed[0][0]}
    assert len(followers) == 3
