"""The group coordinator of this node: the shards of `__consumer_offsets`, and the topics as they see them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from ottla.base.broker_settings import BrokerConfig
from ottla.base.group_settings import consumer_times
from ottla.core.groups.asks import Decision, Topic
from ottla.core.groups.catalog import Topics
from ottla.core.groups.codec import encode
from ottla.core.groups.settings import ALL_GROUPS, ConsumerTimes, GroupSettings
from ottla.core.groups.shard import GroupShard
from ottla.core.metadata.asks import ResourceType
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.runtime import clock
from ottla.runtime.controller import Controller
from ottla.runtime.coordinators import Coordinators, internal_topic
from ottla.runtime.disk import Disk
from ottla.runtime.partition import Partition
from ottla.runtime.replicas import Replicas
from ottla.runtime.shard import Driver, Shard, Stamp
from ottla.wire.control import EndTxnMarker

OFFSETS_TOPIC = "__consumer_offsets"
_KINDS_WITH_TIMES = (ResourceType.GROUP, ResourceType.BROKER)
Decide = Callable[[GroupShard, int], Decision]


class GroupCoordinator:
    def __init__(self, config: BrokerConfig, controller: Controller, replicas: Replicas, disk: Disk) -> None:
        self._config = config
        self._settings = _group_settings(config)
        self._own_times: dict[str, ConsumerTimes] = {}
        self._random = Random()
        self._controller = controller
        self._topics = Topics()
        self._are_topics_stale = True
        self._seen: dict[Shard[GroupShard], Topics] = {}
        controller.subscribe(self._on_image)
        topic = internal_topic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
        self._clock = clock.AttendedClock()
        self._clock.start()
        driver = Driver(encode, self._clock.now_ms, clock.now_ms, disk, config.offsets_commit_timeout_ms)
        self._coordinators = Coordinators(topic, controller, replicas, driver, self._new_core)

    async def node_of(self, group_id: str) -> int:
        """The broker that coordinates the group."""
        return await self._coordinators.node_of(group_id)

    async def ask(self, group_id: str, decide: Decide, stamp: Stamp | None = None) -> Any:
        """The committed answer of the group's coordinator; raises Refused."""
        return await self._ask(self._coordinators.of(group_id), decide, stamp)

    def partition_of(self, group_id: str) -> Partition:
        """Where the group's offsets are written; raises Refused when that is not here."""
        return self._coordinators.of(group_id).partition

    def write_marker(self, index: int, marker: EndTxnMarker, transaction_version: int) -> asyncio.Future[None] | None:
        """End a client's transaction among the offsets of one partition; what to wait for. Raises Refused."""
        return self._coordinators.at(index).write_marker(marker, transaction_version)

    async def ask_all(self, decide: Decide) -> list[Any]:
        """The answers of all shards of this node."""
        return [await self._ask(shard, decide) for shard in self._coordinators]

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of everything that groups coordinated here have committed."""
        for shard in self._coordinators:
            if shard.is_loaded:
                yield from list(shard.core.committed_offsets())

    def close(self) -> None:
        self._clock.stop()
        self._coordinators.close()

    async def _ask(self, shard: Shard[GroupShard], decide: Decide, stamp: Stamp | None = None) -> Any:
        topics = self._current_topics()
        if shard.is_loaded and self._seen.get(shard) is not topics:
            # Told only when asked something: most shards of most nodes have no groups at all.
            self._seen = {known: seen for known, seen in self._seen.items() if not known.is_resigned}
            self._seen[shard] = topics
            await shard.ask(lambda core, now_ms: core.on_topics(topics, now_ms))
        return await shard.ask(decide, stamp)

    def _new_core(self, partition: Partition) -> GroupShard:
        core = GroupShard(self._settings, self._random, self._own_times)
        core.on_topics(self._current_topics(), self._clock.now_ms())
        return core

    def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.whole or delta.topics_created or delta.topics_deleted or delta.partitions:
            self._are_topics_stale = True
        if delta.whole or any(kind in _KINDS_WITH_TIMES for kind, _ in delta.configs):
            self._renew_times(image)

    def _renew_times(self, image: ClusterImage) -> None:
        broker = {**self._config.texts, **image.broker_config(self._config.node_id)}
        self._own_times.clear()
        self._own_times[ALL_GROUPS] = _consumer_times({}, broker)
        for (kind, name), texts in image.configs.items():
            if kind == ResourceType.GROUP:
                self._own_times[name] = _consumer_times(texts, broker)

    def _current_topics(self) -> Topics:
        if self._are_topics_stale:
            self._are_topics_stale = False
            image = self._controller.image
            topics = Topics(
                (name, Topic(topic.id, len(topic.partitions))) for name, topic in image.topics_by_name.items()
            )
            if topics != self._topics:
                self._topics = topics
        return self._topics


def _consumer_times(group: Mapping[str, str], broker: Mapping[str, str]) -> ConsumerTimes:
    times = consumer_times(group, broker)
    return ConsumerTimes(
        times["consumer.session.timeout.ms"],
        times["consumer.heartbeat.interval.ms"],
        times["consumer.assignment.interval.ms"],
    )


def _group_settings(config: BrokerConfig) -> GroupSettings:
    policy = config.group_consumer_migration_policy
    return GroupSettings(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_can_upgrade=policy in ("bidirectional", "upgrade"),
        consumer_can_downgrade=policy in ("bidirectional", "downgrade"),
    )
