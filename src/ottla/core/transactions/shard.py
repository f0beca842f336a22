"""`TransactionShard`: the coordinator of all transactional ids of one partition of `__transaction_state`.

Every question ends in a `Decision`. What the log keeps changes only in `apply`; what may die with the coordinator
(markers under way, waiting answers, commits of groups that are not decided) changes when it is decided. The driver must
append and apply the records of one decision before it asks the next question.
"""

from collections.abc import Iterator
from itertools import count, islice
from random import Random

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.deadlines import Deadlines
from ottla.core.transactions import administration, asks, ending, partitions
from ottla.core.transactions.asks import Decision, Reply, Waiting
from ottla.core.transactions.codec import decode
from ottla.core.transactions.group_commit import GroupCommits
from ottla.core.transactions.initialising import check_shape, initialise
from ottla.core.transactions.markers import Markers
from ottla.core.transactions.outcome import EXPIRY, GROUP, MARKERS, PARKED, PIN, TIMEOUT, Due, Outcome
from ottla.core.transactions.parked import Parked
from ottla.core.transactions.pins import Pins, is_about
from ottla.core.transactions.records import (
    DecisionRecord,
    Pin,
    PinRecord,
    Record,
    Status,
    Transaction,
    TransactionRecord,
)
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.transitions import completed, fenced, needs_new_id, prepared

_ID_BYTES_MAX = 32_767
_AGAIN_MS = 1_000
"""When to look again at what was due, in case its records do not make it into the log."""

_EXPIRED_AT_ONCE_MAX = 1_000


