"""`Node`: builds the parts, starts them in order, stops them in the reverse order. No logic of its own."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.broker_settings import Listener as Address
from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import Uuid, uuid_text
from ottla.broker.api.api_versions import ApiVersionsApi
from ottla.broker.api.configs import ConfigsApi
from ottla.broker.api.fetch import FetchApi
from ottla.broker.api.group_admin import GroupAdminApi
from ottla.broker.api.group_commit import GroupCommitApi
from ottla.broker.api.group_membership import GroupMembershipApi
from ottla.broker.api.group_offsets import GroupOffsetsApi
from ottla.broker.api.log_dirs import LogDirsApi
from ottla.broker.api.metadata import MetadataApi
from ottla.broker.api.offsets import OffsetsApi
from ottla.broker.api.produce import ProduceApi
from ottla.broker.api.producers import ProducersApi
from ottla.broker.api.quorum import QuorumApi
from ottla.broker.api.reassignments import ReassignmentsApi
from ottla.broker.api.topic_partitions import TopicPartitionsApi
from ottla.broker.api.topics import TopicsApi
from ottla.broker.api.transaction_admin import TransactionAdminApi
from ottla.broker.api.transactions import TransactionsApi
from ottla.broker.api.txn_offsets import TxnOffsetsApi
from ottla.broker.metrics import Metrics, MetricsServer
from ottla.broker.route import Api
from ottla.broker.router import Router
from ottla.core.metadata.asks import BrokerHeartbeat, BrokerRegistration, Endpoint
from ottla.core.metadata.features import SUPPORTED_FEATURES
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.net.listener import Listener, ListenerLimits
from ottla.runtime import clock
from ottla.runtime.admission import Admissions
from ottla.runtime.cleaner import Cleaner
from ottla.runtime.controller import Controller, ControllerPlace
from ottla.runtime.directories import open_directories
from ottla.runtime.disk import Disk
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.runtime.housekeeping import Housekeeping
from ottla.runtime.replicas import Replicas
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.storage.directory import LogDirectory

log = structlog.get_logger(__name__)

_PLAINTEXT = 0
_HEARTBEAT_SECONDS = 2.0
_FORGOTTEN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Node:
    """One node of a cluster. `failed` resolves with the reason when it cannot go on."""

    controller: Controller
    replicas: Replicas
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    metrics_server: MetricsServer
    failed: asyncio.Future[BaseException]

    def __init__(
        self, config: BrokerConfig, *, sendfile: bool = True, now_ms: Callable[[], int] = clock.now_ms
    ) -> None:
        self.config = config
        self._sendfile = sendfile
        self._now_ms = now_ms
        self._listeners = [Listener(address, self._listener_limits(config)) for address in config.listeners]
        self._teardown: AsyncExitStack | None = None
        self._broker_epoch = -1
        self._are_logs_open = False

    @property
    def host(self) -> str:
        return self._listeners[0].host

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def bootstrap(self) -> str:
        """What a client on this machine is configured with."""
        host = _WILDCARDS.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Open, recover, elect, listen; raises OSError or Refused when that cannot be, and leaves nothing open then."""
        assert self._teardown is None
        self.failed = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as teardown:
            await self._start(teardown)
            self._teardown = teardown.pop_all()
        log.info("node started", node=self.config.node_id, bootstrap=self.bootstrap)

    async def stop(self) -> None:
        """Answer no more, put everything on disk, say so in the directories."""
        teardown, self._teardown = self._teardown, None
        if teardown is not None:
            await teardown.aclose()
            log.info("node stopped", node=self.config.node_id)

    async def _start(self, teardown: AsyncExitStack) -> None:
        config = self.config
        # Before anything is written: an address in use is the most common reason for a start that fails.
        for listener in self._listeners:
            listener.open()
            teardown.callback(listener.stop_accepting)
        disk = Disk()
        teardown.callback(disk.close)
        directories = await disk.run(open_directories, config)
        teardown.callback(self._close_directories, directories.online)
        cluster_id = directories.online[0].cluster_id
        place = self._controller_place(directories.online[0])
        self.controller = Controller(place, config.texts, on_fatal=self._fail, disk=disk)
        teardown.push_async_callback(self.controller.stop)
        await self.controller.start()
        self.replicas = Replicas(config, directories, disk, self._now_ms, self._fail)
        housekeeping = Housekeeping(config, self.replicas, disk, self._now_ms)
        teardown.push_async_callback(housekeeping.write_checkpoints)
        teardown.push_async_callback(self.replicas.close)
        self.groups = GroupCoordinator(config, self.controller, self.replicas, disk)
        teardown.callback(self.groups.close)
        self.transactions = TransactionCoordinator(config, self.controller, self.replicas, self.groups, disk)
        teardown.callback(self.transactions.close)
        self.controller.subscribe(self.replicas.on_image)
        self.controller.subscribe(self._on_image)
        await self._join_cluster(cluster_id, directories.online, teardown)
        await self.replicas.settled()
        self._are_logs_open = True
        housekeeping.start(self._fail)
        teardown.push_async_callback(housekeeping.stop)
        cleaner = Cleaner(config, self.replicas, disk, self._now_ms)
        cleaner.start(self._fail)
        teardown.push_async_callback(cleaner.stop)
        router = Router(route for api in self._apis(uuid_text(cluster_id), housekeeping) for route in api.routes())
        if config.metrics_listener:
            metrics = Metrics(router, self.replicas, self.groups, self._listeners)
            self.metrics_server = MetricsServer(Address.parse(config.metrics_listener), metrics)
            await self.metrics_server.start()
            teardown.push_async_callback(self.metrics_server.stop)
        for listener in self._listeners:
            listener.start(router.answer)
            teardown.callback(listener.close_connections)
            teardown.callback(listener.stop_accepting)

    def _apis(self, cluster_id: str, housekeeping: Housekeeping) -> tuple[Api, ...]:
        replicas, controller, groups, config = self.replicas, self.controller, self.groups, self.config
        transactions = self.transactions
        admissions = Admissions(transactions, config.transaction_partition_verification_enable)
        apis: tuple[Api, ...] = (
            ProduceApi(replicas, admissions, self._now_ms),
            FetchApi(replicas, config.fetch_max_bytes),
            OffsetsApi(replicas, housekeeping.write_start_offsets),
            MetadataApi(controller, replicas, config, cluster_id),
            TopicPartitionsApi(controller, config),
            TopicsApi(controller, replicas, config),
            ReassignmentsApi(controller),
            ConfigsApi(controller, config),
            ProducersApi(replicas, transactions),
            LogDirsApi(replicas),
            QuorumApi(controller, config),
            GroupMembershipApi(groups),
            GroupOffsetsApi(groups, controller),
            GroupAdminApi(groups, transactions, controller, config),
            TransactionsApi(transactions, groups, controller),
            TxnOffsetsApi(groups, admissions, controller),
            TransactionAdminApi(transactions),
            GroupCommitApi(transactions),
        )
        return (*apis, ApiVersionsApi(controller, apis))

    def _listener_limits(self, config: BrokerConfig) -> ListenerLimits:
        return ListenerLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            connections_max=config.max_connections,
            connections_per_host_max=config.max_connections_per_ip,
            idle_ms_max=config.connections_max_idle_ms,
            sendfile=self._sendfile,
        )

    def _controller_place(self, home: LogDirectory) -> ControllerPlace:
        return ControllerPlace(
            node_id=self.config.node_id,
            cluster_id=uuid_text(home.cluster_id),
            directory=self.config.metadata_log_dir or home.path,
            directory_id=home.id,
            endpoints=self._endpoints(),
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        advertised = {address.name: address for address in self.config.advertised_listeners}
        endpoints = []
        for listener in self._listeners:
            told = advertised.get(listener.name)
            host, port = (told.host, told.port) if told is not None else (listener.host, listener.port)
            endpoints.append(Endpoint(listener.name, host, port, _PLAINTEXT))
        return tuple(endpoints)

    async def _join_cluster(self, cluster_id: Uuid, directories: list[LogDirectory], teardown: AsyncExitStack) -> None:
        """Register, and be unfenced by a first heartbeat; from then on this node may lead."""
        config = self.config
        self._registration = BrokerRegistration(
            broker_id=config.node_id,
            cluster_id=uuid_text(cluster_id),
            incarnation_id=os.urandom(16),
            endpoints=self._endpoints(),
            features=SUPPORTED_FEATURES,
            rack=config.broker_rack,
            log_dirs=(*(directory.id for directory in directories), *self.replicas.missing_directory_ids),
            previous_broker_epoch=min(directory.broker_epoch for directory in directories),
        )
        self._broker_epoch = await self.controller.register_broker(self._registration)
        await self._beat()
        beating = asyncio.get_running_loop().create_task(self._beat_forever())
        beating.add_done_callback(self._on_end_of_task)
        teardown.callback(beating.cancel)

    async def _beat(self) -> None:
        beat = BrokerHeartbeat(self.config.node_id, self._broker_epoch, self.controller.metadata_offset)
        await self.controller.broker_heartbeat(beat)

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            try:
                await self._beat()
            except Refused as refusal:
                log.warning("heartbeat refused", reason=str(refusal))
                if refusal.code in _FORGOTTEN:
                    self._broker_epoch = await self.controller.register_broker(self._registration)

    def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Settings that a running node takes up at once: the limits of its listeners."""
        me = str(self.config.node_id)
        if delta.whole or any(name in ("", me) for _, name in delta.configs):
            texts = {**self.config.texts, **image.broker_config(self.config.node_id)}
            limits = self._listener_limits(self.config.with_texts(texts))
            for listener in self._listeners:
                listener.change_limits(limits)

    def _on_end_of_task(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, reason: BaseException) -> None:
        """Something without which this node cannot keep its promises is broken."""
        log.error("node failed", reason=repr(reason))
        if not self.failed.done():
            self.failed.set_result(reason)

    def _close_directories(self, directories: list[LogDirectory]) -> None:
        # A start that failed on the way has recovered nothing, and must not make the next one believe so.
        is_clean = self._are_logs_open and not self.failed.done()
        for directory in directories:
            directory.close(is_clean, self._broker_epoch)
