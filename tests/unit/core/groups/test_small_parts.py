import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.groups.deadlines import Deadlines
from ottla.core.groups.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("a", 97), ("test-group", 627841412), ("polygenelubricants", -(2**31)), ("𝄞", 1772394)]
)
def test_a_string_hashes_as_in_java(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_the_one_hash_without_a_positive_twin_goes_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert 0 <= partition_for("test-group", 50) < 50


steps = st.lists(
    st.tuples(st.sampled_from(("set", "cancel", "due")), st.sampled_from("abc"), st.integers(0, 50)), max_size=60
)


@given(steps=steps)
@settings(max_examples=200, deadline=None)
def test_deadlines_come_due_like_those_of_a_plain_table(steps: list[tuple[str, str, int]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    table: dict[str, int] = {}
    now_ms = 0
    for step, key, delay_ms in steps:
        if step == "set":
            deadlines.set(key, now_ms + delay_ms)
            table[key] = now_ms + delay_ms
        elif step == "cancel":
            deadlines.cancel(key)
            table.pop(key, None)
        else:
            now_ms += delay_ms
            expected = sorted(key for key, at_ms in table.items() if at_ms <= now_ms)
            assert sorted(deadlines.due(now_ms)) == expected
            for gone in expected:
                del table[gone]
        next_ms = deadlines.next_ms()
        assert not table or (next_ms is not None and next_ms <= min(table.values()))


def test_a_deadline_that_only_moves_later_has_one_place_in_the_heap() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for at_ms in range(1_000):
        deadlines.set("a", at_ms)
    assert len(deadlines._heap) == 1
