"""A transactional producer, and the broker that its batches pass. Classic, or of transactions version 2."""

from collections.abc import Callable
from itertools import count
from typing import Any

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions.asks import (
    AddPartitions,
    AddPartitionsReply,
    EndTransaction,
    EndTransactionReply,
    InitProducerId,
    InitProducerIdReply,
    ProducerIdNeeded,
    VerifyPartitions,
    VerifyPartitionsReply,
)
from tests.sim.transactions_laws import Txn, Value
from tests.sim.transactions_world import TIMEOUT_MS, TOPIC, Failed, Line, Partition, Respond, World, header_of

RETRY_MS = 40
_AGAIN = {
    None,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_numbers = count()


class Producer:
    """One instance. It begins transactions until it is stopped, fenced, or tired; then a successor may take over."""

    def __init__(self, world: World, name: str, transactional_id: str, is_bumping: bool) -> None:
        self.world = world
        self.name = name
        self.transactional_id = transactional_id
        self.version = 2 if is_bumping else 0
        self.line = Line(world, is_orderly=not is_bumping)
        self.txns: list[Txn] = []
        self.is_over = False
        self.producer_id = self.epoch = -1
        self._sequences: dict[int, int] = {}
        self._added: set[int] = set()
        self._txn = Txn(name)
        self._left = 0

    # Who am I

    def init(self, expects: bool = False) -> None:
        ask = InitProducerId(
            transactional_id=self.transactional_id,
            timeout_ms=TIMEOUT_MS,
            producer_id=self.producer_id if expects else -1,
            producer_epoch=self.epoch if expects else -1,
        )
        self._ask(lambda respond: self._serve_init(ask, respond), self._on_init, lambda: self.init(expects))

    def _serve_init(self, ask: InitProducerId, respond: Respond) -> None:
        with_id = InitProducerId(
            transactional_id=ask.transactional_id,
            timeout_ms=ask.timeout_ms,
            producer_id=ask.producer_id,
            producer_epoch=ask.producer_epoch,
            new_producer_id=next(self.world.producer_ids),
        )

        def again(reply: Any) -> None:
            if isinstance(reply, ProducerIdNeeded):
                self.world.coordinator_of(self.transactional_id).serve("init_producer_id", with_id, respond)
            else:
                respond(reply)

        self.world.coordinator_of(self.transactional_id).serve("init_producer_id", ask, again)

    def _on_init(self, reply: Any) -> None:
        assert isinstance(reply, InitProducerIdReply)
        self._become(reply.producer_id, reply.producer_epoch)
        self._pause(self.begin)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch
        self.world.laws.on_identity(self.name, producer_id, epoch)

    # One transaction

    def begin(self) -> None:
        if self.is_over:
            return
        self._txn = Txn(self.name)
        self.txns.append(self._txn)
        self._added.clear()
        self._left = self.world.random.randint(0, 4)
        self._write_next()

    def _write_next(self) -> None:
        if self.is_over:
            return
        if self._left == 0:
            self.end(committed=not self.world.chance(0.2) and bool(self._txn.acked))
            return
        self._left -= 1
        index = self.world.random.randrange(len(self.world.partitions))
        value = Value(self._txn, index, next(_numbers))
        if self.version >= 2 or index in self._added:
            self._write(value)
        else:
            self._add(index, lambda: self._write(value))

    def _add(self, index: int, then: Callable[[], None]) -> None:
        ask = AddPartitions(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            partitions=frozenset({(TOPIC, index)}),
        )

        def added(reply: Any) -> None:
            if isinstance(reply, AddPartitionsReply) and reply.error is ErrorCode.NONE:
                self._added.add(index)
                then()
            else:
                self._fail()

        self._ask(
            lambda respond: self.world.coordinator_of(self.transactional_id).serve("add_partitions", ask, respond),
            added,
            lambda: self._add(index, then),
        )

    def _write(self, value: Value) -> None:
        sequence = self._sequences.get(value.partition, 0)
        produce = Produce(self, value, sequence)

        def acked(reply: Any) -> None:
            if reply == ErrorCode.TRANSACTION_ABORTABLE:
                self.end(committed=False)
                return
            self._sequences[value.partition] = sequence + 1
            self._txn.acked.append(value)
            self._write_next()

        self._ask(produce.serve, acked, lambda: self._write(value))

    def end(self, committed: bool) -> None:
        if not self._txn.acked and self.version < 2:
            self._pause(self.begin if not self._added else lambda: self.init())
            return
        self._txn.may_commit |= committed
        ask = EndTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
            transaction_version=self.version,
        )

        def ended(reply: Any) -> None:
            assert isinstance(reply, EndTransactionReply)
            self.world.laws.on_told(self._txn, committed)
            if self.version >= 2:
                assert (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.epoch)
                self._become(reply.producer_id, reply.producer_epoch)
            self._pause(self.begin)

        self._ask(lambda respond: self._serve_end(ask, respond), ended, lambda: self.end(committed))

    def _serve_end(self, ask: EndTransaction, respond: Respond) -> None:
        def again(reply: Any) -> None:
            if isinstance(reply, ProducerIdNeeded):
                with_id = EndTransaction(
                    transactional_id=ask.transactional_id,
                    producer_id=ask.producer_id,
                    producer_epoch=ask.producer_epoch,
                    committed=ask.committed,
                    transaction_version=ask.transaction_version,
                    new_producer_id=next(self.world.producer_ids),
                )
                self.world.coordinator_of(self.transactional_id).serve("end", with_id, respond)
            else:
                respond(reply)

        self.world.coordinator_of(self.transactional_id).serve("end", ask, again)

    # Asking

    def _ask(self, serve: Callable[[Respond], None], then: Respond, again: Callable[[], None]) -> None:
        if self.is_over:
            return

        def answered(reply: Any) -> None:
            if self.is_over:
                return
            code = reply.code if isinstance(reply, Failed) else getattr(reply, "error", ErrorCode.NONE)
            if code is ErrorCode.NONE:
                then(reply)
            elif code in _AGAIN:
                self.world.at(RETRY_MS, again)
            elif code is ErrorCode.TRANSACTION_ABORTABLE:
                self.end(committed=False)
            else:
                self._fail()

        self.line.call(serve, answered)

    def _fail(self) -> None:
        """Fenced, or at odds with the brokers: begin anew, or go."""
        if self.world.chance(0.3):
            self.is_over = True
        else:
            self.world.at(self.world.random.uniform(50, 1_000), lambda: self.init(expects=self.world.chance(0.3)))

    def _pause(self, action: Callable[[], None]) -> None:
        """Now and then a producer thinks so long that its next transaction meets late copies, or sleeps over it."""
        if self.version >= 2 and self.world.chance(0.05):
            self.world.at(100, lambda: self.init(expects=True))
            return
        long_ms = self.world.random.choice((0, 0, 5, 400, 3_000))
        self.world.at(self.world.random.uniform(0, long_ms), action)


