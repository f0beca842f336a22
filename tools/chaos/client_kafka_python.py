"""kafka-python."""

from __future__ import annotations

import logging
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tools.chaos.client_port import (
    POLL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    SEND_SECONDS_MAX,
    SESSION_SECONDS,
    Ack,
    Received,
    Settings,
    refused,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key


class KafkaPythonClient:
    def __init__(self, settings: Settings) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.rebalanced: set[Key] = set()
        shared: dict[str, Any] = {
            "bootstrap_servers": settings.bootstrap,
            "request_timeout_ms": int(REQUEST_SECONDS_MAX * 1000),
            "reconnect_backoff_max_ms": 500,
            "retry_backoff_ms": 50,
        }
        self._producer = KafkaProducer(
            **shared,
            acks="all" if settings.is_safe else 1,
            enable_idempotence=settings.is_safe,
            delivery_timeout_ms=int(SEND_SECONDS_MAX * 1000),
            compression_type=None if settings.compression == "none" else settings.compression,
            linger_ms=settings.linger_ms,
            max_block_ms=10_000,
        )
        self._consumer = KafkaConsumer(
            **shared | {"request_timeout_ms": int(POLL_SECONDS_MAX * 1000) + 4000},
            group_id=settings.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(RangePartitionAssignor,),
            max_poll_interval_ms=int(POLL_SECONDS_MAX * 1000),
            fetch_max_wait_ms=200,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            heartbeat_interval_ms=500,
        )

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        futures: list[Any] = []
        for key, data in records:
            topic, partition = split_key(key)
            try:
                futures.append(self._producer.send(topic, data, partition=partition))
            except KafkaError as refusal:
                futures.append(refusal)
        return [_ack_of(future) for future in futures]

    def assign(self, positions: dict[Key, int]) -> None:
        self._consumer.unsubscribe()
        self._consumer.assign([TopicPartition(*split_key(key)) for key in positions])
        for key, offset in positions.items():
            self._consumer.seek(TopicPartition(*split_key(key)), offset)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=_Listener(self.rebalanced))

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        polled = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=records_max)
        return [
            Received(f"{place.topic}/{place.partition}", record.offset, record.value)
            for place, records in polled.items()
            for record in records
        ]

    def commit(self) -> None:
        self._consumer.commit_async()


def _ack_of(future: Any) -> Ack:
    if isinstance(future, KafkaError):
        return refused(type(future).__name__)
    try:
        offset = future.get(timeout=SEND_SECONDS_MAX + 2).offset
    except KafkaError as refusal:
        return refused(type(refusal).__name__)
    return Ack(Outcome.OK, offset if offset is not None and offset >= 0 else None)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, rebalanced: set[Key]) -> None:
        self._rebalanced = rebalanced

    def on_partitions_revoked(self, revoked: list[Any]) -> None:
        self._rebalanced.update(f"{one.topic}/{one.partition}" for one in revoked)

    on_partitions_assigned = on_partitions_revoked
