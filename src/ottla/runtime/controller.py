"""`Controller`: the cluster's metadata on this node, and, while it leads the quorum, the commands that change them.

A command is decided on the state with everything that has been appended, appended, and answered once it is committed
and this node's image has it. `image` is what is committed; `subscribe(callback)` calls `callback(image, delta)` at
every commit, before the command is answered. All of it belongs to one event loop.

Commands (see `core.metadata.asks` for what they take and give): `create_topics`, `delete_topics`,
`create_partitions`, `alter_configs`, `incremental_alter_configs`, `register_broker`, `broker_heartbeat`,
`unregister_broker`, `allocate_producer_ids`, `alter_partition`, `elect_leaders`, `update_features`. On a node that
does not lead they raise Refused(NOT_CONTROLLER).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import structlog

from ottla.base.broker_settings import BROKER_SETTINGS
from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import METADATA_RECORDS_PER_BATCH_MAX
from ottla.base.types import ZERO_UUID
from ottla.core.metadata import asks as a
from ottla.core.metadata import brokers, configs, elections, features, topics
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
)
from ottla.core.metadata.snapshot import image_records
from ottla.core.metadata.state import ControllerState
from ottla.core.quorum.member import QuorumSetup
from ottla.core.quorum.messages import Message
from ottla.runtime.disk import Disk
from ottla.runtime.quorum import QuorumDriver
from ottla.runtime.quorum_codec import Voter
from ottla.runtime.quorum_opening import QuorumPlace
from ottla.storage.files import Files
from ottla.storage.log import REAL_FILES

log = structlog.get_logger()
T = TypeVar("T")
Subscriber = Callable[[ClusterImage, ImageDelta], None]

BROKER_SESSION_MS = 9_000
_STALL_MS = 1_000
"""A timer that comes so late means that this process stood still, not that the brokers are gone."""
_HEARING_MS = 100
"""So much longer lasts a session that seems to be over: a heartbeat may be waiting behind what kept the loop busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlace:
    node_id: int
    cluster_id: str
    directory: Path
    """The metadata log directory."""
    directory_id: bytes
    endpoints: tuple[a.Endpoint, ...] = ()
    """Where the members of the quorum reach this one."""
    others: tuple[Voter, ...] = ()
    features: Mapping[str, int] = field(default_factory=lambda: features.DEFAULT_FEATURES)
    """What a new cluster begins with."""
    files: Files = REAL_FILES
    send: Callable[[Message], None] | None = None
    broker_session_ms: int = BROKER_SESSION_MS
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    id: int
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    is_voter: bool
    directory_id: bytes = ZERO_UUID


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    leader_id: int
    epoch: int
    high_watermark: int
    replicas: tuple[ReplicaStatus, ...]


