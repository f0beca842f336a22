"""How a member of the quorum finds its disk: the log, the vote and the snapshots, or an empty directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import structlog

from ottla.base.topic_settings import LogConfig
from ottla.base.types import METADATA_TOPIC
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.log_shape import EMPTY, LogShape
from ottla.core.quorum.member import QuorumSetup
from ottla.core.quorum.messages import Message, SnapshotId
from ottla.runtime.clock import now_ms
from ottla.runtime.quorum_codec import Voter, encode_snapshot, voters_record
from ottla.runtime.quorum_files import QuorumFiles
from ottla.storage.files import Files
from ottla.storage.log import REAL_FILES, Log
from ottla.storage.place import LogPlace, LogStart
from ottla.wire.state.control_records import VotersRecord

log = structlog.get_logger()

_LOG_CONFIG = LogConfig(cleanup_policy=(), retention_ms=-1, file_delete_delay_ms=0)
"""The log is cut below its snapshots and for no other reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPlace:
    directory: Path
    voters: tuple[Voter, ...]
    setup: QuorumSetup
    bootstrap: tuple[object, ...] = ()
    """The records that a new cluster begins with."""
    files: Files = REAL_FILES
    send: Callable[[Message], None] | None = None
    """How messages reach the other members; a quorum of one has none."""


@dataclass(frozen=True, slots=True)
class Opened:
    log: Log
    state: ElectionState
    shape: LogShape


def open_quorum(place: QuorumPlace, files: QuorumFiles) -> Opened:
    """Reads all of the log: call it from a worker thread. The log begins at the oldest snapshot that is kept."""
    files.prepare()
    if not files.snapshots():
        batches = encode_snapshot(place.bootstrap, voters_record(place.voters), 0, now_ms())
        files.write_snapshot(EMPTY, batches)
    snapshots = files.snapshots()
    start, newest = snapshots[0], snapshots[-1]
    where = LogPlace(place.directory, METADATA_TOPIC, 0)
    known = LogStart(False, start.end_offset, start.end_offset)
    opened = Log.open(where, _LOG_CONFIG, known, now_ms(), place.files)
    if opened.end_offset < newest.end_offset:
        # What is below a snapshot was committed before it was written: whatever the log lacks, the snapshot has it.
        log.warning("metadata log shorter than its snapshot", end_offset=opened.end_offset, snapshot=newest)
        opened.truncate_fully_and_start_at(newest.end_offset)
        for older in snapshots[:-1]:
            files.remove_snapshot(older)
        start = newest
    shape = _shape(opened, start)
    return Opened(opened, _state(files.read_state(), shape), shape)


def _state(stored: ElectionState, shape: LogShape) -> ElectionState:
    """A vote that is lost, or older than the log, says nothing of the epoch that the log is in; so does Kafka."""
    if stored.epoch >= shape.last_epoch:
        return stored
    log.warning("vote older than the metadata log", epoch=stored.epoch, last_epoch=shape.last_epoch)
    return ElectionState(shape.last_epoch)


def _shape(opened: Log, start: SnapshotId) -> LogShape:
    if opened.segments[0].base_offset > start.end_offset:
        raise ValueError(f"the metadata log begins behind its oldest snapshot {start}: a part of it is missing")
    end = opened.end_offset
    epochs = [(int(e), max(int(at), start.end_offset)) for e, at in opened.epochs.entries if at < end]
    # Of the epochs that began below the start only the last one reaches above it.
    kept = [entry for entry, after in pairwise([*epochs, (0, end)]) if after[1] > start.end_offset]
    return LogShape(start, kept, end)


def check_voters(record: VotersRecord | None, setup: QuorumSetup) -> None:
    """A directory of one quorum must not be opened as a member of another."""
    known = {voter.voter_id for voter in record.voters} if record else setup.voters
    if known != setup.voters:
        raise ValueError(f"the quorum on disk is {sorted(known)}, not {sorted(setup.voters)}")
