"""kafka-python."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

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


class KafkaPythonClient:
    is_lost_by_failures = True
    """Offsets of a transaction that failed stay in the producer and go into the next one (kafka-python 3.0)."""

    def __init__(self, settings: Settings) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.rebalanced: set[Key] = set()
        self._member: Any = None
        self._is_given_anew = False
        self._is_exact = bool(settings.transactional_id)
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
            compression_type=None if settings.compression == "none" else settings.compression,
            linger_ms=settings.linger_ms,
            max_block_ms=10_000,
            **_transactional(settings),
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
        if settings.transactional_id:
            try:
                self._producer.init_transactions()
            except KafkaError as refusal:
                raise ClientBroken(f"init_transactions: {refusal!r}") from refusal

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        futures: list[Any] = []
        for key, data in records:
            topic, partition = split_key(key)
            try:
                futures.append(self._producer.send(topic, data, partition=partition))
            except KafkaError as refusal:
                futures.append(refusal)
        return [_ack_of(future) for future in futures]

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        """Waits: after an error of sequence a commit may succeed without a transaction (read in kafka-python 3.0)."""
        acks = self.send(records)
        return lambda: acks

    def note_membership(self) -> None:
        """As whom we have been given what we read. Asked later, the library may say that we are nobody, if it has been
        told meanwhile that we are no member any more; and whoever is nobody is let in without question, as clients that
        know nothing of groups are (kafka-python 3.0)."""
        self._member = self._consumer.group_metadata()
        self._is_given_anew = True

    def assign(self, positions: dict[Key, int]) -> None:
        self._consumer.unsubscribe()
        self._consumer.assign([TopicPartition(*split_key(key)) for key in positions])
        for key, offset in positions.items():
            self._consumer.seek(TopicPartition(*split_key(key)), offset)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=_Listener(self))

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        polled = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=records_max)
        if self._is_given_anew:
            self._is_given_anew = False
            if self._is_exact:
                self._go_where_the_group_is()
                return []
        return [
            Received(f"{place.topic}/{place.partition}", record.offset, record.value)
            for place, records in polled.items()
            for record in records
        ]

    def seek(self, positions: dict[Key, int]) -> None:
        for key, offset in positions.items():
            place = TopicPartition(*split_key(key))
            if place in self._consumer.assignment():
                self._consumer.seek(place, offset)

    def _go_where_the_group_is(self) -> None:
        """A partition that others had in between goes on at its old position here: a member that is expelled while it
        joins does not forget what it had (kafka-python 3.0.12: `assign_from_subscribed` keeps what is there)."""
        try:
            for place in self._consumer.assignment():
                offset = self._consumer.committed(place)
                self._consumer.seek(place, 0 if offset is None else offset)
        except KafkaError as failure:
            raise ClientBroken(f"committed: {failure!r}") from failure

    def commit(self) -> None:
        self._consumer.commit_async()

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        found = {key: self._consumer.committed(TopicPartition(*split_key(key))) for key in keys}
        return {key: offset for key, offset in found.items() if offset is not None}

    # --- transactions

    def begin(self) -> None:
        _within_limits(self._producer.begin_transaction)

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        places = {TopicPartition(*split_key(key)): OffsetAndMetadata(at, "", -1) for key, at in offsets.items()}
        member = self._member or self._consumer.group_metadata()
        _within_limits(lambda: self._producer.send_offsets_to_transaction(places, member))

    def end(self, commits: bool) -> None:
        _within_limits(self._producer.commit_transaction if commits else self._producer.abort_transaction)


def _within_limits(call: Callable[[], object]) -> None:
    """These calls wait without end; and when the connection to the coordinator breaks while it is being made, their
    request is forgotten (kafka-python 3.0.12: `_maybe_send_pending_request` repeats it only where no node is known)."""
    failures: list[KafkaError] = []

    def run() -> None:
        try:
            call()
        except KafkaError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CALL_SECONDS_MAX)
    if thread.is_alive():
        raise TransactionFailed("no end of it", is_fatal=True)
    if failures:
        raise TransactionFailed(repr(failures[0]), is_fatal=True) from failures[0]


def _transactional(settings: Settings) -> dict[str, Any]:
    if not settings.transactional_id:
        return {"delivery_timeout_ms": int(SEND_SECONDS_MAX * 1000)}
    return {
        "transactional_id": settings.transactional_id,
        "transaction_timeout_ms": int(TRANSACTION_SECONDS_MAX * 1000),
        "delivery_timeout_ms": int(CALL_SECONDS_MAX * 1000),
    }


def _ack_of(future: Any) -> Ack:
    if isinstance(future, KafkaError):
        return refused(type(future).__name__)
    try:
        offset = future.get(timeout=SEND_SECONDS_MAX + 2).offset
    except KafkaError as refusal:
        return refused(type(refusal).__name__)
    return Ack(Outcome.OK, offset if offset is not None and offset >= 0 else None)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, client: KafkaPythonClient) -> None:
        self._client = client

    def on_partitions_revoked(self, revoked: list[Any]) -> None:
        self._client.rebalanced.update(f"{one.topic}/{one.partition}" for one in revoked)

    def on_partitions_assigned(self, assigned: list[Any]) -> None:
        self.on_partitions_revoked(assigned)
        self._client.note_membership()
