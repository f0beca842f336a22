"""A cluster as a client sees it: who leads a partition, who coordinates what, and how to ask them.

Every question has a deadline; what fails in a way that passes is asked again until then, with growing pauses.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from types import TracebackType
from typing import Any, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicName, TopicPartition
from ottla.client.addresses import Address
from ottla.client.connection import Connection
from ottla.client.deadline import Backoff, Deadline
from ottla.client.failures import (
    MOVED,
    NO_COORDINATOR,
    BrokerRefused,
    ClientFailure,
    ConnectionLost,
    NoSuchTopic,
    Unreachable,
    check,
)
from ottla.client.metadata import ClusterView, TopicView
from ottla.client.pool import Lane, Pool
from ottla.client.settings import ClientSettings
from ottla.client.versions import ANY, Span
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import Message

T = TypeVar("T")
_WITHOUT_MAKING = Span(4)
"""Before, asking for a topic could not be told from asking for it to be made."""


class Coordinator(IntEnum):
    """FindCoordinator's key types. A group commit is found like a transaction, under a key of its own."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """Belongs to the event loop and to the process in which it was made."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.backoff = Backoff(settings.backoff_s, settings.backoff_s_max)
        self.view = ClusterView()
        self._pool = Pool(settings)
        self._learning = asyncio.Lock()
        self._learned = 0
        """How many pictures of the cluster have been received."""
        self._coordinators: dict[tuple[Coordinator, str], Address] = {}
        self._pid = os.getpid()

    @classmethod
    def at(cls, bootstrap: str, **settings: object) -> Cluster:
        """For a cluster that needs no settings but perhaps Kafka's, with `_` for the dots."""
        names = {name.replace("_", "."): value for name, value in settings.items()}
        return cls(ClientSettings.from_kafka({"bootstrap.servers": bootstrap, **names}))

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.close()

    def deadline(self, seconds: float | None = None) -> Deadline:
        return Deadline(self.settings.patience_s if seconds is None else seconds)

    async def patiently(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        return await deadline.patiently(attempt, self.backoff)

    # Whom to ask

    async def anyone(self) -> Connection:
        """Somebody of the cluster who can be reached; nobody in particular."""
        self._check_process()
        for connection in self._pool.open_ones(Lane.ORDINARY):
            return connection
        failures = []
        for address in dict.fromkeys((*self.view.brokers.values(), *self.settings.bootstrap)):
            try:
                return await self._pool.get(address)
            except ClientFailure as failure:
                if not failure.is_retriable:
                    raise
                failures.append(str(failure))
        raise Unreachable("any broker", "; ".join(failures))

    async def broker(self, node_id: int, lane: Lane = Lane.ORDINARY) -> Connection:
        self._check_process()
        address = self.view.brokers.get(node_id)
        if address is None:
            raise Unreachable(f"broker {node_id}", "its address is not known")
        return await self._pool.get(address, lane)

    async def coordinator(self, kind: Coordinator, key: str, deadline: Deadline) -> Connection:
        self._check_process()
        address = self._coordinators.get((kind, key))
        if address is None:
            request = FindCoordinatorRequest(key, int(kind), [key])
            answer = await (await self.anyone()).ask(request, deadline, Span(int(kind)))
            # From version 4 on the answer is a list, of one here.
            found = answer.coordinators[0] if answer.coordinators else answer
            check(found.error_code, found.error_message, f"the coordinator of {key!r}")
            address = self._coordinators[kind, key] = (found.host, found.port)
        try:
            return await self._pool.get(address, Lane.COORDINATOR)
        except Unreachable:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: Coordinator, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def ask_coordinator(
        self,
        kind: Coordinator,
        key: str,
        request: Message,
        deadline: Deadline,
        span: Span = ANY,
        is_slow: bool = False,
    ) -> Any:
        """One attempt. Whoever gets an error code out of the answer gives it to `heed`."""
        connection = await self.coordinator(kind, key, deadline)
        try:
            return await connection.ask(request, deadline, span, is_slow)
        except ConnectionLost:
            self.forget_coordinator(kind, key)
            raise

    def heed(self, kind: Coordinator, key: str, code: int, why: str | None = None, about: str = "") -> None:
        """Raise what a coordinator answered, and look for another if it is none (any more)."""
        if code in NO_COORDINATOR:
            self.forget_coordinator(kind, key)
        check(code, why, about or key)

    # What there is

    async def learn(self, names: Iterable[str] | None, deadline: Deadline) -> ClusterView:
        """A fresh picture of these topics, or of all."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in dict.fromkeys(names)]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        connection = await self.anyone()
        response = await connection.ask(request, deadline, _WITHOUT_MAKING)
        check(response.error_code)
        self.view.update(response)
        self._learned += 1
        return self.view

    async def topics(self, names: Iterable[str], deadline: Deadline | None = None) -> Mapping[str, TopicView]:
        """Topics that must be there, freshly looked at."""
        wanted, deadline = list(names), deadline or self.deadline()
        absence = Deadline(self.settings.absence_s)

        async def look() -> Mapping[str, TopicView]:
            view = await self.learn(wanted, deadline)
            for name in wanted:
                code = view.errors.get(name, 0)
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and absence.is_over:
                    raise NoSuchTopic(name)
                check(code, about=name)
            return {name: view.topics[name] for name in wanted}

        return await self.patiently(look, deadline)

    async def topics_like(self, pattern: str, deadline: Deadline | None = None) -> Mapping[str, TopicView]:
        """All whose whole name matches, but for internal ones."""
        compiled, deadline = re.compile(pattern), deadline or self.deadline()
        view = await self.patiently(lambda: self.learn(None, deadline), deadline)
        return {
            name: topic for name, topic in view.topics.items() if not topic.is_internal and compiled.fullmatch(name)
        }

    async def partitions(self, names: Iterable[str], deadline: Deadline | None = None) -> list[TopicPartition]:
        topics = await self.topics(names, deadline)
        return [
            TopicPartition(TopicName(name), index) for name, topic in topics.items() for index in sorted(topic.leaders)
        ]

    async def by_leader(self, places: Iterable[TopicPartition], deadline: Deadline) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them; NO_LEADER holds those of which none is known even now."""
        wanted = list(places)
        if self.view.without_leader(wanted):
            learned = self._learned
            async with self._learning:  # others may have asked meanwhile
                if learned == self._learned:
                    await self.learn({place.topic for place in self.view.without_leader(wanted)}, deadline)
        groups: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            groups.setdefault(self.view.leader(place), []).append(place)
        return groups

    def note(self, place: TopicPartition, code: int) -> None:
        """What a broker said about a partition may mean that it leads it no longer."""
        if code in MOVED:
            self.view.drop_leader(place)

    def note_unreachable(self, node_id: int) -> None:
        for name, topic in self.view.topics.items():
            for index, leader in topic.leaders.items():
                if leader == node_id:
                    self.view.drop_leader(TopicPartition(TopicName(name), index))

    def absence(self, place: TopicPartition) -> BrokerRefused:
        """Why a partition has no leader."""
        code = self.view.errors.get(place.topic)
        topic = self.view.topics.get(place.topic)
        if code is None:
            is_there = topic is not None and place.partition in topic.leaders
            code = ErrorCode.LEADER_NOT_AVAILABLE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return BrokerRefused(code, about=str(place))

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a client does not survive a fork: make one in the process that uses it")