class TransactionShard:
    __slots__ = (
        "_deadlines",
        "_groups",
        "_markers",
        "_parked",
        "_pins",
        "_settings",
        "_tickets",
        "_transactions",
        "transaction_version",
    )

    def __init__(self, settings: TransactionSettings, random: Random, coordinator_epoch: int) -> None:
        self.transaction_version = 2
        """The finalized level of the feature transaction.version; the driver keeps it current."""
        self._settings = settings
        self._transactions: dict[str, Transaction] = {}
        self._deadlines: Deadlines[Due] = Deadlines()
        self._markers = Markers(self._deadlines, settings.marker_resend_ms, coordinator_epoch)
        self._parked = Parked(self._deadlines, settings.add_partitions_wait_ms_max)
        self._pins = Pins(self._deadlines)
        self._groups = GroupCommits(self._deadlines, random)
        self._tickets = count(1)

    # Producers

    def init_producer_id(self, ask: asks.InitProducerId, now_ms: int) -> Decision:
        _check_id(ask.transactional_id)
        check_shape(ask, self._settings)
        self._pins.check_free(ask.transactional_id)
        out = Outcome(now_ms)
        following, reply = initialise(
            self._transactions.get(ask.transactional_id), ask, self.transaction_version, now_ms
        )
        if following is not None:
            self._become(ask.transactional_id, following, out)
        return out.decision(reply)

    def add_partitions(self, ask: asks.AddPartitions, now_ms: int) -> Decision:
        transaction = self._transaction_of(ask.transactional_id)
        self._pins.check_free(ask.transactional_id)
        out = Outcome(now_ms)
        try:
            following = partitions.add(transaction, ask, now_ms)
        except Refused as refusal:
            if refusal.code is not ErrorCode.CONCURRENT_TRANSACTIONS or not ask.is_implicit:
                raise
            return Decision(reply=Waiting(self._parked.park(next(self._tickets), ask, now_ms)))
        if following is not None:
            self._become(ask.transactional_id, following, out)
        return out.decision(asks.AddPartitionsReply())

    def verify_partitions(self, ask: asks.VerifyPartitions, now_ms: int) -> Decision:
        transaction = self._transaction_of(ask.transactional_id)
        return Decision(reply=asks.VerifyPartitionsReply(partitions.verify(transaction, ask)))

    def end(self, ask: asks.EndTransaction, now_ms: int) -> Decision:
        transaction = self._transaction_of(ask.transactional_id)
        self._pins.check_free(ask.transactional_id)
        out = Outcome(now_ms)
        following, reply = ending.end(transaction, ask, now_ms)
        if following is not None:
            self._become(ask.transactional_id, following, out)
        return out.decision(reply)

    def on_markers(self, ask: asks.MarkersWritten, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        transaction = self._transactions.get(ask.transactional_id)
        is_whole = self._markers.on_written(ask)
        if transaction is not None and is_whole:
            self._complete(ask.transactional_id, transaction, out)
        return out.decision()

    def _transaction_of(self, transactional_id: str) -> Transaction:
        _check_id(transactional_id)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id} has no producer id")
        return transaction

    def _become(self, transactional_id: str, following: Transaction, out: Outcome) -> None:
        """Into the log with it. The end of a transaction that is nowhere is complete with the same batch."""
        self._put(transactional_id, following, out)
        if following.status.is_prepared:
            marker = self._markers.begin(transactional_id, following, out.now_ms)
            if following.partitions:
                out.effects.append(marker)
            else:
                self._complete(transactional_id, following, out)

    def _complete(self, transactional_id: str, transaction: Transaction, out: Outcome) -> None:
        following = completed(transaction, out.now_ms)
        self._put(transactional_id, following, out)
        for ticket, ask in self._parked.of(transactional_id):
            reply = asks.AddPartitionsReply()
            try:
                added = partitions.add(following, ask, out.now_ms)
            except Refused as refusal:
                reply = asks.AddPartitionsReply(refusal.code)
            else:
                if added is not None:
                    following = added
                    self._put(transactional_id, following, out)
            out.effects.append(Reply(ticket, reply))

    def _put(self, transactional_id: str, transaction: Transaction | None, out: Outcome) -> None:
        version = 1 if self.transaction_version > 0 else 0
        out.records.append(TransactionRecord(transactional_id, transaction, version))

    # Group commits: the coordinator of (sink, query)

    def commit_group(self, ask: asks.CommitGroup, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        return out.decision(self._groups.commit(ask, next(self._tickets), out))

    def describe_group(self, ask: asks.DescribeGroup, now_ms: int) -> Decision:
        return Decision(reply=self._groups.describe(ask))

    def on_pinned(self, transactional_id: str, pin: Pin, error: ErrorCode, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        self._groups.on_pinned(transactional_id, pin, error, out)
        return out.decision()

    def on_group_done(self, done: asks.GroupDone, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        self._groups.on_done(done, out)
        return out.decision()

    def verdict(self, pin: Pin, now_ms: int) -> Decision:
        return Decision(reply=self._groups.verdict(pin))

    # Group commits: the coordinator of a member

    def pin(self, transactional_id: str, pin: Pin, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        self._pins.pin(transactional_id, self._transactions.get(transactional_id), pin, out)
        return out.decision()

    def end_pinned(self, ask: asks.EndPinned, now_ms: int) -> Decision:
        """End a member's transaction as its group says. Without a pin it has been done, or the group has failed."""
        out = Outcome(now_ms)
        transactional_id, pin = ask.transactional_id, self._pins.get(ask.transactional_id)
        transaction = self._transactions.get(transactional_id)
        if pin != ask.pin and (pin is not None or ask.committed):
            return out.decision()
        if transaction is not None and is_about(ask.pin, transaction):
            version = transaction.client_version
            if needs_new_id(transaction, version) and ask.new_producer_id < 0:
                return out.decision(asks.ProducerIdNeeded())
            self._become(
                transactional_id, prepared(transaction, ask.committed, version, now_ms, ask.new_producer_id), out
            )
        if pin is not None:
            out.records.append(PinRecord(transactional_id, None))
        return out.decision()

    # Administration

    def list_transactions(self, ask: asks.ListTransactions, now_ms: int) -> Decision:
        rows = (
            administration.listed(transactional_id, transaction)
            for transactional_id, transaction in self._transactions.items()
            if administration.is_wanted(transactional_id, transaction, ask, now_ms)
        )
        return Decision(reply=tuple(rows))

    def describe_transaction(self, transactional_id: str, now_ms: int) -> Decision:
        _check_id(transactional_id)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"{transactional_id} is not known")
        return Decision(reply=administration.described(transactional_id, transaction))

    # Time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def on_time(self, now_ms: int) -> Decision:
        """Everything that is due. No two deadlines that may be due at once write records for the same id."""
        out = Outcome(now_ms)
        for due in self._deadlines.due(now_ms):
            if due.kind == TIMEOUT:
                self._on_timeout(due.id, out)
            elif due.kind == MARKERS:
                self._on_markers_due(due.id, out)
            elif due.kind == PARKED:
                out.effects += self._parked.give_up(due.id)
            elif due.kind == PIN:
                self._pins.on_due(due.id, out)
            elif due.kind == GROUP:
                self._groups.on_due((due.id, due.query), out)
            elif due.kind == EXPIRY:
                self._expire(out)
        return out.decision()

    def _on_timeout(self, transactional_id: str, out: Outcome) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.deadline_ms is None:
            return
        self._deadlines.set(Due(TIMEOUT, transactional_id), max(transaction.deadline_ms, out.now_ms + _AGAIN_MS))
        if transaction.deadline_ms <= out.now_ms and self._pins.get(transactional_id) is None:
            self._become(transactional_id, fenced(transaction, self.transaction_version, out.now_ms), out)

    def _on_markers_due(self, transactional_id: str, out: Outcome) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.status.is_prepared:
            return
        if self._markers.are_written(transactional_id):
            self._complete(transactional_id, transaction, out)
        else:
            out.effects.append(self._markers.again(transactional_id, transaction))
        self._markers.arm(transactional_id, out.now_ms)

    def _expire(self, out: Outcome) -> None:
        """Forget ids that have been idle for long; of very many a part, and soon the next one."""
        expired_ms = out.now_ms - self._settings.id_expiration_ms
        expired = (
            transactional_id
            for transactional_id, transaction in self._transactions.items()
            if transaction.updated_ms <= expired_ms
            and (transaction.status is Status.EMPTY or transaction.status.is_complete)
        )
        forgotten = list(islice(expired, _EXPIRED_AT_ONCE_MAX))
        for transactional_id in forgotten:
            self._put(transactional_id, None, out)
        is_all = len(forgotten) < _EXPIRED_AT_ONCE_MAX
        wait_ms = self._settings.id_expiration_check_interval_ms if is_all else _AGAIN_MS
        self._deadlines.set(Due(EXPIRY), out.now_ms + wait_ms)

    # The log

    def apply(self, record: Record, now_ms: int) -> None:
        """A record of a decision is in the log."""
        self._store(record)
        if isinstance(record, TransactionRecord):
            self._take_up(record.transactional_id, record.value, now_ms)
        elif isinstance(record, PinRecord) and record.value is not None:
            self._pins.arm(record.transactional_id, now_ms + _AGAIN_MS)
        elif isinstance(record, DecisionRecord):
            self._groups.arm_one((record.sink, record.query), now_ms)

    def load(self, key: bytes, value: bytes | None, written_ms: int, producer_id: int = -1) -> None:
        """A record that was in the log when this coordinator took over."""
        record = decode(key, value)
        if record is not None:
            self._store(record)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """What drives coordinators reports markers in their logs; nobody writes transactions into this one."""

    def loaded(self, now_ms: int) -> Decision:
        """The whole log has been loaded: what was under way goes on."""
        out = Outcome(now_ms)
        self._deadlines.set(Due(EXPIRY), now_ms + self._settings.id_expiration_check_interval_ms)
        for transactional_id, transaction in self._transactions.items():
            self._take_up(transactional_id, transaction, now_ms)
            if not transaction.status.is_prepared:
                continue
            marker = self._markers.begin(transactional_id, transaction, now_ms)
            if transaction.partitions:
                out.effects.append(marker)
            else:
                self._complete(transactional_id, transaction, out)
        self._pins.arm_all(now_ms)
        self._groups.arm(now_ms)
        return out.decision()

    def resign(self) -> tuple[Reply, ...]:
        """Another node is the coordinator now: everybody who waits has to go there."""
        return (*self._parked.resign(), *self._groups.resign())

    def _store(self, record: Record) -> None:
        if isinstance(record, PinRecord):
            self._pins.store(record)
        elif isinstance(record, DecisionRecord):
            self._groups.store(record)
        elif record.value is None:
            self._transactions.pop(record.transactional_id, None)
        else:
            self._transactions[record.transactional_id] = record.value

    def _take_up(self, transactional_id: str, transaction: Transaction | None, now_ms: int) -> None:
        """Be reminded of what this transaction waits for."""
        due = Due(TIMEOUT, transactional_id)
        if transaction is not None and transaction.deadline_ms is not None:
            self._deadlines.set(due, transaction.deadline_ms)
        else:
            self._deadlines.cancel(due)
        if transaction is not None and transaction.status.is_prepared:
            self._markers.take_up(transactional_id, transaction, now_ms)
            return
        self._markers.forget(transactional_id)
        self._parked.forget(transactional_id)

    def transactions(self) -> Iterator[tuple[str, Transaction]]:
        """All that is known; for metrics and tests."""
        return iter(self._transactions.items())


def _check_id(transactional_id: str) -> None:
    if not 0 < len(transactional_id.encode()) <= _ID_BYTES_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, "a transactional id has 1 to 32767 bytes")
