import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import VERIFICATIONS_MAX
from ottla.core.producers import Duplicate, ProducerTable
from ottla.wire.batch_header import TRANSACTIONAL, BatchHeader
from ottla.wire.control import EndTxnMarker

SEQUENCE_MAX = 2**31 - 1
DAY_MS = 86_400_000


def header(
    sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0, in_txn: bool = False, at: int = 0
) -> BatchHeader:
    attributes = TRANSACTIONAL if in_txn else 0
    return BatchHeader(0, 100, 0, 2, 0, attributes, count - 1, at, at, pid, epoch, sequence, count)


def commit(*, pid: int = 7, epoch: int = 0, coordinator: int = 0) -> EndTxnMarker:
    return EndTxnMarker(pid, epoch, True, coordinator)


def refusal(table: ProducerTable, asked: BatchHeader, **how: bool) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        table.check(asked, **how)
    return caught.value.code


def table_with(*batches: tuple[int, int], in_txn: bool = False) -> ProducerTable:
    """A table that has seen batches of (sequence, count), at the offsets of their sequences."""
    table = ProducerTable()
    for sequence, count in batches:
        table.apply(header(sequence, count, in_txn=in_txn, at=sequence), sequence)
    return table


def test_the_next_sequence_is_taken() -> None:
    assert table_with((0, 3)).check(header(3)) is None