class Produce:
    """One batch on its way through the leader of its partition."""

    def __init__(self, producer: Producer, value: Value, sequence: int) -> None:
        self.world = producer.world
        self.transactional_id = producer.transactional_id
        self.version = producer.version
        self.value = value
        self.header = header_of(producer.producer_id, producer.epoch, sequence)

    @property
    def partition(self) -> Partition:
        return self.world.partitions[self.value.partition]

    def serve(self, respond: Respond) -> None:
        header = self.header
        if self.partition.has_open(header.producer_id, header.producer_epoch):
            self._append(respond)
            return
        guard = self.partition.markers_seen.get(header.producer_id, 0)

        def allowed(reply: Any) -> None:
            code = reply.code if isinstance(reply, Failed) else _error_of(reply)
            if code is ErrorCode.NONE and self.version < 2:
                is_same = guard == self.partition.markers_seen.get(header.producer_id, 0)
                code = ErrorCode.NONE if is_same else ErrorCode.CONCURRENT_TRANSACTIONS
            if code is ErrorCode.NONE:
                self.world.at(self.world.delay(), lambda: self._append(respond))
            else:
                respond(Failed(code))

        self.world.at(self.world.delay(), lambda: self._ask_coordinator(allowed))

    def _ask_coordinator(self, allowed: Respond) -> None:
        header, where = self.header, (TOPIC, self.value.partition)
        if self.version < 2:
            verify = VerifyPartitions(
                transactional_id=self.transactional_id,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                partitions=(where,),
            )
            self.world.coordinator_of(self.transactional_id).serve("verify_partitions", verify, allowed)
            return
        add = AddPartitions(
            transactional_id=self.transactional_id,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partitions=frozenset({where}),
            transaction_version=2,
            is_implicit=True,
        )
        self.world.coordinator_of(self.transactional_id).serve("add_partitions", add, allowed)

    def _append(self, respond: Respond) -> None:
        try:
            self.partition.append(self.header, self.value, self.version >= 2)
        except Refused as refusal:
            respond(Failed(refusal.code))
        else:
            respond(ErrorCode.NONE)


def _error_of(reply: Any) -> ErrorCode:
    if isinstance(reply, VerifyPartitionsReply):
        return reply.errors[0]
    assert isinstance(reply, AddPartitionsReply)
    return reply.error
