"""librdkafka."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tools.chaos.client_port import (
    POLL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    SEND_SECONDS_MAX,
    SESSION_SECONDS,
    Ack,
    ClientBroken,
    Received,
    Settings,
    refused,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key


class ConfluentClient:
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

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._broken = error.name()

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        acks = [Ack(Outcome.INFO, error="no report")] * len(records)

        def report_to(at: int) -> Any:
            def report(error: KafkaError | None, message: Message) -> None:
                offset = message.offset()
                known = offset if offset is not None and offset >= 0 else None
                acks[at] = refused(error.name()) if error else Ack(Outcome.OK, known)

            return report

        for at, (key, data) in enumerate(records):
            topic, partition = split_key(key)
            self._producer.produce(topic, data, partition=partition, on_delivery=report_to(at))
        deadline = time.monotonic() + SEND_SECONDS_MAX + 2
        while self._producer.flush(0.2) and time.monotonic() < deadline and not self._broken:
            pass
        return acks

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

    def commit(self) -> None:
        with contextlib.suppress(KafkaException):  # nothing to commit
            self._consumer.commit(asynchronous=True)


def _producing(settings: Settings) -> dict[str, Any]:
    return {
        "acks": "all" if settings.is_safe else "1",
        "enable.idempotence": settings.is_safe,
        "message.timeout.ms": int(SEND_SECONDS_MAX * 1000),
        "request.timeout.ms": int(REQUEST_SECONDS_MAX * 1000),
        "compression.type": settings.compression,
        "batch.size": 16_384,
        "linger.ms": settings.linger_ms,
        "retry.backoff.ms": 50,
    }


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
