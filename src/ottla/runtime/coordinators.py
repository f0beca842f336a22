"""The coordinator shards of this node: one for each partition of an internal topic that it leads.

The topic is created when the first client asks for a coordinator. Shards come and go with the leadership of their
partitions, as the replicas report it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.placement import partition_for
from ottla.core.metadata.asks import NewTopic
from ottla.runtime.controller import Controller
from ottla.runtime.partition import Partition
from ottla.runtime.replicas import Replicas
from ottla.runtime.shard import Core, Driver, Shard

log = structlog.get_logger(__name__)

C = TypeVar("C", bound=Core)


class Coordinators(Generic[C]):
    def __init__(
        self,
        topic: NewTopic,
        controller: Controller,
        replicas: Replicas,
        driver: Driver,
        new_core: Callable[[Partition], C],
    ) -> None:
        """`topic`: the internal topic, as it is to be created."""
        self._topic = topic
        self._controller = controller
        self._replicas = replicas
        self._driver = driver
        self._new_core = new_core
        self._shards: dict[int, Shard[C]] = {}
        self._creating: asyncio.Future[None] | None = None
        replicas.watch(topic.name, self._on_led, self._on_lost)

    def __iter__(self) -> Iterator[Shard[C]]:
        return iter(list(self._shards.values()))

    def of(self, key: str) -> Shard[C]:
        """The shard that coordinates `key`; raises Refused when it is not here."""
        return self.at(self.index_of(key))

    def at(self, index: int) -> Shard[C]:
        """The shard of one partition of the topic; raises Refused when it is not here."""
        shard = self._shards.get(index)
        if shard is None:
            raise Refused(ErrorCode.NOT_COORDINATOR, "this node does not coordinate it")
        return shard

    def index_of(self, key: str) -> int:
        """The partition that `key` belongs to, or -1 while there is no topic."""
        image = self._controller.image.topics_by_name.get(self._topic.name)
        return -1 if image is None else partition_for(key, len(image.partitions))

    async def node_of(self, key: str) -> int:
        """The broker that coordinates `key`, its topic created if need be; Refused while nobody does."""
        await self._ensure_topic()
        image = self._controller.image.topics_by_name[self._topic.name]
        index = self.index_of(key)
        leader = image.partitions[index].leader
        if leader < 0:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._topic.name}-{index} has no leader")
        return leader

    async def _ensure_topic(self) -> None:
        if self._creating is None:
            if self._topic.name in self._controller.image.topics_by_name:
                return
            self._creating = asyncio.ensure_future(self._create())
        # Whoever comes while its partitions are being opened waits like the first: librdkafka gives up assigned
        # partitions for good when a coordinator that it was sent to refuses OffsetFetch with NOT_COORDINATOR.
        # Shielded: one asker's leaving must not undo what the others wait for.
        await asyncio.shield(self._creating)

    async def _create(self) -> None:
        try:
            brokers = sum(1 for broker in self._controller.image.brokers.values() if broker.is_usable)
            wanted = NewTopic(
                self._topic.name,
                self._topic.partition_count,
                max(min(self._topic.replication_factor, brokers), 1),
                configs=self._topic.configs,
            )
            (made,) = await self._controller.create_topics([wanted])
            if made.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.error("internal topic not created", topic=self._topic.name, reason=made.why)
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, made.why or made.error.name)
            await self._replicas.opened(self._topic.name)
            await asyncio.gather(*(shard.loaded() for shard in self))
        finally:
            self._creating = None

    def _on_led(self, partition: Partition) -> None:
        index = partition.key.partition
        if index not in self._shards:
            self._shards[index] = Shard(self._new_core(partition), partition, self._driver)

    def _on_lost(self, partition: Partition) -> None:
        shard = self._shards.pop(partition.key.partition, None)
        if shard is not None:
            shard.resign()

    def close(self) -> None:
        for shard in self:
            shard.resign()
        self._shards.clear()


def internal_topic(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> NewTopic:
    return NewTopic(name, partitions, replication_factor, configs=tuple(configs.items()))
