"""The files of the metadata log beside its segments: the vote, the snapshots, the name of the topic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.base.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, uuid_text
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.messages import SnapshotId
from ottla.storage.files import Files

QUORUM_STATE = "quorum-state"
PARTITION_METADATA = "partition.metadata"
LEGACY_BOOTSTRAP = "bootstrap.checkpoint"
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_UNFINISHED = (".checkpoint.part", ".checkpoint.deleted", ".tmp")


class BadQuorumState(ValueError):
    """The file that remembers the vote cannot be read: starting without it could mean voting twice."""


@dataclass(frozen=True, slots=True)
class QuorumFiles:
    directory: Path
    """The metadata log directory; the partition's own lies in it."""
    files: Files

    @property
    def path(self) -> str:
        return f"{self.directory}/{METADATA_TOPIC}-0"

    def prepare(self) -> None:
        """Make the directory, and clear what a crash left unfinished."""
        self.files.make_directory(self.path)
        for entry in self.files.entries(self.path):
            if entry.name.endswith(_UNFINISHED):
                self.files.unlink(f"{self.path}/{entry.name}")
        name = f"{self.path}/{PARTITION_METADATA}"
        if not self.files.exists(name):
            text = f"version: 0\ntopic_id: {uuid_text(METADATA_TOPIC_ID)}"
            self.files.write_atomically(name, text.encode("ascii"))

    # --- the vote

    def read_state(self) -> ElectionState:
        name = f"{self.path}/{QUORUM_STATE}"
        if not self.files.exists(name):
            return ElectionState()
        try:
            told = json.loads(self.files.read(name))
            epoch, voted, leader = told["leaderEpoch"], told.get("votedId", -1), told.get("leaderId", -1)
            if told["data_version"] not in (0, 1) or any(type(number) is not int for number in (epoch, voted, leader)):
                raise BadQuorumState(f"{name} is of a version unknown here")
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise BadQuorumState(f"{name}: {broken}") from broken
        return ElectionState(epoch, voted if voted >= 0 else None, leader if leader >= 0 else None)

    def write_state(self, state: ElectionState, voted_directory: bytes | None) -> None:
        """On disk when this returns."""
        told = {
            "leaderId": -1 if state.leader_id is None else state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": -1 if state.voted_for is None else state.voted_for,
            "votedDirectoryId": uuid_text(voted_directory or ZERO_UUID),
            "data_version": 1,
        }
        text = json.dumps(told, separators=(",", ":"))
        self.files.write_atomically(f"{self.path}/{QUORUM_STATE}", text.encode("ascii"))

    # --- snapshots

    def snapshots(self) -> list[SnapshotId]:
        """Those that are whole, the oldest first."""
        found = (_SNAPSHOT_NAME.match(entry.name) for entry in self.files.entries(self.path))
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def read_snapshot(self, snapshot: SnapshotId) -> bytes:
        return self.files.read(self._snapshot_name(snapshot))

    def write_snapshot(self, snapshot: SnapshotId, batches: Iterable[bytes]) -> int:
        """Bytes written. It has its name only once all of it is on disk; may run in a thread."""
        name = self._snapshot_name(snapshot)
        part = name + ".part"
        data = b"".join(batches)
        try:
            self.files.write(part, data)
        except OSError:
            self.files.unlink(part)  # on a full disk half a snapshot only stands in the way
            raise
        self.files.sync(part)
        self.files.rename(part, name)
        self.files.sync_directory(self.path)
        return len(data)

    def remove_snapshot(self, snapshot: SnapshotId) -> None:
        """Renamed first: a snapshot that is half gone must not look whole."""
        name = self._snapshot_name(snapshot)
        self.files.rename(name, name + ".deleted")
        self.files.unlink(name + ".deleted")

    def store_piece(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """A piece of a snapshot that arrives from the leader; position 0 begins anew."""
        part = self._snapshot_name(snapshot) + ".part"
        if position == 0:
            self.files.write(part, b"")
        handle = self.files.open(part)
        left = memoryview(data)
        while left:
            written = handle.pwrite(left, position)
            left, position = left[written:], position + written

    def finish_pieces(self, snapshot: SnapshotId) -> None:
        name = self._snapshot_name(snapshot)
        self.files.sync(name + ".part")
        self.files.rename(name + ".part", name)
        self.files.sync_directory(self.path)

    def _snapshot_name(self, snapshot: SnapshotId) -> str:
        return f"{self.path}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
