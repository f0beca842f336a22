"""librdkafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tools.chaos.client_port import (
    CALL_SECONDS_MAX,
    POLL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    SEND_SECONDS_MAX,
    SESSION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    Ack,
    ClientBroken,
    Posted,
    Received,
    Settings,
    TransactionFailed,
    refused,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key


class ConfluentClient:
    is_lost_by_failures = False

    def __init__(self, settings: Settings) -> None:
        self.rebalanced: set[Key] = set()
        self._broken = ""
        shared: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap,
            "log_level": 0,
            "error_cb": self._note_error,
            "socket.timeout.ms": 8000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
        }
        self._producer = Producer(shared | _producing(settings))
        self._consumer = Consumer(shared | _consuming(settings))
        self._is_transactional = bool(settings.transactional_id)
        if self._is_transactional:
            self._take_over()

    def _take_over(self) -> None:
        """From here on nobody else has our transactional id, and what it had left open is aborted."""
        try:
            self._patiently(lambda: self._producer.init_transactions(2.0))
        except TransactionFailed as failure:
            raise ClientBroken(f"init_transactions: {failure}") from failure

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._broken = error.name()

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        return self.post(records)()

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        acks = [Ack(Outcome.INFO, error="no report")] * len(records)

        def report_to(at: int) -> Any:
            def report(error: KafkaError | None, message: Message) -> None:
                offset = message.offset()
                known = offset if offset is not None and offset >= 0 else None
                acks[at] = refused(error.name()) if error else Ack(Outcome.OK, known)

            return report

        for at, (key, data) in enumerate(records):
            topic, partition = split_key(key)
            try:
                self._producer.produce(topic, data, partition=partition, on_delivery=report_to(at))
            except KafkaException as refusal:
                error = refusal.args[0]
                if self._is_transactional:  # a commit would not know of it
                    raise TransactionFailed(error.name(), error.fatal()) from refusal
                acks[at] = refused(error.name())

        def collect() -> list[Ack]:
            self._flush()
            return acks

        return collect

    def _flush(self) -> None:
        deadline = time.monotonic() + SEND_SECONDS_MAX + 2
        with contextlib.suppress(KafkaException):  # fatal: then there are no more reports
            while self._producer.flush(0.2) and time.monotonic() < deadline and not self._broken:
                pass

    def assign(self, positions: dict[Key, int]) -> None:
        self._consumer.unsubscribe()
        self._consumer.assign([TopicPartition(*split_key(key), offset) for key, offset in positions.items()])

    def subscribe(self, topics: list[str]) -> None:
        def note(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.rebalanced.update(f"{one.topic}/{one.partition}" for one in partitions)

        self._consumer.subscribe(topics, on_assign=note, on_revoke=note, on_lost=note)

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        if self._broken:
            raise ClientBroken(self._broken)
        received = []
        for message in self._consumer.consume(records_max, seconds):
            offset = message.offset()
            if message.error() is None and offset is not None:
                data = message.value()
                value = data.encode() if isinstance(data, str) else data
                received.append(Received(f"{message.topic()}/{message.partition()}", offset, value))
        return received

    def seek(self, positions: dict[Key, int]) -> None:
        for key, offset in positions.items():
            with contextlib.suppress(KafkaException):  # taken; whoever has it now begins at what is committed
                self._consumer.seek(TopicPartition(*split_key(key), offset))

    def commit(self) -> None:
        with contextlib.suppress(KafkaException):  # nothing to commit
            self._consumer.commit(asynchronous=True)

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        found = self._consumer.committed([TopicPartition(*split_key(key)) for key in keys], timeout=CALL_SECONDS_MAX)
        return {f"{one.topic}/{one.partition}": one.offset for one in found if one.offset >= 0}

    # --- transactions

    def begin(self) -> None:
        self._patiently(self._producer.begin_transaction)

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        places = [TopicPartition(*split_key(key), offset) for key, offset in offsets.items()]
        member = self._consumer.consumer_group_metadata()
        self._patiently(lambda: self._producer.send_offsets_to_transaction(places, member, 2.0))

    def end(self, commits: bool) -> None:
        call = self._producer.commit_transaction if commits else self._producer.abort_transaction
        self._patiently(lambda: call(2.0))

    def _patiently(self, call: Callable[[], object]) -> None:
        """An error that is retriable says nothing about the outcome: the same call finds out."""
        deadline = time.monotonic() + CALL_SECONDS_MAX
        while True:
            try:
                call()
                return
            except KafkaException as failure:
                error = failure.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    raise TransactionFailed(error.name(), not error.txn_requires_abort()) from failure


def _producing(settings: Settings) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "acks": "all" if settings.is_safe else "1",
        "enable.idempotence": settings.is_safe,
        "message.timeout.ms": int(SEND_SECONDS_MAX * 1000),
        "request.timeout.ms": int(REQUEST_SECONDS_MAX * 1000),
        "compression.type": settings.compression,
        "batch.size": 16_384,
        "linger.ms": settings.linger_ms,
        "retry.backoff.ms": 50,
    }
    if settings.transactional_id:
        chosen |= {
            "transactional.id": settings.transactional_id,
            "transaction.timeout.ms": int(TRANSACTION_SECONDS_MAX * 1000),
            "message.timeout.ms": int(CALL_SECONDS_MAX * 1000),
            # With a single node every restart is a moment in which all are away; librdkafka would forget them, and then
            # wait for the group's coordinator that it forgot.
            "metadata.recovery.strategy": "none",
        }
    return chosen


def _consuming(settings: Settings) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "group.id": settings.group,
        "group.protocol": settings.protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": int(POLL_SECONDS_MAX * 1000),
        "fetch.wait.max.ms": 200,
        "fetch.error.backoff.ms": 50,
    }
    if settings.protocol == "classic":
        chosen |= {"session.timeout.ms": int(SESSION_SECONDS * 1000), "heartbeat.interval.ms": 500}
        chosen["partition.assignment.strategy"] = "range"
    return chosen
