"""Ottla's own client: transactions alone, partitions by assignment alone. It speaks the second protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.base.types import Offset, TopicName, TopicPartition
from ottla.client.blocking import LoopThread
from ottla.client.cluster import Cluster
from ottla.client.failures import ClientFailure, Fenced, OutcomeUnknown
from ottla.client.fetch import Appetite, Fetched, data_batches, fetch
from ottla.client.offsets import fetch_offsets
from ottla.client.transactions import TransactionalProducer
from ottla.wire.batch import decode_records, encode_batch, new_records
from ottla.wire.batch_header import iter_headers
from tools.chaos.client_port import (
    CALL_SECONDS_MAX,
    REQUEST_SECONDS_MAX,
    TRANSACTION_SECONDS_MAX,
    Ack,
    ClientBroken,
    Posted,
    Received,
    Settings,
    TransactionFailed,
)
from tools.chaos.history import Key, Outcome
from tools.chaos.payload import split_key

FETCH_BYTES_MAX = 65536
Answer = asyncio.Future[Offset | None]


class OttlaClient:
    is_lost_by_failures = False

    def __init__(self, settings: Settings) -> None:
        self.rebalanced: set[Key] = set()
        self._group = settings.group
        self._positions: dict[TopicPartition, int] = {}
        self._loop = LoopThread()
        try:
            self._loop.run(self._start(settings))
        except ClientFailure as failure:
            raise ClientBroken(f"init: {failure!r}") from failure

    async def _start(self, settings: Settings) -> None:
        self._cluster = Cluster.at(
            settings.bootstrap,
            request_timeout_ms=int(REQUEST_SECONDS_MAX * 1000),
            default_api_timeout_ms=int(CALL_SECONDS_MAX * 1000),
        )
        timeout_ms = int(TRANSACTION_SECONDS_MAX * 1000)
        self._producer = TransactionalProducer(self._cluster, settings.transactional_id, timeout_ms)
        await self._producer.init()

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]:
        return self.post(records)()

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        answers = self._loop.run(self._submit(records))
        return lambda: self._loop.run(_acks_of(answers))

    async def _submit(self, records: list[tuple[Key, bytes]]) -> list[Answer]:
        answers: list[Answer] = []
        for key, data in records:
            place = _place(key)
            batch = encode_batch(
                new_records([(None, data)], time.time_ns() // 1_000_000), producer=self._producer.stamp(place, 1)
            )
            try:
                answers.append(await self._producer.submit(place, batch))
            except ClientFailure as failure:
                raise TransactionFailed(repr(failure), isinstance(failure, Fenced)) from failure
        return answers

    def assign(self, positions: dict[Key, int]) -> None:
        self._positions = {_place(key): offset for key, offset in positions.items()}

    def subscribe(self, topics: list[str]) -> None:
        raise ClientBroken("it knows no groups")

    def poll(self, seconds: float, records_max: int) -> list[Received]:
        return self._loop.run(self._poll(seconds, records_max))

    async def _poll(self, seconds: float, records_max: int) -> list[Received]:
        appetite = Appetite(wait_ms_max=int(seconds * 1000), partition_bytes_max=FETCH_BYTES_MAX)
        try:
            outcomes = await fetch(self._cluster, self._positions, appetite)
        except ClientFailure:
            return []
        received: list[Received] = []
        for place, outcome in outcomes.items():
            if isinstance(outcome, Fetched):
                received += self._take(place, outcome, records_max - len(received))
        return received

    def _take(self, place: TopicPartition, fetched: Fetched, records_max: int) -> list[Received]:
        found: list[Received] = []
        for at, _ in data_batches(fetched):
            for record in decode_records(fetched.records[at:]):
                if record.offset >= self._positions[place]:
                    if len(found) == records_max:
                        return found
                    found.append(Received(f"{place.topic}/{place.partition}", record.offset, record.value))
                    self._positions[place] = record.offset + 1
        for _, header in iter_headers(fetched.records):  # past markers, and what was aborted
            self._positions[place] = max(self._positions[place], header.last_offset + 1)
        return found

    def seek(self, positions: dict[Key, int]) -> None:
        self._positions |= {_place(key): offset for key, offset in positions.items()}

    def commit(self) -> None:
        """It commits in transactions alone."""

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        try:
            found = self._loop.run(fetch_offsets(self._cluster, self._group, [_place(key) for key in keys]))
        except ClientFailure as failure:
            raise ClientBroken(f"committed: {failure!r}") from failure
        return {f"{place.topic}/{place.partition}": one.offset for place, one in found.items() if one.offset >= 0}

    # --- transactions

    def begin(self) -> None:
        """They begin with what is sent."""

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        places = {_place(key): offset for key, offset in offsets.items()}
        self._call(lambda: self._producer.send_offsets(self._group, places))

    def end(self, commits: bool) -> None:
        self._call(self._producer.commit if commits else self._producer.abort)

    def _call(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._loop.run(work())
        except ClientFailure as failure:
            raise TransactionFailed(repr(failure), isinstance(failure, Fenced | OutcomeUnknown)) from failure


def _place(key: Key) -> TopicPartition:
    topic, partition = split_key(key)
    return TopicPartition(TopicName(topic), partition)


async def _acks_of(answers: list[Answer]) -> list[Ack]:
    return [await _ack_of(answer) for answer in answers]


async def _ack_of(answer: Answer) -> Ack:
    try:
        return Ack(Outcome.OK, await answer)
    except ClientFailure as failure:
        return Ack(Outcome.INFO, error=repr(failure))
