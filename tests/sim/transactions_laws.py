"""The laws of transactions, asserted after every event that could break one.

T1 no two producers hold the same producer id and epoch. T2 one coordinator per coordinator epoch. T3 only legal steps
from state to state. T4 the last stable offset never moves back, and no open transaction lies below it. T5 a transaction
ends alike in all partitions, and as its producer was told. T6 no data of a transaction after its marker. T7 sequences
have no gaps, and a duplicate is answered with the original offset. T8 what a partition knows of producers survives a
restart. T9 no transaction stays open.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.core.transactions.records import Status, Transaction
from ottla.core.transactions.transitions import PREDECESSORS


class Value(NamedTuple):
    """What is written: one value of one transaction of one producer."""

    txn: "Txn"
    partition: int
    number: int


@dataclass(eq=False)
class Txn:
    """One transaction, as its producer knows it."""

    producer: str
    acked: list[Value] = field(default_factory=list)
    told: bool | None = None
    """Committed, aborted, or never heard."""
    may_commit: bool = False
    """Its producer has asked for it."""


class Laws:
    def __init__(self) -> None:
        self.owners: dict[tuple[int, int], str] = {}
        self.transactions: dict[str, dict[str, Transaction]] = {}
        """By coordinator."""
        self.fates: dict[Txn, bool] = {}
        self.ended: set[tuple[Txn, int]] = set()
        self.coordinator_epochs: list[int] = []
        self.committed_count = 0
        self.aborted_count = 0

    def on_identity(self, producer: str, producer_id: int, epoch: int) -> None:
        owner = self.owners.setdefault((producer_id, epoch), producer)
        assert owner == producer, f"T1: {producer} and {owner} are both {producer_id} at epoch {epoch}"

    def on_coordinator(self, epoch: int) -> None:
        assert epoch not in self.coordinator_epochs, f"T2: a second coordinator of epoch {epoch}"
        self.coordinator_epochs.append(epoch)

    def on_reload(self, coordinator: str, transactions: dict[str, Transaction]) -> None:
        self.transactions[coordinator] = transactions

    def on_transaction(self, coordinator: str, transactional_id: str, after: Transaction | None) -> None:
        known = self.transactions[coordinator]
        before = known.get(transactional_id)
        if after is None:
            del known[transactional_id]
            return
        if before is None:
            assert after.status is Status.EMPTY, f"T3: begins as {after.status.name}"
        else:
            legal = before.status in PREDECESSORS[after.status]
            assert legal, f"T3: {after.status.name} after {before.status.name}"
            if before.producer_id == after.producer_id:
                assert 0 <= after.epoch - before.epoch <= 2, f"T3: epoch {after.epoch} after {before.epoch}"
            if before.status is Status.ONGOING:
                assert before.partitions <= after.partitions, "T3: partitions got lost"
        known[transactional_id] = after

    def on_data(self, value: Value) -> None:
        is_ended = (value.txn, value.partition) in self.ended
        assert not is_ended, f"T6: {value} is written after the marker of its transaction"

    def on_duplicate(self, found: Any, value: Value) -> None:
        assert found == value, f"T7: {value} was taken for {found}"

    def on_sequences(self, sequences: list[int]) -> None:
        assert sequences == list(range(len(sequences))), f"T7: sequences {sequences}"

    def on_fate(self, value: Value, committed: bool) -> None:
        self.ended.add((value.txn, value.partition))
        fate = self.fates.setdefault(value.txn, committed)
        assert fate == committed, f"T5: {value.txn.producer} is torn: {value} committed={committed}"
        assert value.txn.may_commit or not committed, f"T5: nobody asked to commit {value}"
        if value.txn.told is not None:
            assert value.txn.told == committed, f"T5: told committed={value.txn.told}, and {value} is not"

    def on_told(self, txn: Txn, committed: bool) -> None:
        txn.told = committed
        if committed:
            self.committed_count += 1
        else:
            self.aborted_count += 1
        assert self.fates.get(txn, committed) == committed, f"T5: told committed={committed}, and it is not so"

    def on_stable_offset(self, before: int, after: int, end: int, open_from: int | None) -> None:
        assert before <= after <= end, f"T4: last stable offset {after} after {before}, end {end}"
        assert open_from is None or after <= open_from, "T4: an open transaction lies below the last stable offset"

    def on_restart(self, before: list[Any], after: list[Any]) -> None:
        assert before == after, f"T8: knew {before}, knows {after}"

    def check_end(self, txns: list[Txn], visible: list[list[Value]]) -> None:
        """When all is quiet: T9, and that every acknowledged value of a committed transaction is there once."""
        for known in self.transactions.values():
            for transactional_id, transaction in known.items():
                quiet = transaction.status is Status.EMPTY or transaction.status.is_complete
                assert quiet, f"T9: {transactional_id} is still {transaction.status.name}"
        seen = [value for values in visible for value in values]
        assert len(seen) == len(set(seen)), "T5: a value is there twice"
        written = set(seen)
        for txn in txns:
            if txn.told is True:
                lost = [value for value in txn.acked if value not in written]
                assert not lost, f"T5: committed and lost: {lost}"
            elif txn.told is False:
                assert not [value for value in txn.acked if value in written], "T5: aborted and visible"
