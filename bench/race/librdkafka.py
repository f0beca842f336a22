"""Loads from librdkafka, through confluent-kafka. Each function runs in a process of its own and imports it there."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, cycle
from types import MappingProxyType
from typing import Any

from bench.race.apart import Load, Stopwatch
from bench.race.payload import values

_FLUSH_SECONDS_MAX = 300.0
_SILENCE_SECONDS_MAX = 60.0
SHORT_PAUSE: Mapping[str, Any] = MappingProxyType({"fetch.queue.backoff.ms": 10})
"""A consumer whose queue is full asks for nothing for so long; by default a second, in which its application starves.

Whether it fills is luck where broker and application are about as fast; the faster broker fills it more.
"""


class NotDelivered(RuntimeError):
    """A record was refused, or did not come: the run counts for nothing."""


def _producer(bootstrap: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    # Successes are not reported one by one: in Python that costs more than sending.
    names = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 1_000_000,
            **names,
        }
    )


def _send(producer: Any, topic: str, value: bytes, failures: list[object], **more: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error), **more)
            return
        except BufferError:
            producer.poll(0.01)


def _finish(producers: list[Any], failures: list[object]) -> None:
    for producer in producers:
        if producer.flush(_FLUSH_SECONDS_MAX):
            raise NotDelivered("records were still under way after the flush")
    if failures:
        raise NotDelivered(f"{len(failures)} records were refused, the first: {failures[0]}")


def produce(bootstrap: str, topic: str, count: int, size: int, acks: str, codec: str) -> Load:
    producer = _producer(bootstrap, acks=acks, compression_type=codec, linger_ms=5)
    failures: list[object] = []
    producer.list_topics(topic, timeout=30)
    watch = Stopwatch()
    on_delivery = lambda error, _: failures.append(error)  # noqa: E731 - one object for all records
    for number, value in zip(range(count), cycle(values(size)), strict=False):
        try:
            producer.produce(topic, value, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.01)
            _send(producer, topic, value, failures)
        if number % 1000 == 0:
            producer.poll(0)
    _finish([producer], failures)
    return watch.load(count)


@dataclass(frozen=True)
class Keyed:
    """What records carry beside their values."""

    keys: tuple[bytes, ...]
    header: tuple[str, bytes]
    partitions: int


def produce_keyed(bootstrap: str, topic: str, count: int, size: int, more: Keyed) -> Load:
    """With a key and a header each; a thousand for one partition, then for the next, so that batches are large."""
    producer = _producer(bootstrap, acks="all", linger_ms=5)
    failures: list[object] = []
    watch = Stopwatch()
    for number, value, key in zip(range(count), cycle(values(size)), cycle(more.keys), strict=False):
        place = number // 1000 % more.partitions
        _send(producer, topic, value, failures, key=key, headers=[more.header], partition=place)
        if number % 1000 == 0:
            producer.poll(0)
    _finish([producer], failures)
    return watch.load(count)


def produce_singly(bootstrap: str, topic: str, count: int, clients: int) -> Load:
    """Requests of one record each, without lingering; as many under way per connection as librdkafka's default."""
    producers = [_producer(bootstrap, acks="all", linger_ms=0, batch_num_messages=1) for _ in range(clients)]
    failures: list[object] = []
    for producer in producers:
        producer.list_topics(topic, timeout=30)
    value = values(100)[0]
    watch = Stopwatch()
    for number in range(count):
        producer = producers[number % clients]
        _send(producer, topic, value, failures)
        if number % 100 == 0:
            producer.poll(0)
    _finish(producers, failures)
    return watch.load(count)


def consume_pausing(bootstrap: str, topic: str, partitions: int, count: int) -> Load:
    """With the pause that librdkafka makes if nobody tells it otherwise."""
    return consume(bootstrap, topic, partitions, count, {})


