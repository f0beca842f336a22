"""Members of groups, each with a real client in a thread: they work, commit what they have done when they let go of a
partition, and tell the ledger about all of it.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.structs import TopicPartition as AioPlace
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPlace

from .group_ledger import Ledger, Place

SESSION_MS = 6_000
HEARTBEAT_MS = 100
POLL_SECONDS = 0.05
PYTHON_POLL_MS = 1_000
"""kafka-python forgets an assignment that arrives while a shorter poll is just running out."""
END_SECONDS_MAX = 30.0
Settings = dict[str, Any]


class Member(ABC):
    """`start`, then `close` (leaves the group) or `abandon` (a plain end is up to the kind)."""

    kind: ClassVar[str]

    def __init__(self, name: str, bootstrap: str, group: str, topics: list[str], ledger: Ledger) -> None:
        self.name = name
        self.bootstrap, self.group, self.topics = bootstrap, group, topics
        self.ledger = ledger
        self.positions: dict[Place, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_and_tell, name=name, daemon=True)

    def start(self) -> Member:
        self._thread.start()
        return self

    def close(self) -> None:
        """Leave the group; everything that was worked on is committed afterwards."""
        self.ask_to_end()
        self.wait_ended()

    def ask_to_end(self) -> None:
        self._stop.set()

    def wait_ended(self) -> None:
        self._thread.join(END_SECONDS_MAX)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run_and_tell(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - a thread's failure is the test's
            self.ledger.faults.append(f"{self.name}: {error!r}")

    @abstractmethod
    def _run(self) -> None: ...

    def _work(self, place: Place, offset: int) -> None:
        self.ledger.see(self.name, place, offset)
        self.positions[place] = offset + 1

    def _finished(self, places: Iterable[Place]) -> dict[Place, int]:
        """The positions of these, to be committed: they are its own no longer."""
        done = {place: self.positions.pop(place) for place in places if place in self.positions}
        for place, offset in done.items():
            self.ledger.commits[place].add(offset)
        return done


class ConfluentMember(Member):
    """librdkafka. With `group.protocol=consumer` the broker decides on sessions, heartbeats and assignors."""

    kind = "confluent"

    def __init__(
        self, name: str, bootstrap: str, group: str, topics: list[str], ledger: Ledger, **settings: Any
    ) -> None:
        super().__init__(name, bootstrap, group, topics, ledger)
        config = {name.replace("_", "."): value for name, value in settings.items()}
        if config.get("group.protocol") != "consumer":
            config = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS, **config}
        self._settings = config

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 500,
                **self._settings,
            }
        )
        consumer.subscribe(self.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        while not self._stop.is_set():
            self._take(consumer.poll(POLL_SECONDS))
        consumer.close()

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._ALL_BROKERS_DOWN):
                raise KafkaException(error)
            return
        self._work((message.topic(), message.partition()), message.offset())

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.ledger.take(self.name, places_of(partitions))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        done = [TopicPartition(*place, offset) for place, offset in self._finished(places_of(partitions)).items()]
        if done:
            try:
                answered = consumer.commit(offsets=done, asynchronous=False) or []
                refused = [one.error for one in answered if one.error is not None]
            except KafkaException as failure:
                refused = [failure.args[0]]
            self.ledger.refused_commits += [f"{self.name}: {error.name()}" for error in refused]
        self.ledger.drop(self.name, places_of(partitions))

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for place in places_of(partitions):
            self.positions.pop(place, None)
        self.ledger.lost.update(places_of(partitions))
        self.ledger.drop(self.name, places_of(partitions))


class KafkaPythonMember(Member):
    """kafka-python, classic protocol."""

    kind = "kafka-python"

    def _run(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
        )
        listener = _PythonListener(self, consumer)
        consumer.subscribe(self.topics, listener=listener)
        while not self._stop.is_set():
            for place, records in consumer.poll(timeout_ms=PYTHON_POLL_MS).items():
                for record in records:
                    self._work((place.topic, place.partition), record.offset)
        if done := self._finished(places_of(consumer.assignment())):
            consumer.commit(_python_offsets(done))
        self.ledger.drop_all(self.name)
        consumer.close(autocommit=False)


def _python_offsets(done: dict[Place, int]) -> dict[PythonPlace, OffsetAndMetadata]:
    return {PythonPlace(*place): OffsetAndMetadata(offset, "", -1) for place, offset in done.items()}


class _PythonListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Called on the client's own thread, where nothing may block."""

    def __init__(self, member: KafkaPythonMember, consumer: KafkaConsumer) -> None:
        self._member = member
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._member.ledger.take(self._member.name, places_of(assigned))

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        mine = set(self._member.ledger.owned_by(self._member.name))
        places = [place for place in places_of(revoked) if place in mine]
        done = self._member._finished(places)
        if done:
            await self._consumer.commit_async(_python_offsets(done))
        self._member.ledger.drop(self._member.name, places)


class AioMember(Member):
    """aiokafka, classic protocol, on an event loop of its own."""

    kind = "aiokafka"

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            client_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
        )
        listener = _AioListener(self, consumer)
        consumer.subscribe(self.topics, listener=listener)
        await consumer.start()
        try:
            while not self._stop.is_set():
                for place, records in (await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))).items():
                    for record in records:
                        self._work((place.topic, place.partition), record.offset)
            await listener.on_partitions_revoked(consumer.assignment())
        finally:
            await consumer.stop()


class _AioListener(AioListener):  # type: ignore[misc]
    def __init__(self, member: AioMember, consumer: AIOKafkaConsumer) -> None:
        self._member = member
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._member.ledger.take(self._member.name, places_of(assigned))

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        mine = set(self._member.ledger.owned_by(self._member.name))
        places = [place for place in places_of(revoked) if place in mine]
        done = self._member._finished(places)
        if done:
            await self._consumer.commit({AioPlace(*place): offset for place, offset in done.items()})
        self._member.ledger.drop(self._member.name, places)


def places_of(partitions: Iterable[Any]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


class Load:
    """A producer that writes to all partitions of some topics until it is told to stop."""

    def __init__(self, bootstrap: str, topics: dict[str, int], pause_seconds: float = 0.005) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
        self._pause_seconds = pause_seconds
        self.ends: dict[Place, int] = dict.fromkeys(self._places, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> dict[Place, int]:
        """How many records each partition has."""
        self._stop.set()
        self._thread.join(END_SECONDS_MAX)
        assert self._producer.flush(END_SECONDS_MAX) == 0
        return self.ends

    def _run(self) -> None:
        while not self._stop.wait(self._pause_seconds):
            for topic, partition in self._places:
                self._producer.produce(topic, b"x", partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        place = (message.topic(), message.partition())
        self.ends[place] = max(self.ends[place], message.offset() + 1)
