"""The partitions that this node hosts: opened, led, reconfigured and deleted as the cluster image says.

The image is the wish, the log directories are what is there; this class makes the second follow the first. Logs are
opened in threads (recovery may read a lot); everything else happens on the loop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

import structlog

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.topic_settings import LogConfig, log_config
from ottla.base.types import BrokerId, TopicName, TopicPartition, Uuid
from ottla.core.metadata.asks import ResourceType
from ottla.core.metadata.entries import PartitionImage, TopicImage
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.runtime.directories import Directories
from ottla.runtime.disk import Disk
from ottla.runtime.partition import Partition
from ottla.storage.directory import LogDirectory, takes_offline
from ottla.storage.log import Log, LogPlace, LogStart

log = structlog.get_logger(__name__)

_REOPEN_SECONDS = 1.0

OnLeadership = Callable[[Partition], None]


class Replicas:
    def __init__(
        self,
        config: BrokerConfig,
        directories: Directories,
        disk: Disk,
        now_ms: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.directories = directories.online
        self.lost_directories = directories.lost
        """Paths that could not be opened at start. What lies there must not be begun anew elsewhere."""
        self._me = BrokerId(config.node_id)
        self._config = config
        self._disk = disk
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._image = ClusterImage()
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        self._homes: dict[Partition, LogDirectory] = {}
        self.missing_directory_ids: tuple[bytes, ...] = ()
        """Directories that this node had before and has not now."""
        self._lost: set[tuple[bytes, int]] = set()
        """Partitions, by topic id and index, that lie in a directory that is not here."""
        self._is_closing = False
        self._opening: dict[TopicPartition, asyncio.Task[None]] = {}
        self._arriving: Counter[LogDirectory] = Counter()
        """Partitions that are being opened, perhaps created, by directory."""
        self._configs: dict[str, LogConfig] = {}
        self._watchers: dict[str, tuple[OnLeadership, OnLeadership]] = {}
        self._broker_texts: Mapping[str, str] = dict(config.texts)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._homes))

    def __len__(self) -> int:
        return len(self._homes)

    # ---------------------------------------------------------------- look-ups

    def find(self, topic: str, index: int) -> Partition:
        """The hosted partition; raises Refused with the reason why there is none."""
        partitions = self._by_name.get(topic)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        raise self._why_missing(self._image.topics_by_name.get(topic), index)

    def find_by_id(self, topic_id: bytes, index: int) -> Partition:
        partitions = self._by_id.get(topic_id)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        raise self._why_missing(topic, index)

    def of_topics(self, is_wanted: Callable[[LogConfig], bool]) -> list[Partition]:
        """The partitions of topics with such settings; one look per topic, as there may be very many partitions."""
        found: list[Partition] = []
        for partitions in self._by_name.values():
            if partitions and is_wanted(next(iter(partitions.values())).config):
                found += partitions.values()
        return found

    def watch(self, topic: str, on_led: OnLeadership, on_lost: OnLeadership) -> None:
        """Tell when this node begins and ceases to lead partitions of `topic`."""
        self._watchers[topic] = (on_led, on_lost)
        for partition in self._by_name.get(topic, {}).values():
            if partition.leader is not None:
                on_led(partition)

    def high_watermark(self, topic: str, index: int) -> int | None:
        """Of a partition that is hosted here; None for the others."""
        partition = self._by_name.get(topic, {}).get(index)
        return None if partition is None else partition.high_watermark

    def home_of(self, partition: Partition) -> LogDirectory:
        return self._homes[partition]

    async def settled(self) -> None:
        """Wait until everything that the image wants here so far is open, or has failed to open."""
        while self._opening:
            await asyncio.wait(list(self._opening.values()))

    async def opened(self, topic: str) -> None:
        """Wait until this topic's partitions are open here, so that its creator may use it at once."""
        tasks = [task for key, task in self._opening.items() if key.topic == topic]
        if tasks:
            await asyncio.wait(tasks)

    def _why_missing(self, topic: TopicImage | None, index: int) -> Refused:
        if topic is None or not 0 <= index < len(topic.partitions):
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this node does not host this topic-partition")
        key = TopicPartition(TopicName(topic.name), index)
        if self._me in topic.partitions[index].replicas and key not in self._opening:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {key} is offline")
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead {key}")

    # ---------------------------------------------------------------- following the image

    def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        self._image = image
        if delta.whole:
            self._reconcile(image, delta.topics_removed)
            return
        for topic in delta.topics_deleted.values():
            self._delete_topic(topic)
        if delta.configs:
            self._reconfigure(image, delta)
        for topic_id, indexes in delta.partitions.items():
            changed = image.topics_by_id.get(topic_id)
            if changed is not None:
                for index in sorted(indexes):
                    self._follow(changed, changed.partitions[index])

    def _reconcile(self, image: ClusterImage, removed: AbstractSet[bytes]) -> None:
        """A first or loaded image: open what it wants, put aside what it does not know."""
        self._broker_texts = {**self._config.texts, **image.broker_config(self._me)}
        self._configs.clear()
        for partition in self:
            topic = image.topics_by_id.get(partition.topic_id)
            if topic is None or partition.key.partition >= len(topic.partitions):
                self._drop(partition)
        for directory in self.directories:
            self._part_with_strays(image, directory, removed)
            for doomed in directory.discarded():
                self._delete_files(directory, doomed)
        self._note_lost(image)
        for topic in image.topics_by_id.values():
            for wanted in topic.partitions:
                self._follow(topic, wanted)

    def _note_lost(self, image: ClusterImage) -> None:
        """While a directory is away its partitions must not be begun anew elsewhere: it may come back."""
        before = image.brokers.get(self._me)
        here = {directory.id for directory in self.directories}
        self.missing_directory_ids = tuple(id for id in (before.log_dirs if before else ()) if id not in here)
        if self.missing_directory_ids or self.lost_directories:
            wanted = ((topic, one.index) for topic in image.topics_by_id.values() for one in topic.partitions)
            self._lost = {(topic.id, index) for topic, index in wanted if not self._is_here(topic.name, index)}
            log.error("log directory missing", partitions=len(self._lost))

    def _is_here(self, topic: str, index: int) -> bool:
        key = TopicPartition(TopicName(topic), index)
        return any(directory.holds(key) for directory in self.directories)

    def _part_with_strays(self, image: ClusterImage, directory: LogDirectory, removed: AbstractSet[bytes]) -> None:
        for found in directory.partitions():
            topic = image.topics_by_name.get(found.topic)
            is_wanted = topic is not None and found.topic_id in (None, topic.id)
            if is_wanted and topic is not None and found.partition < len(topic.partitions):
                continue
            if found.topic_id in removed:
                directory.discard(TopicPartition(found.topic, found.partition))
                continue
            log.warning("partition is unknown to the cluster, set aside", path=str(found.path))
            directory.set_aside(found)

    def _follow(self, topic: TopicImage, wanted: PartitionImage) -> None:
        key = TopicPartition(TopicName(topic.name), wanted.index)
        hosted = self._by_id.get(topic.id, {}).get(wanted.index)
        if self._me not in wanted.replicas:
            if hosted is not None:
                self._drop(hosted)
        elif hosted is not None:
            self._lead(hosted, wanted)
        elif key not in self._opening and (topic.id, wanted.index) not in self._lost:
            task = asyncio.get_running_loop().create_task(self._open(topic, key))
            self._opening[key] = task
            task.add_done_callback(partial(self._on_opened, key))

    def _on_opened(self, key: TopicPartition, task: asyncio.Task[None]) -> None:
        del self._opening[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(error)

    async def _open(self, topic: TopicImage, key: TopicPartition) -> None:
        directory = self._directory_for(key)
        if directory is None:
            log.error("partition has no log directory that works", partition=str(key))
            return
        config = self._config_of(topic.name)
        self._arriving[directory] += 1
        try:
            expiration_ms = self._config.producer_id_expiration_ms
            opened = await self._disk.run(
                _open_log, directory, key, Uuid(topic.id), config, expiration_ms, self._now_ms()
            )
        except OSError as problem:
            self.storage_failed(directory, problem)
            if directory.is_online:
                asyncio.get_running_loop().call_later(_REOPEN_SECONDS, self._open_later, topic.id, key.partition)
            return
        finally:
            self._arriving[directory] -= 1
        current = self._image.topics_by_id.get(topic.id)
        if current is None:
            opened.close()
            directory.discard(key)
            return
        partition = Partition(key, Uuid(topic.id), opened, self._disk, self._on_partition_failed)
        partition.change_config(self._config_of(topic.name))
        self._homes[partition] = directory
        self._by_id.setdefault(topic.id, {})[key.partition] = partition
        self._by_name[topic.name] = self._by_id[topic.id]
        self._lead(partition, current.partitions[key.partition])

    def _open_later(self, topic_id: bytes, index: int) -> None:
        """There was no room for it, or no descriptor; there may be now."""
        topic = self._image.topics_by_id.get(topic_id)
        if topic is not None and not self._is_closing:
            self._follow(topic, topic.partitions[index])

    def _lead(self, partition: Partition, image: PartitionImage) -> None:
        if image.leader == self._me:
            checkpointed = self._homes[partition].high_watermarks.get(partition.key, 0)
            partition.lead(image, self._me, checkpointed, self._now_ms())
            watcher = self._watchers.get(partition.key.topic)
            if watcher is not None:
                watcher[0](partition)
        else:
            refusal = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {image.leader} leads {partition.key}")
            self._resign(partition, refusal)

    def _resign(self, partition: Partition, refusal: Refused) -> None:
        watcher = self._watchers.get(partition.key.topic)
        if watcher is not None and partition.leader is not None:
            watcher[1](partition)
        partition.resign(refusal)

    def _directory_for(self, key: TopicPartition) -> LogDirectory | None:
        """Where the partition lies already, or the directory that holds the fewest. None if that one is offline."""
        for directory in self.directories:
            if directory.holds(key):
                return directory if directory.is_online else None
        online = [directory for directory in self.directories if directory.is_online]
        return min(online, key=lambda one: one.partition_count + self._arriving[one], default=None)

    # ---------------------------------------------------------------- settings

    def _config_of(self, topic: str) -> LogConfig:
        own = self._image.topic_config(topic)
        name = topic if own else ""
        config = self._configs.get(name)
        if config is None:
            config = self._configs[name] = log_config(own, self._broker_texts)
        return config

    def _reconfigure(self, image: ClusterImage, delta: ImageDelta) -> None:
        touches_all = any(kind == ResourceType.BROKER for kind, _ in delta.configs)
        self._configs.clear()
        if touches_all:
            self._broker_texts = {**self._config.texts, **image.broker_config(self._me)}
            topics = set(self._by_name)
        else:
            topics = {name for kind, name in delta.configs if kind == ResourceType.TOPIC}
        for topic in topics:
            config = self._config_of(topic)
            for partition in self._by_name.get(topic, {}).values():
                partition.change_config(config)

    # ---------------------------------------------------------------- leaving

    def _delete_topic(self, topic: TopicImage) -> None:
        for partition in list(self._by_id.get(topic.id, {}).values()):
            self._drop(partition)

    def _drop(self, partition: Partition) -> None:
        """This node hosts the partition no longer: its files go, after the delay that readers under way need."""
        directory = self._forget(
            partition, Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition.key} is not hosted here any more")
        )
        try:
            partition.log.close(clean=False)
            doomed = directory.discard(partition.key)
        except OSError as problem:
            self.take_offline(directory, problem)
            return
        delay = partition.config.file_delete_delay_ms / 1000
        asyncio.get_running_loop().call_later(delay, self._delete_files, directory, doomed)

    def _delete_files(self, directory: LogDirectory, doomed: Path) -> None:
        self._disk.run(directory.delete, doomed)

    def delete_later(self, partition: Partition, paths: Iterable[str]) -> None:
        """Files that have left the log; a reader may be sending them still."""
        doomed = list(paths)
        if doomed:
            delay = partition.config.file_delete_delay_ms / 1000
            asyncio.get_running_loop().call_later(delay, lambda: self._disk.run(_unlink_all, doomed))

    def _forget(self, partition: Partition, refusal: Refused) -> LogDirectory:
        siblings = self._by_id[partition.topic_id]
        del siblings[partition.key.partition]
        if not siblings:
            del self._by_id[partition.topic_id]
            if self._by_name.get(partition.key.topic) is siblings:
                del self._by_name[partition.key.topic]
        self._resign(partition, refusal)
        return self._homes.pop(partition)

    def _on_partition_failed(self, partition: Partition, problem: OSError) -> None:
        directory = self._homes.get(partition)
        if directory is not None:
            self.storage_failed(directory, problem)

    def storage_failed(self, directory: LogDirectory, problem: OSError) -> None:
        """Something could not be read or written; whether the directory can be trusted on depends on what it was."""
        if takes_offline(problem):
            self.take_offline(directory, problem)
        else:
            log.error("storage failed for now", path=str(directory.path), reason=str(problem))

    def take_offline(self, directory: LogDirectory, problem: OSError) -> None:
        """One directory has failed: its partitions end here, those of the others go on."""
        if not directory.is_online:
            return
        directory.mark_offline(problem)
        log.error("log directory offline", path=str(directory.path), reason=str(problem))
        for partition in self:
            if self._homes[partition] is directory:
                self._forget(
                    partition,
                    Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {partition.key} is offline"),
                )
        if not any(other.is_online for other in self.directories):
            self._on_fatal(problem)

    async def close(self) -> None:
        """Close every log, fsyncs and all; a directory in which that fails is not marked as cleanly stopped."""
        self._is_closing = True
        for partition in self:
            self._resign(partition, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node is shutting down"))
        await asyncio.gather(*(self._close_log(partition) for partition in self))

    async def _close_log(self, partition: Partition) -> None:
        directory = self._homes[partition]
        try:
            await self._disk.run(partition.log.close)
        except OSError as problem:
            # Whatever it was, this directory cannot be called cleanly closed.
            self.take_offline(directory, problem)


def _open_log(
    directory: LogDirectory,
    key: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    producer_expiration_ms: int,
    now_ms: int,
) -> Log:
    """In a thread: create the partition's directory if need be, recover its log if need be."""
    directory.ensure_partition(key, topic_id)
    start = LogStart(
        clean=directory.was_clean,
        recovery_point=directory.recovery_points.get(key, 0),
        log_start_offset=directory.start_offsets.get(key, 0),
        producer_expiration_ms=producer_expiration_ms,
    )
    opened = Log.open(LogPlace(directory.path, key.topic, key.partition), config, start, now_ms)
    if config.flush_messages == 1:
        opened.flush()  # what a crash left in the page cache is about to be readable, and acknowledged as a duplicate
    return opened


def _unlink_all(paths: Iterable[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)
