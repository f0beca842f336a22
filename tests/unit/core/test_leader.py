"""The leader's state machine: what is committed, and who is in sync."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.base.types import BrokerId, Epoch, Offset
from ottla.core.replication.leader import Leader, Leadership

LAG_MS = 30_000


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def term(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), min_isr: int = 1) -> Leadership:
    return Leadership(BrokerId(1), Epoch(5), ids(*replicas), frozenset(ids(*isr)), min_isr)


def lead(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, end: int = 0) -> Leader:
    return Leader(term(isr, replicas, min_isr), Offset(end), Offset(0), now_ms=0)


def test_a_lone_replica_commits_what_it_appends() -> None:
    leader = lead((1,), replicas=(1,))
    assert leader.on_append(Offset(7))
    assert leader.high_watermark == 7


def test_a_lone_replica_is_enough_whatever_min_insync_replicas_says() -> None:
    leader = lead((1,), replicas=(1,), min_isr=2)
    assert leader.has_enough_in_sync
    assert leader.on_append(Offset(1))


def test_committed_is_what_every_in_sync_replica_holds() -> None:
    leader = lead((1, 2, 3))
    leader.on_append(Offset(10))
    assert not leader.on_follower_fetch(BrokerId(2), Offset(8), 1)
    assert leader.high_watermark == 0
    assert leader.on_follower_fetch(BrokerId(3), Offset(5), 2)
    assert leader.high_watermark == 5


def test_the_high_watermark_stands_still_while_too_few_are_in_sync() -> None:
    leader = lead((1,), min_isr=2)
    assert not leader.has_enough_in_sync
    assert not leader.on_append(Offset(10))
    assert leader.high_watermark == 0


def test_a_silent_follower_leaves_the_in_sync_set_after_the_lag_time_and_not_before() -> None:
    leader = lead((1, 2, 3))
    leader.on_append(Offset(10))
    leader.on_follower_fetch(BrokerId(3), Offset(10), LAG_MS)
    assert leader.wanted_isr(LAG_MS) is None
    assert leader.wanted_isr(LAG_MS + 1) == {1, 3}


def test_a_follower_that_has_what_was_there_at_its_last_fetch_counts_as_caught_up_then() -> None:
    leader = lead((1, 2), replicas=(1, 2))
    leader.on_append(Offset(10))
    leader.on_follower_fetch(BrokerId(2), Offset(0), 20_000)
    leader.on_append(Offset(20))
    leader.on_follower_fetch(BrokerId(2), Offset(10), 40_000)
    assert leader.wanted_isr(20_000 + LAG_MS) is None
    assert leader.wanted_isr(20_000 + LAG_MS + 1) == {1}


def test_a_follower_joins_only_at_the_high_watermark_and_in_the_leaders_epoch() -> None:
    leader = lead((1, 2), end=50)
    leader.on_follower_fetch(BrokerId(2), Offset(50), 1)
    leader.on_follower_fetch(BrokerId(3), Offset(49), 1)
    assert leader.wanted_isr(2) is None
    leader.on_follower_fetch(BrokerId(3), Offset(50), 3)
    assert leader.wanted_isr(4) == {1, 2, 3}


def test_a_joining_follower_counts_before_the_controller_confirms_it() -> None:
    leader = lead((1,), replicas=(1, 2))
    leader.on_append(Offset(5))
    leader.on_follower_fetch(BrokerId(2), Offset(5), 1)
    leader.on_isr_proposed(ids(1, 2))
    assert not leader.on_append(Offset(9))
    assert leader.high_watermark == 5
    assert leader.on_follower_fetch(BrokerId(2), Offset(9), 2)


class LeaderMachine(RuleBasedStateMachine):
    """Random fetches, appends and in-sync changes against the definition of committed."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = lead((1, 2, 3))
        self.held = {2: 0, 3: 0}
        self.now_ms = 0
        self.highest = 0

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.leader.on_append(Offset(self.leader.end + count))

    @rule(replica=st.sampled_from([2, 3]), part=st.floats(0, 1), later_ms=st.integers(0, LAG_MS))
    def fetch(self, replica: int, part: float, later_ms: int) -> None:
        self.now_ms += later_ms
        self.held[replica] = max(self.held[replica], int(self.leader.end * part))
        self.leader.on_follower_fetch(BrokerId(replica), Offset(self.held[replica]), self.now_ms)

    @precondition(lambda self: self.leader.wanted_isr(self.now_ms) is not None)
    @rule(is_confirmed=st.booleans())
    def change_in_sync_set(self, is_confirmed: bool) -> None:
        wanted = self.leader.wanted_isr(self.now_ms)
        assert wanted is not None
        self.leader.on_isr_proposed(wanted)
        if is_confirmed:
            self.leader.on_term(term(tuple(wanted)))

    @invariant()
    def what_is_committed_is_on_every_in_sync_replica_and_stays_committed(self) -> None:
        for replica in self.leader.term.isr - {1}:
            assert self.held[replica] >= self.leader.high_watermark
        assert self.leader.high_watermark <= self.leader.end
        assert self.leader.high_watermark >= self.highest
        self.highest = self.leader.high_watermark


TestLeaderMachine = LeaderMachine.TestCase


@given(ends=st.lists(st.integers(0, 100), min_size=2, max_size=2))
def test_the_high_watermark_is_the_least_end_in_sync(ends: list[int]) -> None:
    leader = lead((1, 2, 3))
    leader.on_append(Offset(100))
    leader.on_follower_fetch(BrokerId(2), Offset(ends[0]), 1)
    leader.on_follower_fetch(BrokerId(3), Offset(ends[1]), 1)
    assert leader.high_watermark == min(ends)