class Controller:
    def __init__(
        self,
        place: ControllerPlace,
        settings: Mapping[str, str],
        on_fatal: Callable[[BaseException], None],
        disk: Disk | None = None,
        random: Random | None = None,
    ) -> None:
        """`settings` are the broker settings this node was started with, by Kafka's names."""
        self.image = ClusterImage()
        self._removed_topics: set[bytes] = set()
        self._place = place
        self._settings = settings
        self._random = random or Random()
        self._own_disk = disk is None
        self._disk = disk or Disk(threads=1)
        self._state: ControllerState | None = None
        self._sessions = brokers.BrokerSessions(place.broker_session_ms)
        self._subscribers: list[Subscriber] = []
        self._timer: asyncio.TimerHandle | None = None
        self._snapshot_ms = 0.0
        self._ready: asyncio.Future[None] | None = None
        self._voters = (
            Voter(place.node_id, place.directory_id, tuple((e.name, e.host, e.port) for e in place.endpoints)),
            *place.others,
        )
        self._on_fatal = on_fatal
        self._quorum = QuorumDriver(self._quorum_place(), self, self._disk, self._random, self._fail)

    def _quorum_place(self) -> QuorumPlace:
        place = self._place
        bootstrap = sorted(place.features.items(), key=lambda feature: (feature[0] != "metadata.version", feature))
        return QuorumPlace(
            directory=place.directory,
            voters=self._voters,
            setup=QuorumSetup(
                node_id=place.node_id,
                voters=frozenset(voter.id for voter in self._voters),
                election_timeout_ms=place.election_timeout_ms,
                fetch_timeout_ms=place.fetch_timeout_ms,
            ),
            bootstrap=tuple(FeatureLevelRecord(name=name, feature_level=level) for name, level in bootstrap),
            files=place.files,
            send=place.send,
        )

    # --- life

    async def start(self) -> None:
        """Returns once everything that was ever acknowledged is in the image, and some member leads."""
        self._loop = asyncio.get_running_loop()
        self._snapshot_ms = self._loop.time() * 1000
        self._ready = self._loop.create_future()
        await self._quorum.start()
        await self._ready
        self._publish(self._whole())

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._quorum.stop()
        if self._own_disk:
            self._disk.close()

    def subscribe(self, callback: Subscriber) -> None:
        """Called at once with a whole delta if there is an image already."""
        self._subscribers.append(callback)
        if self._ready is not None and self._ready.done():
            callback(self.image, self._whole())

    @property
    def is_leader(self) -> bool:
        return self._quorum.is_leader

    @property
    def leader_id(self) -> int | None:
        return self._quorum.leader_id

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def metadata_offset(self) -> int:
        """The last offset that the image holds: what a heartbeat tells."""
        return self._quorum.applied_end - 1

    def receive(self, message: Message) -> None:
        self._quorum.receive(message)

    def quorum_status(self) -> QuorumStatus:
        voters = {voter.id: voter.directory_id for voter in self._voters}
        leader_id = -1 if self.leader_id is None else self.leader_id
        replicas = tuple(
            ReplicaStatus(
                id, peer.end_offset, peer.fetched_ms, peer.caught_up_ms, id in voters, voters.get(id, ZERO_UUID)
            )
            for id, peer in sorted(self._quorum.replicas.items())
        )
        return QuorumStatus(leader_id, self.epoch, self._quorum.high_watermark, replicas)

    # --- what the quorum tells

    def on_snapshot(self, records: Sequence[object]) -> None:
        image = ClusterImage()
        for record in records:
            image.apply(record)
        self.image = image
        self._publish(self._whole())

    def on_committed(self, records: Sequence[object]) -> None:
        delta = ImageDelta()
        for record in records:
            self.image.apply(record, delta)
        if not self._is_ready:
            self._removed_topics.update(one.topic_id for one in records if isinstance(one, RemoveTopicRecord))
        self._publish(delta)
        self._maybe_keep_snapshot()

    def on_leader(self, leader_id: int | None, epoch: int) -> None:
        self._state = None
        if leader_id == self._place.node_id:
            return  # not before all that earlier leaders committed is here: see `on_leading`
        if leader_id is not None:
            self._be_ready()

    def on_leading(self) -> None:
        """The image has everything; commands are decided from now on."""
        self._state = ControllerState(self.image.copy(), self._random, self._place.cluster_id, self._settings)
        self._sessions.begin(self._now_ms())
        if self._state.image.is_in_transaction:
            self._append([AbortTransactionRecord(reason="the leader that began it is gone")])
        if self._quorum.is_fresh:
            self._append([FeatureLevelRecord(n, level) for n, level in self._state.image.features.items()])
        self._arm()
        self._be_ready()

    def _fail(self, error: BaseException) -> None:
        """The log cannot be written or forced to disk: whoever waits is told, and the node must end."""
        self._state = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
        self._on_fatal(error)

    def _whole(self) -> ImageDelta:
        return ImageDelta(whole=True, topics_removed=frozenset(self._removed_topics))

    @property
    def _is_ready(self) -> bool:
        return self._ready is not None and self._ready.done()

    def _be_ready(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _publish(self, delta: ImageDelta) -> None:
        if self._is_ready:
            for subscriber in tuple(self._subscribers):
                subscriber(self.image, delta)

    # --- decide, append, apply, answer

    def _leading(self) -> ControllerState:
        if self._state is None or not self._quorum.is_leader:
            raise Refused(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
        return self._state

    async def _settle(self, decision: a.Decision, kind: type[T]) -> T:
        """The reply, once all that it rests on is committed: also a refusal may rest on what is still on its way."""
        waiting = self._append(decision.records) if decision.records else self._quorum.settled()
        if waiting is not None:
            await asyncio.shield(waiting)
        assert isinstance(decision.reply, kind)
        return decision.reply

    def _append(self, records: Sequence[object]) -> asyncio.Future[None]:
        state = self._leading()
        if len(records) > METADATA_RECORDS_PER_BATCH_MAX:  # more than one batch: all or nothing all the same (KIP-868)
            records = [BeginTransactionRecord(name="large"), *records, EndTransactionRecord()]
        committed = self._quorum.append(records)
        for record in records:
            state.image.apply(record)
        return committed

    async def create_topics(self, asks: Sequence[a.NewTopic], validate_only: bool = False) -> list[a.TopicCreation]:
        return await self._settle(topics.create_topics(self._leading(), asks, validate_only), list)

    async def delete_topics(self, asks: Sequence[a.TopicRef]) -> list[a.TopicDeletion]:
        return await self._settle(topics.delete_topics(self._leading(), asks), list)

    async def create_partitions(
        self, asks: Sequence[a.NewPartitions], validate_only: bool = False
    ) -> list[a.PartitionsCreation]:
        return await self._settle(topics.create_partitions(self._leading(), asks, validate_only), list)

    async def alter_configs(
        self, asks: Sequence[a.ConfigReplacement], validate_only: bool = False
    ) -> list[a.ConfigAlteration]:
        return await self._settle(configs.alter_configs(self._leading(), asks, validate_only), list)

    async def incremental_alter_configs(
        self, asks: Sequence[a.ConfigChange], validate_only: bool = False
    ) -> list[a.ConfigAlteration]:
        return await self._settle(configs.incremental_alter_configs(self._leading(), asks, validate_only), list)

    async def register_broker(self, ask: a.BrokerRegistration) -> int:
        """The broker's epoch."""
        state, now_ms = self._leading(), self._now_ms()
        decision = brokers.register_broker(state, self._sessions, ask, self._quorum.end_offset, now_ms)
        self._sessions.hear(ask.broker_id, now_ms)
        return await self._settle(decision, int)

    async def broker_heartbeat(self, ask: a.BrokerHeartbeat) -> a.HeartbeatReply:
        decision = brokers.broker_heartbeat(self._leading(), ask)
        self._sessions.hear(ask.broker_id, self._now_ms())
        if not decision.records:
            assert isinstance(decision.reply, a.HeartbeatReply)
            return decision.reply
        reply = await self._settle(decision, a.HeartbeatReply)
        self._arm()
        return reply

    async def unregister_broker(self, broker_id: int) -> None:
        await self._settle(brokers.unregister_broker(self._leading(), broker_id), type(None))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> a.ProducerIdBlock:
        decision = brokers.allocate_producer_ids(self._leading(), broker_id, broker_epoch)
        return await self._settle(decision, a.ProducerIdBlock)

    async def alter_partition(self, ask: a.IsrProposal) -> list[a.IsrAnswer]:
        return await self._settle(elections.alter_partition(self._leading(), ask), list)

    async def elect_leaders(
        self, asked: Sequence[tuple[str, int]] | None, unclean: bool = False
    ) -> list[a.LeaderElection]:
        return await self._settle(elections.elect_leaders(self._leading(), asked, unclean), list)

    async def update_features(
        self, asks: Sequence[a.FeatureUpdate], validate_only: bool = False
    ) -> list[a.FeatureAlteration]:
        return await self._settle(features.update_features(self._leading(), asks, validate_only), list)

    # --- time

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _arm(self) -> None:
        """One timer for the session that ends first. Heartbeats do not move it: it looks again when it fires."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state is None:
            return
        deadline_ms = self._sessions.next_deadline_ms(self._state)
        if deadline_ms is not None:
            self._timer = self._loop.call_at((deadline_ms + 1) / 1000, self._on_time, deadline_ms)

    def _on_time(self, due_ms: int) -> None:
        self._timer = None
        if self._state is None or not self._quorum.is_leader:
            return
        late_ms = self._now_ms() - due_ms
        if late_ms > _STALL_MS:
            log.warning("controller stood still", late_ms=late_ms)
            self._sessions.forgive(late_ms)
        self._hear_then_fence()

    def _hear_then_fence(self) -> None:
        due_ms = self._now_ms() + _HEARING_MS
        self._timer = self._loop.call_at(due_ms / 1000, self._fence_overdue, due_ms)

    def _fence_overdue(self, due_ms: int) -> None:
        self._timer = None
        if self._state is None or not self._quorum.is_leader:
            return
        if self._now_ms() - due_ms > _HEARING_MS:
            self._hear_then_fence()  # busy again: nobody has been heard yet
            return
        while True:
            decision = brokers.fence_overdue(self._state, self._sessions, self._now_ms())
            if not decision.records:
                break
            log.warning("broker fenced", reason="no heartbeat", records=len(decision.records))
            self._append(decision.records)
        self._arm()

    # --- snapshots

    def _maybe_keep_snapshot(self) -> None:
        bytes_max = self._number("metadata.log.max.record.bytes.between.snapshots")
        interval_ms = self._number("metadata.log.max.snapshot.interval.ms")
        grown = self._quorum.bytes_since_snapshot
        is_due = grown >= bytes_max or (interval_ms > 0 and self._now_ms() - self._snapshot_ms >= interval_ms)
        if is_due and grown and self._ready is not None and not self.image.is_in_transaction:
            self.keep_snapshot()

    def keep_snapshot(self) -> asyncio.Task[None] | None:
        """Begin a snapshot of the image as it is now."""
        self._snapshot_ms = self._now_ms()
        frozen = self.image.copy()
        return self._quorum.keep_snapshot(lambda: image_records(frozen))

    def _number(self, name: str) -> int:
        value = BROKER_SETTINGS[name].parse(self._settings.get(name, BROKER_SETTINGS[name].default))
        assert isinstance(value, int)
        return value
