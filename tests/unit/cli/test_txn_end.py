"""Ending transactions that do not stand still while an operator looks at them; the cluster is a script."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.cli.failure import Failed
from ottla.cli.transactions import Transaction
from ottla.cli.txn_end import _commit_prepared, _fence, _report
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest

OPEN = Transaction("mine", "Ongoing", 7, 3, 60_000, 1, (("orders", 0),), "here:1")
BUSY = int(ErrorCode.CONCURRENT_TRANSACTIONS)
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Scripted:
    """A coordinator that is asked three times at most: what it answers each time, and in which state it is then."""

    name = "here:1"

    def __init__(self, codes: list[int], states: list[tuple[str, int]], kept: tuple[int, int] = (7, 3)) -> None:
        self._codes, self._states, self._kept = iter(codes), iter(states), kept
        self.ended = False

    def coordinator(self, transactional_id: str) -> "Scripted":
        return self

    def attempts(self) -> Iterator[None]:
        yield from (None, None, None)

    def patiently(self, ask: Any, about: str, also: frozenset[ErrorCode] = frozenset()) -> Any:
        return ask()[1]

    def ask(self, request: Any, at_least: int = 0) -> Any:
        if isinstance(request, DescribeTransactionsRequest):
            state, epoch = next(self._states)
            told = SimpleNamespace(
                error_code=0, transactional_id="mine", transaction_state=state, producer_id=7, producer_epoch=epoch,
                transaction_timeout_ms=60_000, transaction_start_time_ms=1, topics=[],
            )  # fmt: skip
            return SimpleNamespace(transaction_states=[told])
        self.ended = self.ended or isinstance(request, EndTxnRequest)
        producer_id, epoch = self._kept
        return SimpleNamespace(
            error_code=next(self._codes), producer_id=7, producer_epoch=4,
            ongoing_txn_producer_id=producer_id, ongoing_txn_producer_epoch=epoch,
        )  # fmt: skip


def fence(codes: list[int], states: list[tuple[str, int]]) -> None:
    _fence(Scripted(codes, states), OPEN)  # type: ignore[arg-type]


def test_a_fence_holds_as_soon_as_the_transaction_is_not_the_open_one_any_more() -> None:
    fence([BUSY], [("PrepareAbort", 4)])
    fence([BUSY], [("Ongoing", 5)])
    fence([LOADING, BUSY], [("CompleteAbort", 4)])


def test_a_transaction_in_a_group_commit_is_left_alone() -> None:
    with pytest.raises(Failed, match="a commit that it is part of is under way"):
        fence([BUSY] * 3, [("Ongoing", 3)] * 3)


def test_a_transaction_that_has_ended_by_itself_was_not_aborted() -> None:
    with pytest.raises(Failed, match="had ended before it could be aborted"):
        fence([0], [])


def test_a_coordinator_that_stays_away_is_the_reason() -> None:
    with pytest.raises(Failed, match="mine: COORDINATOR_LOAD_IN_PROGRESS"):
        fence([LOADING] * 3, [])


@pytest.mark.parametrize(
    ("states", "committed", "complaint"),
    [
        (["PrepareCommit", "CompleteCommit"], False, "ended otherwise meanwhile: its state is complete-commit"),
        (["CompleteAbort"], True, "ended otherwise meanwhile: its state is complete-abort"),
        (["PrepareAbort"] * 3, False, r"is decided \(prepare-abort\), but not all partitions have been told yet"),
    ],
)
def test_what_did_not_come_about_is_not_claimed(states: list[str], committed: bool, complaint: str) -> None:
    with pytest.raises(Failed, match=complaint):
        _report(Scripted([], [(state, 4) for state in states]), OPEN, committed)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [(-1, -1), (7, 4)])
def test_another_transaction_than_the_one_that_was_shown_is_not_committed(kept: tuple[int, int]) -> None:
    brokers = Scripted([0, 0], [], kept)
    with pytest.raises(Failed, match="mine has changed meanwhile"):
        _commit_prepared(brokers, OPEN)  # type: ignore[arg-type]
    assert not brokers.ended
