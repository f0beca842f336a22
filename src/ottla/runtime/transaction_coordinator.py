"""The transaction coordinator of this node: the shards of `__transaction_state`, and what they want done elsewhere."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import Refused
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.state import TRANSACTION_VERSION
from ottla.core.transactions.asks import Decision, MarkersWritten, ProducerIdNeeded, WriteMarkers
from ottla.core.transactions.codec import encode
from ottla.core.transactions.records import NO_PRODUCER_ID, TopicPartition
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import TransactionShard
from ottla.runtime import clock
from ottla.runtime.controller import Controller
from ottla.runtime.coordinators import Coordinators, internal_topic
from ottla.runtime.disk import Disk
from ottla.runtime.group_commit import GroupCommitErrands
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.runtime.marker_sender import MarkerSender
from ottla.runtime.partition import Partition
from ottla.runtime.producer_ids import ProducerIds
from ottla.runtime.replicas import Replicas
from ottla.runtime.shard import Driver

log = structlog.get_logger(__name__)

TRANSACTIONS_TOPIC = "__transaction_state"
_COMMIT_TIMEOUT_MS = 5_000
_MARKER_RESEND_MS = 500
Decide = Callable[[TransactionShard, int], Decision]
DecideWithId = Callable[[TransactionShard, int, int], Decision]
"""Takes a producer id that nobody has, too; -1 as long as none is needed."""


class TransactionCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        controller: Controller,
        replicas: Replicas,
        groups: GroupCoordinator,
        disk: Disk,
    ) -> None:
        self.ids = ProducerIds(controller, int(config.node_id))
        self.markers = MarkerSender(replicas, groups)
        self._settings = _transaction_settings(config)
        self._random = Random()
        self._errands = GroupCommitErrands(self, groups)
        self._under_way: set[asyncio.Task[None]] = set()
        topic = internal_topic(
            TRANSACTIONS_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(
                    min(config.transaction_state_log_min_isr, config.transaction_state_log_replication_factor)
                ),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
        driver = Driver(encode, clock.steady_ms, clock.now_ms, disk, _COMMIT_TIMEOUT_MS, perform=self._perform)
        self._controller = controller
        self._coordinators = Coordinators(topic, controller, replicas, driver, self._new_core)
        controller.subscribe(self._on_image)

    async def node_of(self, key: str) -> int:
        """The broker that coordinates a transactional id, or the commits of a sink and a query."""
        return await self._coordinators.node_of(key)

    async def ask(self, key: str, decide: Decide) -> Any:
        """The committed answer of the coordinator of `key`; raises Refused."""
        return await self._coordinators.of(key).ask(decide)

    async def ask_with_id(self, key: str, decide: DecideWithId) -> Any:
        """Like `ask`, for a question that may need a new producer id."""
        reply = await self.ask(key, lambda core, now_ms: decide(core, now_ms, NO_PRODUCER_ID))
        while isinstance(reply, ProducerIdNeeded):
            producer_id = await self.ids.next()
            reply = await self.ask(key, lambda core, now_ms, new=producer_id: decide(core, now_ms, new))  # type: ignore[misc]
        return reply

    async def ask_all(self, decide: Decide) -> list[Any]:
        """The answers of all shards of this node."""
        return [await shard.ask(decide) for shard in self._coordinators]

    def close(self) -> None:
        self._coordinators.close()
        for task in self._under_way:
            task.cancel()

    # ---------------------------------------------------------------- what the cores want done

    def _perform(self, effect: Any) -> None:
        if isinstance(effect, WriteMarkers):
            self._start(self.markers.send(effect, lambda done: self._start(self._report_markers(effect, done))))
        else:
            self._start(self._errands.run(effect))

    async def _report_markers(self, effect: WriteMarkers, done: frozenset[TopicPartition]) -> None:
        written = MarkersWritten(effect.marker_id, effect.transactional_id, done)
        await self.ask(effect.transactional_id, lambda core, now_ms: core.on_markers(written, now_ms))

    def _start(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(errand)
        self._under_way.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Refused):
            # Whoever wanted it done asks again.
            log.info("errand of a transaction refused", reason=str(error))
        elif error is not None:
            raise error

    # ---------------------------------------------------------------- cores

    def _new_core(self, partition: Partition) -> TransactionShard:
        core = TransactionShard(self._settings, self._random, partition.leader_epoch)
        core.transaction_version = self._version()
        return core

    def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.whole or delta.features:
            for shard in self._coordinators:
                shard.core.transaction_version = self._version()

    def _version(self) -> int:
        return self._controller.image.features.get(TRANSACTION_VERSION, 0)


def _transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        timeout_ms_max=config.transaction_max_timeout_ms,
        has_two_phase_commit=config.transaction_two_phase_commit_enable,
        id_expiration_ms=config.transactional_id_expiration_ms,
        id_expiration_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        add_partitions_wait_ms_max=config.add_partitions_to_txn_retry_backoff_max_ms,
        marker_resend_ms=_MARKER_RESEND_MS,
    )
