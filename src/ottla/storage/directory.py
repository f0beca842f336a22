"""A log directory: partitions side by side, whose directory it is, and what was known of them when it was last used.

One node uses it at a time. It fails as a whole: an OSError in one of its logs takes it offline, and the other
directories of the node go on. A full disk is no such failure, nor is a shortage of descriptors: the append is
refused, and what was there is still readable.
"""

from __future__ import annotations

import errno
import fcntl
import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import structlog

from ottla.base.types import METADATA_TOPIC, Offset, TopicName, TopicPartition, Uuid, uuid_text
from ottla.storage.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    BadCheckpoint,
    OffsetCheckpoint,
)
from ottla.storage.files import Files, Handle, SyncFailed
from ottla.storage.log import REAL_FILES
from ottla.storage.meta_properties import (
    META_PROPERTIES,
    BadMetadata,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
    new_uuid,
    read_topic_id,
    write_topic_id,
)

log = structlog.get_logger()

CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE, STRAY = "-delete", "-stray"

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_DISCARDED = re.compile(r".+\.[0-9a-f]{32}-delete")
_NAME_BYTES_MAX = 255
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

Offsets = Mapping[TopicPartition, int]


class DirectoryUnusable(ValueError):
    """The directory is somebody else's: another process's, another node's or another cluster's."""


class Found(NamedTuple):
    """A partition's directory. `topic_id` is None if the directory does not say."""

    topic: TopicName
    partition: int
    topic_id: Uuid | None
    path: Path


def takes_offline(error: OSError) -> bool:
    """Whether the disk is to be mistrusted. A failed fsync always says so, whatever its cause."""
    return isinstance(error, SyncFailed) or error.errno not in _PASSING