def consume(bootstrap: str, topic: str, partitions: int, count: int, settings: Mapping[str, Any] = SHORT_PAUSE) -> Load:
    consumer = _reader(bootstrap, topic, partitions, settings)
    watch, seen = Stopwatch(), 0
    while seen < count:
        # It waits until it has as many as were asked for.
        messages = consumer.consume(min(10_000, count - seen), timeout=_SILENCE_SECONDS_MAX)
        if not messages:
            raise NotDelivered(f"{seen} of {count} records came before the silence")
        seen += len(messages)
    load = watch.load(seen)
    consumer.close()
    return load


def _reader(bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any] = SHORT_PAUSE) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    own = {"bootstrap.servers": bootstrap, "group.id": "race", "enable.auto.commit": False}
    consumer = Consumer(own | dict(settings))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    return consumer


def produce_paced(bootstrap: str, topic: str, size: int, rate: float, seconds: float) -> Load:
    """A steady stream beside something else that is measured."""
    producer = _producer(bootstrap, acks="all", linger_ms=5)
    failures: list[object] = []
    watch, sent, begun = Stopwatch(), 0, time.monotonic()
    pool = values(size)
    while (now := time.monotonic() - begun) < seconds:
        for _ in range(int(now * rate) - sent):
            _send(producer, topic, pool[sent % len(pool)], failures)
            sent += 1
        producer.poll(0.005)
    _finish([producer], failures)
    return watch.load(sent)


def drain(bootstrap: str, topic: str) -> Load:
    """Read from the beginning until the end has been reached, while the end moves."""
    from confluent_kafka import TopicPartition

    consumer = _reader(bootstrap, topic, 1)
    place, watch, seen = TopicPartition(topic, 0), Stopwatch(), 0
    while True:
        messages = consumer.consume(1_000, timeout=0.5)
        seen += len(messages)
        _, end = consumer.get_watermark_offsets(place, cached=True)
        # Less than a batch behind a stream that does not stop is as near as a reader gets.
        if messages and end - messages[-1].offset() <= 1_000:
            break
        if time.monotonic() - watch._begun > _FLUSH_SECONDS_MAX:
            raise NotDelivered(f"after {seen} records the end was still {end}")
    load = watch.load(seen)
    consumer.close()
    return load


def transact(bootstrap: str, topic: str, size: int, seconds: float, every_ms: float) -> Load:
    """As fast as it goes, committed every so often; how long commits take."""
    producer = _producer(bootstrap, transactional_id="race", linger_ms=5)
    failures: list[object] = []
    pool, commits, sent = values(size), [], 0
    producer.init_transactions(60)
    watch, begun = Stopwatch(), time.monotonic()
    while time.monotonic() - begun < seconds:
        producer.begin_transaction()
        until = time.monotonic() + every_ms / 1000
        while time.monotonic() < until:
            for _ in range(100):
                _send(producer, topic, pool[sent % len(pool)], failures)
                sent += 1
            producer.poll(0)
        ending = time.monotonic()
        producer.commit_transaction(60)
        commits.append((time.monotonic() - ending) * 1000)
    if failures:
        raise NotDelivered(f"{len(failures)} records were refused, the first: {failures[0]}")
    commits.sort()
    return watch.load(sent, commits=len(commits), p50=commits[len(commits) // 2], p99=commits[len(commits) * 99 // 100])


def join_together(bootstrap: str, topic: str, partitions: int, members: int, protocol: str) -> Load:
    """Consumers that come at once, until every partition has its one owner and every member a part."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": f"race-{protocol}", "group.protocol": protocol}
    consumers = [Consumer(settings) for _ in range(members)]
    watch = Stopwatch()
    for consumer in consumers:
        consumer.subscribe([topic])
    deadline = time.monotonic() + 120
    while True:
        for consumer in consumers:
            consumer.poll(0)
        owned = [[place.partition for place in consumer.assignment()] for consumer in consumers]
        if sorted(chain.from_iterable(owned)) == list(range(partitions)) and all(owned):
            break
        if time.monotonic() > deadline:
            raise NotDelivered(f"{members} members own {sum(map(len, owned))} of {partitions} partitions")
        time.sleep(0.01)
    load = watch.load(members)
    for consumer in consumers:
        consumer.close()
    return load
