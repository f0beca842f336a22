"""`QuorumDriver`: one member of the quorum with its disk and its clock.

It does what `core.quorum` says, in order: the vote is on disk before anyone hears of it, and what counts as held has
been fsynced, in a thread. Commands that arrive while an fsync runs share the next one. What is committed goes to the
listener in order, as records; the newest snapshot comes first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Protocol

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import METADATA_RECORDS_PER_BATCH_MAX
from ottla.core.quorum import effects as fx
from ottla.core.quorum.machine import Quorum
from ottla.core.quorum.messages import FetchResponse, Message, SnapshotId, SnapshotResponse
from ottla.core.quorum.roles import Peer
from ottla.runtime import quorum_codec as codec
from ottla.runtime.clock import now_ms
from ottla.runtime.disk import Disk
from ottla.runtime.quorum_files import QuorumFiles
from ottla.runtime.quorum_opening import QuorumPlace, check_voters, open_quorum
from ottla.storage.files import NO_ROOM, SyncFailed
from ottla.storage.retention import expired_segments, remove_segments
from ottla.wire.batch_header import iter_headers, read_header
from ottla.wire.state.control_records import VotersRecord

log = structlog.get_logger()

FETCH_BYTES_MAX = 1024 * 1024
READ_BYTES = 4 * 1024 * 1024
SNAPSHOT_PIECE_BYTES = 1024 * 1024


class QuorumListener(Protocol):
    """Whoever keeps the state that the log describes."""

    def on_snapshot(self, records: Sequence[object]) -> None: ...

    def on_committed(self, records: Sequence[object]) -> None: ...

    def on_leader(self, leader_id: int | None, epoch: int) -> None: ...

    def on_leading(self) -> None:
        """This node leads, and everything that earlier leaders committed has been told."""


@dataclass(slots=True)
class _Pending:
    base_offset: int
    end_offset: int
    records: Sequence[object]
    bytes: int
    done: asyncio.Future[None] | None = None


@dataclass(slots=True)
class _Progress:
    """How far the listener has come, and what waits to be committed."""

    applied_end: int = 0
    pending: deque[_Pending] = field(default_factory=deque)
    bytes_since_snapshot: int = 0
    last_append_ms: int = 0


class QuorumDriver:
    def __init__(
        self,
        place: QuorumPlace,
        listener: QuorumListener,
        disk: Disk,
        random: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._place = place
        self._listener = listener
        self._disk = disk
        self._random = random
        self._on_fatal = on_fatal
        self._files = QuorumFiles(place.directory, place.files)
        self._voters_record: VotersRecord | None = None
        self._progress = _Progress()
        self._timer: asyncio.TimerHandle | None = None
        self._is_flushing = False
        self._is_snapshotting = False
        self._is_started = False
        self._is_closed = False
        self._is_leading = False
        self._snapshot_pieces: tuple[SnapshotId, bytes] | None = None

    # --- start and stop

    async def start(self) -> None:
        """Load what is on disk; a quorum of one leads when this returns. Raises Refused if that makes no sense."""
        self._loop = asyncio.get_running_loop()
        try:
            opened = await self._disk.run(open_quorum, self._place, self._files)
            self._log = opened.log
            self._load_newest_snapshot()
        except ValueError as broken:
            why = f"the metadata log in {self._files.path} cannot be used: {broken}"
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, why) from broken
        self._quorum = Quorum(self._place.setup, opened.state, opened.shape, self._random)
        self._is_started = True
        self._do(self._quorum.start(self._monotonic_ms()))

    def _load_newest_snapshot(self) -> None:
        newest = self._files.snapshots()[-1]
        content = codec.decode_snapshot(self._files.read_snapshot(newest))
        check_voters(content.voters, self._place.setup)
        self._voters_record = content.voters
        self._progress.applied_end = newest.end_offset
        self._listener.on_snapshot(content.records)

    async def stop(self) -> None:
        """Hand over, and leave everything on disk. May be called after a start that failed."""
        if not self._is_started:
            self._is_closed = True
        elif not self._is_closed:
            settled = self.settled() if self.is_leader else None
            if settled is not None:
                await asyncio.wait((settled,))
            if self._quorum.is_leader:
                self._do(self._quorum.resign(self._monotonic_ms()))
            self._close()
            await self._disk.run(self._log.close, True)

    def _close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._abandon("this node has stopped")

    # --- what the owner asks

    @property
    def is_leader(self) -> bool:
        """Leads, and has everything that earlier leaders committed."""
        start = self._quorum.epoch_start
        return start is not None and self._progress.applied_end > start and not self._is_closed

    @property
    def is_fresh(self) -> bool:
        """Nothing but the change of leader has ever been written."""
        return self._log.end_offset == 1

    @property
    def leader_id(self) -> int | None:
        return self._quorum.leader_id

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def high_watermark(self) -> int:
        return self._quorum.high_watermark

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def applied_end(self) -> int:
        return self._progress.applied_end

    @property
    def replicas(self) -> dict[int, Peer]:
        return self._quorum.replicas

    def append(self, records: Sequence[object]) -> asyncio.Future[None]:
        """Append as the leader, as one batch where it fits; resolves once it is committed and the listener has it."""
        done: asyncio.Future[None] = self._loop.create_future()
        chunks = [
            records[at : at + METADATA_RECORDS_PER_BATCH_MAX]
            for at in range(0, len(records), METADATA_RECORDS_PER_BATCH_MAX)
        ]
        for chunk in chunks:
            data = codec.metadata_batch(chunk, self._log.end_offset, self._quorum.epoch, now_ms())
            try:
                self._write(data)
            except OSError as error:
                # On a full disk nothing of it has been written, so that it may be asked for again when there is room.
                if chunk is not chunks[0] or error.errno not in NO_ROOM:
                    self._fail(error)
                why = f"the metadata log cannot be written: {error.strerror}"
                raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, why) from error
            base = self._quorum.append(len(chunk))
            last = done if chunk is chunks[-1] else None
            self._progress.pending.append(_Pending(base, base + len(chunk), chunk, len(data), last))
        self._do(self._quorum.on_appended())
        self._flush()
        return done

    def settled(self) -> asyncio.Future[None] | None:
        """Resolves when all that has been appended so far is committed; None if it is."""
        if not self._progress.pending:
            return None
        last = self._progress.pending[-1]
        if last.done is None:
            last.done = self._loop.create_future()
        return last.done

    def receive(self, message: Message) -> None:
        """A message of another member; its batches have been checked by `quorum_codec.batches_of`."""
        if not self._is_closed:
            self._do(self._quorum.receive(message, self._monotonic_ms()))

    # --- effects

    def _do(self, effects: list[fx.Effect]) -> None:
        is_done = False
        try:
            for at, effect in enumerate(effects):
                if not (isinstance(effect, fx.Persist) and _is_overtaken(effects, at)):
                    self._one(effect)
            is_done = True
        except OSError as error:
            self._fail(error)
        finally:
            if not is_done:  # a bug left half of the effects undone: this member cannot go on
                self._fail(RuntimeError("the quorum's effects were left half done"))
        self._arm()

    def _one(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Persist(state):
                voted = next((v.directory_id for v in self._place.voters if v.id == state.voted_for), None)
                self._files.write_state(state, voted)
            case fx.Send(message):
                self._send(message)
            case fx.AnswerFetch(response):
                self._answer_fetch(response)
            case fx.AnswerSnapshot(response):
                self._answer_snapshot(response)
            case fx.AppendLeaderChange(epoch, base_offset, granting):
                place = (base_offset, epoch)
                me, voters = self._place.setup.node_id, self._place.voters
                self._write(codec.leader_change_batch(me, voters, granting, place, now_ms()))
                self._flush()
            case fx.Append(batches):
                for batch in batches:
                    assert isinstance(batch.data, bytes)
                    self._log.append_as_follower(batch.data, now_ms())
                self._flush()
            case fx.Truncate(end_offset):
                self._log.truncate_to(end_offset, now_ms())
                self._drop_pending(end_offset)
            case fx.StoreSnapshot(snapshot, position, data):
                assert isinstance(data, bytes)
                self._files.store_piece(snapshot, position, data)
            case fx.LoadSnapshot(snapshot):
                self._install_snapshot(snapshot)
            case fx.Committed(high_watermark):
                self._commit(high_watermark)
            case fx.LeaderChanged(leader_id, epoch):
                self._on_leader(leader_id, epoch)

    def _send(self, message: Message) -> None:
        assert self._place.send is not None, "a quorum of one has nobody to talk to"
        self._place.send(message)

    def _answer_fetch(self, response: FetchResponse) -> None:
        data = self._log.read(response.fetch_offset, FETCH_BYTES_MAX, self._log.end_offset).read()
        self._send(replace(response, batches=codec.batches_of(data)))

    def _answer_snapshot(self, response: SnapshotResponse) -> None:
        if self._snapshot_pieces is None or self._snapshot_pieces[0] != response.snapshot:
            self._snapshot_pieces = (response.snapshot, self._files.read_snapshot(response.snapshot))
        whole = self._snapshot_pieces[1]
        piece = whole[response.position : response.position + SNAPSHOT_PIECE_BYTES]
        self._send(replace(response, size=len(whole), data=piece, data_bytes=len(piece)))

    def _write(self, batch: bytes) -> None:
        """Append one batch that carries its offset and epoch already."""
        header = read_header(batch)
        base = self._log.append(bytearray(batch), header, header.leader_epoch, header.max_timestamp)
        assert base == header.base_offset
        self._progress.last_append_ms = header.max_timestamp

    def _on_leader(self, leader_id: int | None, epoch: int) -> None:
        log.info("metadata leader changed", leader_id=leader_id, epoch=epoch)
        self._is_leading = False
        if leader_id != self._place.setup.node_id:
            self._abandon("this node no longer leads the metadata quorum")
        self._listener.on_leader(leader_id, epoch)

    def _abandon(self, why: str) -> None:
        """Nobody here learns what became of these commands: they may be committed by another leader, or not."""
        for pending in self._progress.pending:
            if pending.done is not None and not pending.done.done():
                pending.done.set_exception(Refused(ErrorCode.NOT_CONTROLLER, why))
                pending.done.exception()  # the asker may have gone
                pending.done = None

    def _drop_pending(self, end_offset: int) -> None:
        pending = self._progress.pending
        while pending and pending[-1].end_offset > end_offset:
            pending.pop()

    # --- time

    def _monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = None if self._is_closed else self._quorum.next_deadline_ms()
        if deadline_ms is not None:
            # A millisecond late rather than early: an early call would change nothing and come again at once.
            self._timer = self._loop.call_at((deadline_ms + 1) / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if not self._is_closed:
            self._do(self._quorum.on_time(self._monotonic_ms()))

    # --- durability

    def _flush(self) -> None:
        if self._is_flushing or self._is_closed or self._quorum.log.flushed_end >= self._log.end_offset:
            return
        self._is_flushing = True
        upto = (self._log.end_offset, self._quorum.log.generation)
        self._disk.flush(self._log).add_done_callback(partial(self._flushed, *upto))

    def _flushed(self, end_offset: int, generation: int, done: asyncio.Future[None]) -> None:
        self._is_flushing = False
        error = done.exception()
        if error is not None:
            self._fail(error)
        elif not self._is_closed:
            self._do(self._quorum.on_flushed(end_offset, generation, self._monotonic_ms()))
            self._flush()

    def _fail(self, error: BaseException) -> None:
        """What is on disk is no longer known: this node must not lead, vote or acknowledge anything."""
        if not self._is_closed:
            log.error("metadata log failed", error=str(error))
            self._close()
            self._on_fatal(error)

    # --- committed

    def _commit(self, high_watermark: int) -> None:
        progress = self._progress
        while progress.applied_end < high_watermark:
            if progress.pending and progress.pending[0].base_offset == progress.applied_end:
                if progress.pending[0].end_offset > high_watermark:
                    break
                self._apply_pending(progress.pending.popleft())
            else:
                self._apply_from_log(high_watermark)
        if not self._is_leading and self.is_leader:
            self._is_leading = True
            self._listener.on_leading()

    def _apply_pending(self, pending: _Pending) -> None:
        self._progress.applied_end = pending.end_offset
        self._progress.bytes_since_snapshot += pending.bytes
        self._listener.on_committed(pending.records)
        if pending.done is not None and not pending.done.done():
            pending.done.set_result(None)

    def _apply_from_log(self, high_watermark: int) -> None:
        """What this node did not append itself, or appended before it was restarted."""
        progress = self._progress
        own = progress.pending[0].base_offset if progress.pending else high_watermark
        upto = min(high_watermark, own)
        data = self._log.read(progress.applied_end, READ_BYTES, upto).read()
        assert data, f"the metadata log ends before {upto}"
        for at, header in iter_headers(data):
            progress.applied_end = header.next_offset
            progress.bytes_since_snapshot += header.size
            records = codec.records_in(data[at : at + header.size], header)
            if records:
                self._listener.on_committed(records)

    # --- snapshots

    @property
    def bytes_since_snapshot(self) -> int:
        return self._progress.bytes_since_snapshot

    def keep_snapshot(self, records: Callable[[], Iterable[object]]) -> asyncio.Task[None] | None:
        """Write the state at `applied_end` in a thread, where `records` must be free to run; then cut the log."""
        end = self._progress.applied_end
        if self._is_snapshotting or self._is_closed or end == self._files.snapshots()[-1].end_offset:
            return None
        self._is_snapshotting = True
        self._progress.bytes_since_snapshot = 0
        kept = SnapshotId(end, self._quorum.log.epoch_at(end))
        contained_ms = self._progress.last_append_ms or now_ms()

        def write() -> int:
            batches = codec.encode_snapshot(records(), self._voters_record, kept.epoch, contained_ms)
            return self._files.write_snapshot(kept, batches)

        return self._loop.create_task(self._keep(kept, write))

    async def _keep(self, kept: SnapshotId, write: Callable[[], int]) -> None:
        try:
            size = await self._disk.run(write)
            log.info("metadata snapshot written", end_offset=kept.end_offset, epoch=kept.epoch, bytes=size)
            if not self._is_closed:
                await self._cut_log()
        except OSError as error:
            if isinstance(error, SyncFailed) or error.errno not in NO_ROOM:
                self._fail(error)
            else:  # the log still holds everything
                log.error("metadata snapshot has no room", end_offset=kept.end_offset, reason=str(error))
        finally:
            self._is_snapshotting = False

    async def _cut_log(self) -> None:
        """The newest snapshot and the one before it stay, with the log from there on."""
        older = self._files.snapshots()[:-2]
        start = self._files.snapshots()[len(older)]
        for snapshot in older:
            self._files.remove_snapshot(snapshot)
        if older:
            self._do(self._quorum.on_snapshot_kept(start))
            self._log.advance_start(start.end_offset)
            gone = remove_segments(self._log, expired_segments(self._log, start.end_offset, now_ms()), now_ms())
            await self._disk.run(self._unlink, gone.paths)
        self._log.roll(now_ms())

    def _unlink(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._place.files.unlink(path)

    def _install_snapshot(self, snapshot: SnapshotId) -> None:
        """From the leader: it stands for everything up to its end, so what was here is thrown away."""
        older = self._files.snapshots()
        self._files.finish_pieces(snapshot)
        for one in older:
            self._files.remove_snapshot(one)
        self._progress.pending.clear()
        self._log.truncate_fully_and_start_at(snapshot.end_offset, now_ms())
        self._load_newest_snapshot()


def _is_overtaken(effects: list[fx.Effect], at: int) -> bool:
    """A state that is replaced before anyone could have heard of it need not go to disk."""
    following = next((effect for effect in effects[at + 1 :] if not isinstance(effect, fx.LeaderChanged)), None)
    return isinstance(following, fx.Persist)
