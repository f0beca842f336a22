from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.groups.assignors import ASSIGNORS
from ottla.core.groups.assignors.model import Assignee
from ottla.core.groups.records import NO_PARTITIONS, Partitions

T, U, V = (letter * 16 for letter in (b"t", b"u", b"v"))
uniform, ranges = ASSIGNORS["uniform"], ASSIGNORS["range"]

counts = st.dictionaries(st.sampled_from((T, U, V)), st.integers(0, 12), min_size=1)
Draw = Callable[..., object]


@st.composite
def groups(draw: st.DrawFn, same: bool = False) -> tuple[dict[str, Assignee], dict[bytes, int]]:
    """Members with any subscriptions, and former targets that may be stale, doubled or of other topics."""
    sizes = draw(counts)
    everything = sorted((topic, number) for topic in (T, U, V) for number in range(14))
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
    topics = frozenset(sizes)
    assignees = {}
    for name in names:
        wanted = topics if same else frozenset(draw(st.sets(st.sampled_from(sorted(topics)))))
        former = frozenset(draw(st.sets(st.sampled_from(everything), max_size=15)))
        assignees[name] = Assignee(draw(st.none() | st.just("i" + name)), wanted, former)
    return assignees, sizes


def check_cover(assignees: dict[str, Assignee], sizes: dict[bytes, int], result: dict[str, Partitions]) -> None:
    assert set(result) == set(assignees)
    given_out = [place for share in result.values() for place in share]
    subscribed = {topic for assignee in assignees.values() for topic in assignee.topic_ids}
    assert sorted(given_out) == sorted((topic, n) for topic in subscribed for n in range(sizes[topic]))
    for name, share in result.items():
        assert {topic for topic, _ in share} <= assignees[name].topic_ids


@pytest.mark.parametrize("name", ["uniform", "range"])
@given(group=groups())
@settings(max_examples=80, deadline=None)
def test_every_subscribed_partition_goes_to_exactly_one_subscriber(
    name: str, group: tuple[dict[str, Assignee], dict[bytes, int]]
) -> None:
    check_cover(*group, ASSIGNORS[name](*group))


@given(group=groups(same=True))
@settings(max_examples=80, deadline=None)
def test_equal_subscriptions_give_loads_that_differ_by_one_at_most(
    group: tuple[dict[str, Assignee], dict[bytes, int]],
) -> None:
    loads = [len(share) for share in uniform(*group).values()]
    assert max(loads) - min(loads) <= 1


@given(group=groups())
@settings(max_examples=80, deadline=None)
def test_no_single_move_would_make_the_loads_more_equal(group: tuple[dict[str, Assignee], dict[bytes, int]]) -> None:
    assignees, _ = group
    result = uniform(*group)
    for share in result.values():
        for topic, _ in share:
            for other, assignee in assignees.items():
                assert topic not in assignee.topic_ids or len(share) <= len(result[other]) + 1


@given(group=groups())
@settings(max_examples=80, deadline=None)
def test_what_is_balanced_stays_as_it_is(group: tuple[dict[str, Assignee], dict[bytes, int]]) -> None:
    assignees, sizes = group
    first = uniform(assignees, sizes)
    again = {name: assignee._replace(assigned=first[name]) for name, assignee in assignees.items()}
    assert uniform(again, sizes) == first


def test_a_newcomer_costs_no_more_moves_than_its_share() -> None:
    sizes = {T: 100}
    old = {f"m{n}": Assignee(None, frozenset((T,)), NO_PARTITIONS) for n in range(4)}
    first = uniform(old, sizes)
    everybody = {name: a._replace(assigned=first[name]) for name, a in old.items()}
    everybody["new"] = Assignee(None, frozenset((T,)), NO_PARTITIONS)
    second = uniform(everybody, sizes)
    assert sum(len(second[name] - first[name]) for name in old) == 0
    assert len(second["new"]) == 20


def test_ranges_are_neighbours_and_alike_for_topics_of_equal_size() -> None:
    topics = frozenset((T, U))
    result = ranges({name: Assignee(None, topics, NO_PARTITIONS) for name in "cab"}, {T: 7, U: 7})
    numbers = {name: [sorted(n for t, n in share if t == topic) for topic in (T, U)] for name, share in result.items()}
    assert numbers == {"a": [[0, 1, 2]] * 2, "b": [[3, 4]] * 2, "c": [[5, 6]] * 2}


def test_a_static_member_keeps_its_place_in_the_ranges_under_a_new_id() -> None:
    def share_of_b(member_id: str) -> Partitions:
        members = {"a": Assignee("one", frozenset((T,)), NO_PARTITIONS)}
        members[member_id] = Assignee("two", frozenset((T,)), NO_PARTITIONS)
        return ranges(members, {T: 5})[member_id]

    assert share_of_b("zzz") == share_of_b("000")


def test_nobody_gets_nothing() -> None:
    assert uniform({}, {T: 3}) == ranges({}, {T: 3}) == {}
