"""The controller's decisions without its log: what is decided is applied at once. For tests of the admin APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.broker.route import Call
from ottla.core.metadata import brokers, configs, elections, features, topics
from ottla.core.metadata import records as r
from ottla.core.metadata.asks import Decision, ProducerIdBlock
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.state import ControllerState
from ottla.core.transactions.asks import MarkersWritten, ProducerIdNeeded, Waiting, WriteMarkers
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import TransactionShard
from ottla.net.connection import Peer
from ottla.runtime.producer_ids import ProducerIds
from ottla.wire.control import EndTxnMarker
from ottla.wire.primitives import Buffer, Message

CLUSTER_ID = "b3R0bGEtY29tcGF0LTAwMQ"
PEER = Peer("127.0.0.1", 50_000, "PLAINTEXT", "127.0.0.1")
DIRECTORY = bytes(15) + b"\x09"


class CoreController:
    """The methods of the real controller, on the same core."""

    is_leader = True
    leader_id = 1
    epoch = 3
    metadata_offset = 42

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.state = ControllerState(ClusterImage(), Random(7), CLUSTER_ID, dict(settings or {}))
        self.refusal: Refused | None = None
        self.delay_seconds = 0.0
        self.blocks_taken = 0
        self._callbacks: list[Callable[[ClusterImage, ImageDelta], None]] = []

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    def subscribe(self, callback: Callable[[ClusterImage, ImageDelta], None]) -> None:
        self._callbacks.append(callback)
        callback(self.image, ImageDelta(whole=True))

    def apply(self, *records: object) -> None:
        delta = ImageDelta()
        for record in records:
            self.image.apply(record, delta)
        for callback in self._callbacks:
            callback(self.image, delta)

    def add_broker(self, broker_id: int, port: int, listener: str = "PLAINTEXT", fenced: bool = False) -> None:
        endpoint = r.BrokerEndpoint(name=listener, host="127.0.0.1", port=port)
        self.apply(
            r.RegisterBrokerRecord(
                broker_id=broker_id, broker_epoch=5, end_points=[endpoint], fenced=fenced, log_dirs=[DIRECTORY]
            )
        )

    async def _do(self, decision: Decision) -> Any:
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self.refusal is not None:
            raise self.refusal
        self.apply(*decision.records)
        return decision.reply

    async def create_topics(self, asks: Sequence[Any], validate_only: bool = False) -> Any:
        return await self._do(topics.create_topics(self.state, asks, validate_only))

    async def delete_topics(self, asks: Sequence[Any]) -> Any:
        return await self._do(topics.delete_topics(self.state, asks))

    async def create_partitions(self, asks: Sequence[Any], validate_only: bool = False) -> Any:
        return await self._do(topics.create_partitions(self.state, asks, validate_only))

    async def alter_configs(self, asks: Sequence[Any], validate_only: bool = False) -> Any:
        return await self._do(configs.alter_configs(self.state, asks, validate_only))

    async def incremental_alter_configs(self, asks: Sequence[Any], validate_only: bool = False) -> Any:
        return await self._do(configs.incremental_alter_configs(self.state, asks, validate_only))

    async def elect_leaders(self, asked: Any, unclean: bool = False) -> Any:
        return await self._do(elections.elect_leaders(self.state, asked, unclean))

    async def update_features(self, asks: Sequence[Any], validate_only: bool = False) -> Any:
        return await self._do(features.update_features(self.state, asks, validate_only))

    async def unregister_broker(self, broker_id: int) -> None:
        await self._do(brokers.unregister_broker(self.state, broker_id))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        self.blocks_taken += 1
        block: ProducerIdBlock = await self._do(brokers.allocate_producer_ids(self.state, broker_id, broker_epoch))
        return block


@dataclass(eq=False)
class FakeReplicas:
    """Knows what it is told; says for which topics somebody waited."""

    directories: list[Any] = field(default_factory=list)
    lost_directories: tuple[Path, ...] = ()
    partitions: dict[tuple[str, int], Any] = field(default_factory=dict)
    waited_for: list[str] = field(default_factory=list)
    on_opened: Callable[[], object] = bool

    def __iter__(self) -> Any:
        return iter(self.partitions.values())

    async def opened(self, topic: str) -> None:
        self.waited_for.append(topic)
        self.on_opened()

    def find(self, topic: str, index: int) -> Any:
        found = self.partitions.get((topic, index))
        if found is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        return found

    def home_of(self, partition: Any) -> Any:
        return partition.home


class FakeTransactions:
    """The coordinator of all transactional ids, on the real core. What is decided is applied, markers stand at once."""

    def __init__(self, controller: CoreController) -> None:
        self.ids = ProducerIds(controller, 1)  # type: ignore[arg-type]
        self.core = TransactionShard(TransactionSettings(has_two_phase_commit=True), Random(7), 0)
        self.now_ms = 1_000
        self.markers = self
        self.written: list[tuple[str, int, EndTxnMarker, int]] = []

    async def node_of(self, key: str) -> int:
        return 1

    async def ask(self, key: str, decide: Callable[[TransactionShard, int], Any]) -> Any:
        decision = decide(self.core, self.now_ms)
        for record in decision.records:
            self.core.apply(record, self.now_ms)
        for effect in decision.effects:
            if isinstance(effect, WriteMarkers):
                done = MarkersWritten(effect.marker_id, effect.transactional_id, frozenset(effect.partitions))
                await self.ask(key, lambda core, now_ms, done=done: core.on_markers(done, now_ms))  # type: ignore[misc]
        if isinstance(decision.reply, Waiting):
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "nobody waits here")
        return decision.reply

    async def ask_with_id(self, key: str, decide: Callable[[TransactionShard, int, int], Any]) -> Any:
        reply = await self.ask(key, lambda core, now_ms: decide(core, now_ms, -1))
        if not isinstance(reply, ProducerIdNeeded):
            return reply
        new = await self.ids.next()
        return await self.ask(key, lambda core, now_ms: decide(core, now_ms, new))

    async def ask_all(self, decide: Callable[[TransactionShard, int], Any]) -> list[Any]:
        return [await self.ask("", decide)]

    async def write_and_wait(self, topic: str, index: int, marker: EndTxnMarker, transaction_version: int) -> None:
        if topic != "one":
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        self.written.append((topic, index, marker, transaction_version))


def one_node(settings: Mapping[str, str] | None = None) -> tuple[CoreController, BrokerConfig]:
    controller = CoreController(settings)
    controller.add_broker(1, 9092)
    return controller, BrokerConfig.from_texts(settings or {})


def call(request: Message, version: int, peer: Peer = PEER) -> Call[Any]:
    """The request as it arrives: through its own encoding, so that fields a version lacks are at their defaults."""
    out = Buffer()
    request.encode(out, version)
    decoded, _ = type(request).decode(memoryview(bytes(out)), 0, version)
    return Call(decoded, version, "test", peer)


def told(response: Message, version: int) -> Any:
    """The response as its reader gets it."""
    out = Buffer()
    response.encode(out, version)
    decoded, at = type(response).decode(memoryview(bytes(out)), 0, version)
    assert at == len(out)
    return decoded
