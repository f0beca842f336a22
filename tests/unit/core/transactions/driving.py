"""A shard and the simplest driver: everything is committed at once, and a restart reads the log's own bytes."""

from random import Random
from typing import Any

from ottla.base.errors import ErrorCode, Refused
from ottla.core.transactions import codec
from ottla.core.transactions.asks import (
    AddPartitions,
    Decision,
    EndTransaction,
    InitProducerId,
    InitProducerIdReply,
    MarkersWritten,
    ProducerIdNeeded,
    Reply,
    Waiting,
    WriteMarkers,
)
from ottla.core.transactions.records import Record, Status, Transaction, TransactionRecord
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import TransactionShard

ID = "payments"
P0, P1 = ("t", 0), ("t", 1)
START_MS = 1_000_000
TIMEOUT_MS = 10_000


class Coordinator:
    """One transactional id of one shard, seen by its producers."""

    def __init__(self, version: int = 2, **settings: Any) -> None:
        self.version = version
        self.settings = TransactionSettings(**settings)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[WriteMarkers] = []
        self.told: list[Any] = []
        """Effects that are for other coordinators."""
        self.replies: dict[int, Any] = {}
        self.new_ids = 0
        self.epoch = 0
        self.shard = self._new_shard()

    def _new_shard(self) -> TransactionShard:
        self.epoch += 1
        self.shard = TransactionShard(self.settings, Random(self.epoch), self.epoch)
        self.shard.transaction_version = self.version
        self.markers.clear()
        self.told.clear()
        for key, value in self.log:
            self.shard.load(key, value, self.now_ms)
        self.carry_out(self.shard.loaded(self.now_ms))
        return self.shard

    def restart(self) -> None:
        self.replies.clear()
        self._new_shard()

    def carry_out(self, decision: Decision) -> Any:
        for record in decision.records:
            self.apply(record)
        for effect in decision.effects:
            if isinstance(effect, WriteMarkers):
                self.markers.append(effect)
            elif isinstance(effect, Reply):
                assert effect.ticket not in self.replies, "answered twice"
                self.replies[effect.ticket] = effect.reply
            else:
                self.told.append(effect)
        return decision.reply

    def apply(self, record: Record) -> None:
        self.log.append(codec.encode(record))
        self.shard.apply(record, self.now_ms)

    def ask(self, method: str, question: object) -> Any:
        reply = self.carry_out(getattr(self.shard, method)(question, self.now_ms))
        return reply.ticket if isinstance(reply, Waiting) else reply

    def error(self, method: str, question: object) -> ErrorCode:
        try:
            reply = self.ask(method, question)
        except Refused as refusal:
            return refusal.code
        raise AssertionError(f"not refused: {reply}")

    def put(self, **values: Any) -> None:
        """As if the log had always said so."""
        known: dict[str, Any] = {"producer_id": 7, "epoch": 0, "timeout_ms": TIMEOUT_MS, "updated_ms": self.now_ms}
        self.apply(TransactionRecord(ID, Transaction(**{**known, **values})))

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.carry_out(self.shard.on_time(self.now_ms))
        self.now_ms = end_ms

    # Producers

    def init(self, **more: Any) -> InitProducerIdReply:
        reply = self.ask("init_producer_id", init_of(**more))
        if isinstance(reply, ProducerIdNeeded):
            self.new_ids += 1
            reply = self.ask("init_producer_id", init_of(**more, new_producer_id=100 + self.new_ids))
        assert isinstance(reply, InitProducerIdReply)
        return reply

    def add(self, producer: Any, *partitions: Any, **more: Any) -> Any:
        return self.ask("add_partitions", self.add_of(producer, *partitions, **more))

    def add_of(self, producer: Any, *partitions: Any, **more: Any) -> AddPartitions:
        values: dict[str, Any] = {"transaction_version": self.version, **more}
        return AddPartitions(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=frozenset(partitions or (P0,)),
            **values,
        )

    def end(self, producer: Any, committed: bool = True, **more: Any) -> Any:
        reply = self.ask("end", self.end_of(producer, committed, **more))
        if isinstance(reply, ProducerIdNeeded):
            self.new_ids += 1
            more["new_producer_id"] = 100 + self.new_ids
            reply = self.ask("end", self.end_of(producer, committed, **more))
        return reply

    def end_of(self, producer: Any, committed: bool = True, **more: Any) -> EndTransaction:
        values: dict[str, Any] = {"transaction_version": self.version, **more}
        return EndTransaction(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
            **values,
        )

    def write_markers(self) -> None:
        """All markers that have been asked for stand in their partitions."""
        markers, self.markers = self.markers, []
        for marker in markers:
            self.ask("on_markers", written(marker))

    def state(self) -> Transaction:
        return dict(self.shard.transactions())[ID]

    def status(self) -> Status:
        return self.state().status


def init_of(**more: Any) -> InitProducerId:
    return InitProducerId(**{"transactional_id": ID, "timeout_ms": TIMEOUT_MS, **more})


def expecting(producer: Any) -> dict[str, int]:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}


def written(marker: WriteMarkers, *partitions: Any) -> MarkersWritten:
    return MarkersWritten(marker.marker_id, marker.transactional_id, frozenset(partitions or marker.partitions))
