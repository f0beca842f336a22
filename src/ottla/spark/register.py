"""A few last words under names, kept in a compacted topic: what was decided, how far an epoch came.

Whoever writes under a name holds a producer that fences the one before: of two who would go on, only the later can.
"""

import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicName, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.failures import ClientFailure, NotAnswered, check
from ottla.client.fetch import Appetite, OutOfRange, fetch
from ottla.client.fetch import Fetched as Answer
from ottla.client.offsets import Isolation, earliest_offsets, latest_offsets
from ottla.client.transactions import TransactionalProducer
from ottla.client.versions import Span
from ottla.spark.arrow.visible import Fetched, Window, seen_batches
from ottla.wire.batch import decode_records, encode_batch, new_records
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

_PARTITIONS = 8
_CONFIGS = {
    "cleanup.policy": "compact",
    # Readers read the whole of it, so what compaction leaves alone is kept small.
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}
_BROKERS_DEFAULT = -1
_KNOWS_BROKERS_DEFAULT = Span(4)
_TIMEOUT_MS = 10_000
"""One who dies amid writing holds up the readers of his partition for so long."""


class Word(NamedTuple):
    content: bytes | None
    """None: nothing was written."""
    known_to: int
    """Whatever is written from now on has this offset, or one behind it."""


class Register:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic

    async def last(self, name: bytes) -> bytes | None:
        """What was written last, and everything that had been written when this was asked is known."""
        return (await self.look(name)).content

    async def look(self, name: bytes, known_to: int | None = None) -> Word:
        """The same; for whoever knows what was written before an offset, only what came since: nothing, perhaps."""
        place = await self._place(name)
        # Up to the very end, not to the last stable offset: behind another's open transaction our own may be committed.
        end = int((await latest_offsets(self._cluster, [place], Isolation.READ_UNCOMMITTED))[place])
        start = -1 if known_to is None or known_to > end else known_to  # beyond the end: the topic was made anew
        is_given = start >= 0
        if not is_given:
            start = int((await earliest_offsets(self._cluster, [place]))[place])
        newest, deadline = None, self._cluster.deadline()
        while start < end:
            answer = (await fetch(self._cluster, {place: start}, Appetite(), deadline))[place]
            if isinstance(answer, OutOfRange) and is_given:  # it was cut off since then, or made anew
                return await self.look(name)
            if isinstance(answer, ClientFailure):
                if not answer.is_retriable or deadline.is_over:
                    raise answer
                continue
            found, start = _newest_in(answer, place, Window(start, end), name)
            newest = newest if found is None else found
            if start < end and deadline.is_over:
                raise NotAnswered(f"{place} does not come to its end: a transaction is open at offset {start}")
        return Word(newest, max(start, end))

    @asynccontextmanager
    async def pen(self, name: bytes, transactional_id: str) -> AsyncIterator["Pen"]:
        """Nobody else writes under this name from here on."""
        producer = TransactionalProducer(self._cluster, transactional_id, _TIMEOUT_MS)
        await producer.init()
        try:
            yield Pen(producer, await self._place(name), name)
        finally:
            await producer.close()

    async def _place(self, name: bytes) -> TopicPartition:
        return TopicPartition(TopicName(self._topic), zlib.crc32(name) % await self._partition_count())

    async def _partition_count(self) -> int:
        """As it was when this process first asked: names would not be found if it changed."""
        if self._topic in self._cluster.view.topics:
            return len(self._cluster.view.topics[self._topic].leaders)
        deadline = self._cluster.deadline()
        view = await self._cluster.patiently(lambda: self._cluster.learn([self._topic], deadline), deadline)
        if self._topic not in view.topics:
            await self._create_topic()
            return len((await self._cluster.topics([self._topic]))[self._topic].leaders)
        return len(view.topics[self._topic].leaders)

    async def _create_topic(self) -> None:
        configs = [CreatableTopicConfig(name, value) for name, value in _CONFIGS.items()]
        topic = CreatableTopic(self._topic, _PARTITIONS, _BROKERS_DEFAULT, configs=configs)
        deadline = self._cluster.deadline()

        async def ask() -> None:
            connection = await self._cluster.anyone()
            answer = await connection.ask(CreateTopicsRequest([topic]), deadline, _KNOWS_BROKERS_DEFAULT)
            for one in answer.topics:
                if one.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    check(one.error_code, one.error_message, f"the topic {self._topic}")

        await self._cluster.patiently(ask, deadline)


class Pen:
    def __init__(self, producer: TransactionalProducer, place: TopicPartition, name: bytes) -> None:
        self._producer, self._place, self._name = producer, place, name

    async def write(self, content: bytes) -> None:
        """It stands when this returns; it may stand, too, when the answer was lost."""
        record = new_records([(self._name, content)], int(time.time() * 1000))
        stamp = self._producer.stamp(self._place, 1)
        await self._producer.submit(self._place, encode_batch(record, producer=stamp))
        await self._producer.commit()


def _newest_in(answer: Answer, place: TopicPartition, window: Window, name: bytes) -> tuple[bytes | None, int]:
    """What was written last under this name, and where to read on."""
    fetched = Fetched(place.topic, place.partition, answer.records, answer.aborted)
    newest, read_on = None, window.start
    for seen in seen_batches(fetched, window):
        read_on = max(read_on, seen.header.next_offset)
        if seen.is_visible:
            for record in decode_records(bytes(answer.records[seen.at : seen.at + seen.header.size])):
                newest = record.value if record.key == name else newest
    return newest, read_on