class LogDirectory:
    def __init__(self, path: Path, files: Files, lock: Handle, properties: MetaProperties) -> None:
        """Use `LogDirectory.open`."""
        assert properties.directory_id is not None
        self.path = path
        self.id = properties.directory_id
        self.cluster_id = properties.cluster_id
        self.node_id = properties.node_id
        self.is_online = True
        self.offline_reason = ""
        self._files = files
        self._lock: Handle | None = lock
        self._names = threading.Lock()
        """Guards `_held` and `_stored`: partitions are created, and checkpoints written, in threads."""
        self.was_clean, self.broker_epoch = self._take_clean_marker()
        self._stored = {name: self._read(name) for name in CHECKPOINTS}
        """What each checkpoint file says. The dictionaries are replaced, not changed, since threads write them."""
        self._held = {TopicPartition(found.topic, found.partition): found.topic_id for found in self.partitions()}

    @classmethod
    def open(cls, path: Path, node_id: int, cluster_id: Uuid | None = None, files: Files = REAL_FILES) -> LogDirectory:
        """Take the directory for this node, creating it if need be. Raises DirectoryUnusable.

        Without a `cluster_id` that of the directory counts; a new directory then founds a new cluster.
        """
        files.make_directory(str(path))
        lock = _take_lock(files, path)
        return cls(path, files, lock, _properties_of(files, path, node_id, cluster_id))

    def __repr__(self) -> str:
        return f"LogDirectory({self.path})"

    # --- partitions

    @property
    def partition_count(self) -> int:
        return len(self._held)

    def holds(self, key: TopicPartition) -> bool:
        return key in self._held

    def partitions(self) -> list[Found]:
        """All partitions on disk, but the metadata log, which is the quorum's."""
        found = []
        for name in self._files.directories(str(self.path)):
            match = _PARTITION.fullmatch(name)
            if match and match["topic"] != METADATA_TOPIC:
                path = self.path / name
                topic_id = read_topic_id(self._files, str(path))
                found.append(Found(TopicName(match["topic"]), int(match["partition"]), topic_id, path))
        return found

    def ensure_partition(self, key: TopicPartition, topic_id: Uuid) -> Path:
        """The partition's directory, made if it is not there; it says which topic it belongs to (KIP-516)."""
        path = self.path / str(key)
        held = self._held.get(key)
        if held is not None and held != topic_id:  # an earlier topic of that name, whose deletion did not get this far
            self.set_aside(Found(key.topic, key.partition, held, path))
        if key not in self._held or held != topic_id:
            if key not in self._held:
                self._forget_offsets(key)
            self._files.make_directory(str(path))
            # Without fsync: it is repeated at the next start should a power cut undo it.
            write_topic_id(self._files, str(path), topic_id, sync=False)
            with self._names:
                self._held[key] = topic_id
        return path

    def _forget_offsets(self, key: TopicPartition) -> None:
        """An earlier partition of that name may have left offsets that would cut the new one."""
        with self._names:
            for name, stored in self._stored.items():
                if key in stored:
                    self._store(name, {other: offset for other, offset in stored.items() if other != key})

    def set_aside(self, found: Found) -> Path:
        """The cluster does not know this partition; a person may want to look at it."""
        return self._rename(TopicPartition(found.topic, found.partition), STRAY)

    def discard(self, key: TopicPartition) -> Path:
        """The partition is no more. Its name is free at once; its files are deleted by `delete` after a while."""
        return self._rename(key, DELETE)

    def _rename(self, key: TopicPartition, suffix: str) -> Path:
        ending = f".{uuid4().hex}{suffix}"
        name = f"{str(key)[: _NAME_BYTES_MAX - len(ending)]}{ending}"
        self._files.rename(str(self.path / str(key)), str(self.path / name))
        with self._names:
            self._held.pop(key, None)
        return self.path / name

    def discarded(self) -> list[Path]:
        """Partitions discarded by an earlier run that did not live to delete them."""
        return [self.path / name for name in self._files.directories(str(self.path)) if _DISCARDED.fullmatch(name)]

    def delete(self, path: Path) -> None:
        """Remove a discarded partition's files; may take long."""
        assert _DISCARDED.fullmatch(path.name) and path.parent == self.path
        self._files.remove_tree(str(path))

    # --- what is written down

    @property
    def recovery_points(self) -> Offsets:
        return self._stored[RECOVERY_POINTS]

    @property
    def start_offsets(self) -> Offsets:
        return self._stored[START_OFFSETS]

    @property
    def high_watermarks(self) -> Offsets:
        return self._stored[HIGH_WATERMARKS]

    @property
    def cleaner_offsets(self) -> Offsets:
        return self._stored[CLEANER_OFFSETS]

    def write_recovery_points(self, offsets: Offsets) -> None:
        self._write(RECOVERY_POINTS, offsets)

    def write_start_offsets(self, offsets: Offsets) -> None:
        self._write(START_OFFSETS, offsets)

    def write_high_watermarks(self, offsets: Offsets) -> None:
        self._write(HIGH_WATERMARKS, offsets)

    def write_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """The partition is compacted up to `offset`."""
        with self._names:
            self._store(CLEANER_OFFSETS, {**self._stored[CLEANER_OFFSETS], key: Offset(offset)})

    def _write(self, name: str, offsets: Offsets) -> None:
        with self._names:
            self._store(name, {key: Offset(offset) for key, offset in offsets.items()})

    def _store(self, name: str, offsets: dict[TopicPartition, Offset]) -> None:
        OffsetCheckpoint(self.path / name, self._files).write(offsets)
        self._stored[name] = offsets

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        """What a damaged checkpoint said is found out anew; it costs time, not records."""
        offsets = {}
        try:
            offsets = OffsetCheckpoint(self.path / name, self._files).read()
        except BadCheckpoint as error:
            log.warning("checkpoint unreadable", path=str(self.path / name), reason=str(error))
        return offsets

    def _take_clean_marker(self) -> tuple[bool, int]:
        """Whether the last stop was clean, and the broker epoch then. The marker is gone as soon as it is read."""
        path = str(self.path / CLEAN_SHUTDOWN)
        if not self._files.exists(path):
            return False, -1
        data = self._files.read(path)
        self._files.unlink(path)
        self._files.sync_directory(str(self.path))
        try:
            content = json.loads(data)
        except ValueError:  # older versions left it empty; that it is there is what counts
            return True, -1
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return True, epoch if isinstance(epoch, int) else -1

    # --- the end

    def mark_offline(self, error: OSError) -> None:
        """Nothing here is to be read or written any more, until the node is started again."""
        self.is_online = False
        self.offline_reason = str(error)

    def close(self, clean: bool, broker_epoch: int = -1) -> None:
        """Let go of the directory. `clean` says that every log in it was closed cleanly before."""
        if self._lock is None:
            return
        if clean and self.is_online:
            marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
            self._files.write_atomically(str(self.path / CLEAN_SHUTDOWN), marker.encode("ascii"))
        self._lock = None


def _take_lock(files: Files, path: Path) -> Handle:
    """Both kinds of lock: one that other processes of Kafka's kind see, one that this process sees."""
    handle = files.open(str(path / LOCK), create=True)
    try:
        fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryUnusable(f"{path} is in use by another process") from error
    except PermissionError as error:
        raise DirectoryUnusable(f"{path} is in use by another process") from error
    return handle


def _properties_of(files: Files, path: Path, node_id: int, cluster_id: Uuid | None) -> MetaProperties:
    meta = str(path / META_PROPERTIES)
    if not files.exists(meta):
        fresh = MetaProperties(cluster_id or new_uuid(), node_id, new_uuid())
        files.write_atomically(meta, encode_meta_properties(fresh))
        return fresh
    try:
        found = decode_meta_properties(files.read(meta))
    except BadMetadata as error:
        raise DirectoryUnusable(f"{meta}: {error}") from error
    if found.node_id != node_id:
        raise DirectoryUnusable(f"{path} belongs to node {found.node_id}, this is node {node_id}")
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise DirectoryUnusable(f"{path} belongs to cluster {uuid_text(found.cluster_id)}, not {uuid_text(cluster_id)}")
    if found.directory_id is None:
        found = MetaProperties(found.cluster_id, found.node_id, new_uuid())
        files.write_atomically(meta, encode_meta_properties(found))
    return found