def test_a_gap_in_the_sequence_is_refused() -> None:
    assert refusal(table_with((0, 3)), header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_seen_before_is_answered_with_its_first_offset() -> None:
    table = table_with((0, 3), (3, 2))
    assert table.check(header(0, 3)) == Duplicate(0, 0)
    assert table.check(header(3, 2)) == Duplicate(3, 3)


def test_an_old_sequence_with_another_end_is_no_duplicate() -> None:
    assert refusal(table_with((0, 3), (3, 2)), header(3, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered_and_the_sixth_last_is_out_of_order() -> None:
    table = table_with(*((sequence, 1) for sequence in range(6)))
    assert table.check(header(1)) == Duplicate(1, 1)
    assert refusal(table, header(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_between_batches() -> None:
    table = ProducerTable()
    table.apply(header(SEQUENCE_MAX - 1, 2), 10)
    assert table.check(header(0)) is None
    assert refusal(table, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_within_a_batch() -> None:
    table = ProducerTable()
    table.apply(header(SEQUENCE_MAX, 3), 10)
    assert table.check(header(2)) is None
    assert table.check(header(SEQUENCE_MAX, 3)) == Duplicate(10, 0)


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    table = table_with((0, 3))
    assert table.check(header(0, epoch=1)) is None
    assert refusal(table, header(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_refused_even_if_the_batch_was_seen() -> None:
    table = table_with((0, 3))
    table.apply(header(0, epoch=1), 3)
    assert refusal(table, header(0, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_may_begin_anywhere_unless_it_bumps_its_epoch_with_each_transaction() -> None:
    table = ProducerTable()
    assert table.check(header(9)) is None
    assert refusal(table, header(9), supports_epoch_bump=True) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert table.check(header(0), supports_epoch_bump=True) is None


def test_a_batch_does_not_overtake_the_one_before_it_that_was_not_let_in() -> None:
    table = ProducerTable()
    table.begin_verification(7, 0, 0)
    table.begin_verification(7, 0, 1)
    assert refusal(table, header(1, in_txn=True), is_verified=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert table.check(header(0, in_txn=True), is_verified=True) is None
    table.apply(header(0, in_txn=True), 0)
    assert table.check(header(1, in_txn=True), is_verified=True) is None


def test_what_an_earlier_epoch_was_not_let_in_with_is_forgotten() -> None:
    table = ProducerTable()
    table.begin_verification(7, 0, 0)
    table.begin_verification(7, 1, 0)
    assert table.check(header(0, epoch=1, in_txn=True), is_verified=True) is None
    table.begin_verification(7, 0, -1)
    assert table.check(header(0, epoch=1, in_txn=True), is_verified=True) is None


def test_the_batches_that_wait_to_be_let_in_are_counted() -> None:
    table = ProducerTable()
    first = table.begin_verification(0, 0, 0)
    for producer_id in range(1, VERIFICATIONS_MAX):
        last = table.begin_verification(producer_id, 0, 0)
    assert table.is_verified(0, first)
    table.begin_verification(VERIFICATIONS_MAX, 0, 0)
    assert not table.is_verified(0, first)
    assert table.is_verified(VERIFICATIONS_MAX - 1, last)


def test_a_transactional_batch_needs_a_transaction_that_is_open_or_verified() -> None:
    assert refusal(ProducerTable(), header(0, in_txn=True), is_verified=False) == ErrorCode.INVALID_TXN_STATE
    assert ProducerTable().check(header(0, in_txn=True), is_verified=True) is None
    ongoing = table_with((0, 1), in_txn=True)
    assert ongoing.check(header(1, in_txn=True), is_verified=False) is None


def test_a_plain_batch_in_the_middle_of_a_transaction_is_refused() -> None:
    assert refusal(table_with((0, 1), in_txn=True), header(1)) == ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_holds_the_first_unstable_offset() -> None:
    table = ProducerTable()
    table.apply(header(0, pid=1, in_txn=True), 10)
    table.apply(header(0, pid=2, in_txn=True), 20)
    table.apply(header(1, pid=1, in_txn=True), 30)
    assert table.first_unstable_offset == 10


def test_an_ended_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    table = ProducerTable()
    table.apply(header(0, pid=1, in_txn=True), 10)
    table.apply(header(0, pid=2, in_txn=True), 20)
    completed = table.end_transaction(commit(pid=1), 30, 0)
    assert completed == (1, 10, 30, False, 20)
    assert table.first_unstable_offset == 10
    table.advance_high_watermark(30)
    assert table.first_unstable_offset == 10
    table.advance_high_watermark(31)
    assert table.first_unstable_offset == 20
    assert table.end_transaction(EndTxnMarker(2, 0, False, 0), 40, 0) == (2, 20, 40, True, 41)
    table.advance_high_watermark(41)
    assert table.first_unstable_offset is None


def test_a_marker_for_a_transaction_without_data_completes_nothing() -> None:
    assert ProducerTable().end_transaction(commit(), 5, 0) is None


def test_after_a_marker_with_a_higher_epoch_the_producer_begins_anew() -> None:
    table = table_with((0, 3), in_txn=True)
    table.end_transaction(commit(epoch=1), 3, 0)
    assert table.check(header(0, epoch=1, in_txn=True)) is None
    assert refusal(table, header(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(table, header(3, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_marker_with_the_same_epoch_the_sequence_goes_on() -> None:
    table = table_with((0, 3), in_txn=True)
    table.end_transaction(commit(), 3, 0)
    assert table.check(header(3, in_txn=True)) is None


def marker_refusal(table: ProducerTable, marker: EndTxnMarker, version: int) -> ErrorCode | None:
    try:
        table.check_marker(marker, version)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "refused"),
    [
        (1, 5, True, None),
        (1, 6, True, None),
        (1, 4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, True, None),
        (2, 5, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, False, None),
        (2, 4, False, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_the_epoch_of_a_marker(version: int, epoch: int, is_open: bool, refused: ErrorCode | None) -> None:
    table = ProducerTable()
    table.apply(header(0, epoch=5, in_txn=is_open), 0)
    assert marker_refusal(table, commit(epoch=epoch), version) == refused


def test_a_marker_of_an_old_coordinator_is_fenced() -> None:
    table = table_with((0, 1), in_txn=True)
    table.end_transaction(commit(coordinator=3), 1, 0)
    assert marker_refusal(table, commit(coordinator=2), 1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert marker_refusal(table, commit(coordinator=3), 1) is None


def test_an_idle_producer_is_forgotten_but_never_one_with_an_open_transaction() -> None:
    table = ProducerTable()
    table.apply(header(0, pid=1), 0)
    table.apply(header(0, pid=2, in_txn=True), 1)
    assert table.remove_expired(DAY_MS - 1) == []
    assert table.remove_expired(DAY_MS) == [1]
    assert [producer.producer_id for producer in table] == [2]


def test_a_snapshot_keeps_the_last_batch_and_the_open_transaction() -> None:
    table = table_with((0, 3), (3, 2), in_txn=True)
    restored = ProducerTable()
    restored.restore(table.snapshot(), now_ms=0)
    assert restored.snapshot() == table.snapshot()
    assert restored.first_unstable_offset == 0
    assert restored.check(header(3, 2, in_txn=True)) == Duplicate(3, 3)
    assert refusal(restored, header(0, 3, in_txn=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert restored.check(header(5, in_txn=True)) is None


def test_what_expired_while_the_node_was_down_is_not_restored() -> None:
    restored = ProducerTable()
    restored.restore(table_with((0, 1)).snapshot(), now_ms=DAY_MS)
    assert len(restored) == 0


class TableAgainstWholeHistory(RuleBasedStateMachine):
    """The reference keeps every batch that was ever written, and answers by searching through them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ProducerTable()
        self.history: list[tuple[int, int, int, int, int, bool]] = []
        """Producer, epoch, first and last sequence, offset, in a transaction; a marker has sequences -1."""
        self.end = self.high_watermark = 0

    @rule(
        pid=st.integers(0, 2),
        epoch=st.integers(0, 2),
        back=st.integers(0, 7),
        count=st.integers(1, 3),
        in_txn=st.booleans(),
    )
    def produce(self, pid: int, epoch: int, back: int, count: int, in_txn: bool) -> None:
        mine = [entry for entry in self.history if entry[0] == pid]
        current = [entry for entry in mine if entry[1] == epoch and entry[2] >= 0]
        following = current[-1][3] + 1 if current else 0
        first = max(following - back, 0) if back < 6 else following
        asked = header(first, count, pid=pid, epoch=epoch, in_txn=in_txn)
        expected = self.expected(mine, current, asked)
        try:
            got: object = self.table.check(asked)
        except Refused as refused:
            got = refused.code
        assert got == expected
        if got is None:
            self.table.apply(asked, self.end)
            self.history.append((pid, epoch, first, first + count - 1, self.end, in_txn))
            self.end += count

    def expected(
        self,
        mine: list[tuple[int, int, int, int, int, bool]],
        current: list[tuple[int, int, int, int, int, bool]],
        asked: BatchHeader,
    ) -> object:
        if not mine:
            return None
        latest = mine[-1][1]
        first, last = asked.base_sequence, asked.last_sequence
        if asked.producer_epoch == latest:
            for entry in current[-5:]:
                if (entry[2], entry[3]) == (first, last):
                    return Duplicate(entry[4], 0)
        if asked.producer_epoch < latest:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if first != (current[-1][3] + 1 if current else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since(mine) is not None and not asked.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def open_since(self, mine: list[tuple[int, int, int, int, int, bool]]) -> int | None:
        since = None
        for _, _, first, _, offset, in_txn in mine:
            if first < 0:
                since = None
            elif in_txn and since is None:
                since = offset
        return since

    @rule(pid=st.integers(0, 2), bump=st.booleans())
    def end_transaction(self, pid: int, bump: bool) -> None:
        mine = [entry for entry in self.history if entry[0] == pid]
        since = self.open_since(mine)
        if since is None:
            return
        epoch = mine[-1][1] + bump
        completed = self.table.end_transaction(commit(pid=pid, epoch=epoch), self.end, 0)
        self.history.append((pid, epoch, -1, -1, self.end, False))
        still_open = [
            o for other in range(3) if (o := self.open_since([e for e in self.history if e[0] == other])) is not None
        ]
        self.end += 1
        assert completed is not None
        assert completed.first_offset == since
        assert completed.last_stable_offset == min(still_open, default=self.end)

    @rule(part=st.floats(0, 1))
    def replicate(self, part: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * part)
        self.table.advance_high_watermark(self.high_watermark)

    @invariant()
    def knows_the_first_unstable_offset(self) -> None:
        unstable = []
        for pid in range(3):
            mine = [entry for entry in self.history if entry[0] == pid]
            since = None
            for _, _, first, _, offset, in_txn in mine:
                if first < 0:
                    if since is not None and offset >= self.high_watermark:
                        unstable.append(since)
                    since = None
                elif in_txn and since is None:
                    since = offset
            if since is not None:
                unstable.append(since)
        assert self.table.first_unstable_offset == min(unstable, default=None)


TableAgainstWholeHistory.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestTableAgainstWholeHistory = TableAgainstWholeHistory.TestCase
