"""aiokafka, on an event loop in a thread of its own: it must go on between two operations."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from tools.chaos.client_port import (
    CALL_SECONDS_MAX,
    POLL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    SEND_SECONDS_MAX,
    SESSION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    Ack,
    Posted,
    Received,
    Settings,
    TransactionFailed,
    refused,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key

T = TypeVar("T")


class AiokafkaClient:
    is_lost_by_failures = True
    """A batch that was refused leaves a gap in the sequence numbers, and nothing resets them (aiokafka 0.14)."""

    def __init__(self, settings: Settings) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self.rebalanced: set[Key] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._run(self._start(settings))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self, settings: Settings) -> None:
        shared: dict[str, Any] = {"bootstrap_servers": settings.bootstrap, "retry_backoff_ms": 50}
        self._producer = AIOKafkaProducer(
            **shared,
            acks="all" if settings.is_safe else 1,
            enable_idempotence=settings.is_safe,
            request_timeout_ms=int(REQUEST_SECONDS_MAX * 1000),
            compression_type=None if settings.compression == "none" else settings.compression,
            linger_ms=settings.linger_ms,
            transactional_id=settings.transactional_id or None,
            transaction_timeout_ms=int(TRANSACTION_SECONDS_MAX * 1000),
        )
        self._group = settings.group
        self._consumer = AIOKafkaConsumer(
            **shared,
            group_id=settings.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(RangePartitionAssignor,),
            max_poll_interval_ms=int(POLL_SECONDS_MAX * 1000),
            fetch_max_wait_ms=200,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            heartbeat_interval_ms=500,
            request_timeout_ms=int(POLL_SECONDS_MAX * 1000) + 4000,
        )
        await self._producer.start()
        await self._consumer.start()

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        return self._run(self._send(records))

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        """Waits: a batch that was refused does not fail the commit (aiokafka 0.14)."""
        acks = self.send(records)
        return lambda: acks

    async def _send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        deadline = self._loop.time() + SEND_SECONDS_MAX
        futures: list[asyncio.Future[Any] | Exception] = []
        for key, data in records:
            topic, partition = split_key(key)
            try:
                sending = self._producer.send(topic, data, partition=partition)
                futures.append(await asyncio.wait_for(sending, SEND_SECONDS_MAX))
            except (KafkaError, TimeoutError) as refusal:
                futures.append(refusal)
        return [await self._ack_of(future, deadline) for future in futures]

    async def _ack_of(self, future: asyncio.Future[Any] | Exception, deadline: float) -> Ack:
        if isinstance(future, Exception):
            return refused(type(future).__name__)
        try:
            offset = (await asyncio.wait_for(asyncio.shield(future), max(0.1, deadline - self._loop.time()))).offset
        except TimeoutError:
            return Ack(Outcome.INFO, error="no report")
        except KafkaError as refusal:
            return refused(type(refusal).__name__)
        return Ack(Outcome.OK, offset if offset is not None and offset >= 0 else None)

    def assign(self, positions: dict[Key, int]) -> None:
        self._run(self._assign(positions))

    async def _assign(self, positions: dict[Key, int]) -> None:
        self._consumer.unsubscribe()
        places = {TopicPartition(*split_key(key)): offset for key, offset in positions.items()}
        self._consumer.assign(list(places))
        for place, offset in places.items():
            self._consumer.seek(place, offset)

    def subscribe(self, topics: list[str]) -> None:
        self._run(self._subscribe(topics))

    async def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=_Listener(self.rebalanced))

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        return self._run(self._poll(seconds, records_max))

    async def _poll(self, seconds: float, records_max: int) -> list[Received]:
        polled = await self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=records_max)
        return [
            Received(f"{place.topic}/{place.partition}", record.offset, record.value)
            for place, records in polled.items()
            for record in records
        ]

    def commit(self) -> None:
        self._run(self._commit())

    async def _commit(self) -> None:
        with contextlib.suppress(KafkaError, TimeoutError):  # the next one will do
            await asyncio.wait_for(self._consumer.commit(), 2)

    def seek(self, positions: dict[Key, int]) -> None:
        for key, offset in positions.items():
            place = TopicPartition(*split_key(key))
            if place in self._consumer.assignment():
                self._loop.call_soon_threadsafe(self._consumer.seek, place, offset)

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        return self._run(self._committed(keys))

    async def _committed(self, keys: list[Key]) -> dict[Key, int]:
        found = {key: await self._consumer.committed(TopicPartition(*split_key(key))) for key in keys}
        return {key: offset for key, offset in found.items() if offset is not None}

    # --- transactions

    def begin(self) -> None:
        self._call(self._producer.begin_transaction())

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        """aiokafka says nothing of the member: the transactional id alone protects what it copies."""
        places = {TopicPartition(*split_key(key)): offset for key, offset in offsets.items()}
        self._call(self._producer.send_offsets_to_transaction(places, self._group))

    def end(self, commits: bool) -> None:
        self._call(self._producer.commit_transaction() if commits else self._producer.abort_transaction())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._run(asyncio.wait_for(work, CALL_SECONDS_MAX))
        except (KafkaError, TimeoutError, AssertionError) as failure:  # it asserts its own steps from state to state
            raise TransactionFailed(repr(failure), is_fatal=True) from failure


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, rebalanced: set[Key]) -> None:
        self._rebalanced = rebalanced

    def on_partitions_revoked(self, revoked: list[Any]) -> None:
        self._rebalanced.update(f"{one.topic}/{one.partition}" for one in revoked)

    on_partitions_assigned = on_partitions_revoked
