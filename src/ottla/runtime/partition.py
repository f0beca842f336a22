"""One replica of one partition: its log on disk, and its part in replication.

append: check the batch, ask the producer's history, write, tell the leader's state machine; what the caller waits for
(the high watermark, an fsync) comes back as futures. read: file slices up to what the reader may see.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import PRODUCED_DECOMPRESSED_BYTES_MAX
from ottla.base.topic_settings import LogConfig
from ottla.base.types import NO_PRODUCER, BrokerId, Epoch, Offset, TopicPartition, Uuid
from ottla.core.metadata.entries import PartitionImage
from ottla.core.producers import Verification
from ottla.core.replication.leader import Leader, Leadership
from ottla.runtime.disk import Disk
from ottla.runtime.recompression import stored_form
from ottla.runtime.watermark import Watermark
from ottla.storage import retention
from ottla.storage.log import Log
from ottla.storage.slices import Slices
from ottla.wire.batch import keyless_records
from ottla.wire.batch_header import TRANSACTIONAL, BatchHeader, read_header, stamp_append_time
from ottla.wire.control import EndTxnMarker, encode_end_txn_marker
from ottla.wire.malformed import Malformed
from ottla.wire.produced import check_produced

NO_TIMESTAMP = -1
_new = tuple.__new__


class BadRecords(Refused):
    """A batch refused because of some of its records."""

    def __init__(self, code: ErrorCode, why: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, why)
        self.records = records


class Admission(NamedTuple):
    """What the coordinator has said of a transactional batch before it is appended (KIP-890)."""

    verification: Verification | None = None
    """None: nothing had to be asked."""
    is_epoch_bumped: bool = False
    """The producer begins each transaction with a new epoch."""


NOT_ADMITTED = Admission()


class Appended(NamedTuple):
    base_offset: int
    end_offset: int
    log_append_time_ms: int
    """-1 when the producer's own timestamps stand."""
    log_start_offset: int


class Read(NamedTuple):
    slices: Slices | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of aborted transactions that reach into the slices."""

    @property
    def size(self) -> int:
        return 0 if self.slices is None else self.slices.size


class Partition:
    __slots__ = (
        "_committed",
        "_disk",
        "_flushed",
        "_on_failed",
        "_unflushed_since_ms",
        "_watchers",
        "config",
        "key",
        "leader",
        "log",
        "topic_id",
    )

    def __init__(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        log: Log,
        disk: Disk,
        on_failed: Callable[["Partition", OSError], None],
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.config = log.config
        self.leader: Leader | None = None
        self._disk = disk
        self._on_failed = on_failed
        self._committed = Watermark(0)
        self._flushed = Watermark(log.recovery_point)
        self._watchers: set[Callable[[int], None]] = set()
        self._unflushed_since_ms = 0

    @property
    def high_watermark(self) -> int:
        return self._committed.value

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed reader must stop: the first offset of the oldest open transaction.

        Never below the log's start: retention and DeleteRecords do not wait for transactions.
        """
        unstable = self.log.producers.first_unstable_offset
        high_watermark = self._committed.value
        return high_watermark if unstable is None else min(high_watermark, max(unstable, self.log.start_offset))

    @property
    def leader_epoch(self) -> int:
        return -1 if self.leader is None else self.leader.term.epoch

    def lead(self, image: PartitionImage, me: BrokerId, high_watermark: int, now_ms: int) -> None:
        """Take or keep the lead as the controller's image says."""
        term = Leadership(
            me=me,
            epoch=Epoch(image.leader_epoch),
            replicas=tuple(BrokerId(replica) for replica in image.replicas),
            isr=frozenset(BrokerId(replica) for replica in image.isr),
            min_isr=self.config.min_insync_replicas,
            partition_epoch=image.partition_epoch,
        )
        if self.leader is not None and self.leader.term.epoch == term.epoch:
            if self.leader.on_term(term):
                self._publish()
            return
        self.log.assign_epoch(term.epoch, self.log.end_offset)
        bounded = max(self.log.start_offset, min(high_watermark, self.log.end_offset))
        self.leader = Leader(term, Offset(self.log.end_offset), Offset(bounded), now_ms)
        self._publish()

    def resign(self, error: Refused) -> None:
        """Somebody else leads, or the partition is gone: all that wait here are told."""
        self.leader = None
        self._committed.fail(error)
        self._flushed.fail(error)
        self._wake(0)

    def change_config(self, config: LogConfig) -> None:
        self.config = config
        self.log.config = config

    def led(self, leader_epoch: int = -1) -> Leader:
        """The leader's state, if this replica leads in the epoch that the asker believes in (KIP-320)."""
        leader = self.leader
        if leader is None:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead {self.key}")
        if leader_epoch >= 0 and leader_epoch != leader.term.epoch:
            if leader_epoch < leader.term.epoch:
                raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {leader.term.epoch}")
            raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {leader.term.epoch}")
        return leader

    # ---------------------------------------------------------------- append

    def append(self, data: memoryview | None, acks: int, now_ms: int, admission: Admission = NOT_ADMITTED) -> Appended:
        """Append one batch as the leader; raises Refused. The memory of `data` is written to (offsets, time)."""
        leader = self.led()
        config = self.config
        if data is not None and len(data) > config.max_message_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {len(data)} bytes, {self.key} takes up to {config.max_message_bytes}",
            )
        header = check_produced(data)
        assert data is not None
        if acks == -1 and not leader.has_enough_in_sync:
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(leader.term.isr)} replicas of {self.key} are in sync")
        if len(data) > config.segment_bytes:
            raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {len(data)} bytes is larger than a segment")
        if config.is_compacted:
            self._check_keys(data, header)
        stamped_ms = NO_TIMESTAMP
        if config.is_log_append_time:
            stamped_ms = now_ms
        else:
            self._check_timestamps(header, now_ms)
        if header.producer_id != NO_PRODUCER:
            producers = self.log.producers
            if header.attributes & TRANSACTIONAL:
                is_verified, is_bumped = self._is_verified(header, admission), admission.is_epoch_bumped
                duplicate = producers.check(header, is_verified=is_verified, supports_epoch_bump=is_bumped)
            else:
                duplicate = producers.check(header)
            if duplicate is not None:
                if config.flush_messages == 1 and self._flushed.value < self.log.end_offset:
                    self._start_flush(self.log.end_offset)
                end_offset = duplicate.base_offset + header.last_offset_delta + 1
                return Appended(duplicate.base_offset, end_offset, duplicate.append_time, self.log.start_offset)
        if config.compression_type != "producer":
            data, header = stored_form(data, header, config)
        if stamped_ms != NO_TIMESTAMP:
            header = stamp_append_time(data, 0, stamped_ms)
        base_offset = self._write(data, header, leader, now_ms)
        end_offset = base_offset + header.last_offset_delta + 1
        appended: Appended = _new(Appended, (base_offset, end_offset, stamped_ms, self.log.start_offset))
        return appended

    def append_own(self, batch: bytearray, now_ms: int, admission: Admission = NOT_ADMITTED) -> int:
        """Append a batch that this node has made itself, as a coordinator; where the log ends then."""
        leader = self._led_in_sync()
        if len(batch) > self.config.max_message_bytes:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(batch)} bytes for {self.key}")
        data = memoryview(batch)
        header = read_header(data)
        if header.is_transactional:
            self.log.producers.check_own(header, is_verified=self._is_verified(header, admission))
        self._write(data, header, leader, now_ms)
        return self.log.end_offset

    def append_marker(self, marker: EndTxnMarker, transaction_version: int, now_ms: int) -> int:
        """End a producer's transaction in this partition, as its coordinator says; where the log ends then."""
        leader = self._led_in_sync()
        self.log.producers.check_marker(marker, transaction_version)
        data = memoryview(bytearray(encode_end_txn_marker(marker, timestamp_ms=now_ms)))
        self._write(data, read_header(data), leader, now_ms)
        return self.log.end_offset

    def _led_in_sync(self) -> Leader:
        leader = self.led()
        if not leader.has_enough_in_sync:
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(leader.term.isr)} replicas of {self.key} are in sync")
        return leader

    def _is_verified(self, header: BatchHeader, admission: Admission) -> bool:
        verification = admission.verification
        return verification is not None and self.log.producers.is_verified(header.producer_id, verification)

    def acknowledged(self, end_offset: int, acks: int) -> asyncio.Future[None] | None:
        """What an answer to an append must wait for; None when nothing."""
        if acks == -1:
            return self._committed.reached(end_offset)
        if acks == 1 and self.config.flush_messages == 1:
            return self._flushed.reached(end_offset)
        return None

    def _write(self, data: memoryview, header: BatchHeader, leader: Leader, now_ms: int) -> int:
        log = self.log
        active = log.active
        try:
            base_offset = log.append(data, header, leader.term.epoch, now_ms)
        except OSError as problem:
            raise self._storage_failed(problem) from problem
        end_offset = log.end_offset
        if self.config.flush_messages == 1:
            # Nobody may see a record, nor be told that it is there, before it is on disk.
            self._start_flush(end_offset)
            return base_offset
        if leader.on_append(Offset(end_offset)):
            self._publish()
        if log.active is not active or end_offset - log.recovery_point >= self.config.flush_messages:
            # A segment that is full goes to the disk by itself, so that a restart need not read all of it again.
            self._start_flush(end_offset)
        return base_offset

    def _start_flush(self, end_offset: int) -> None:
        self._disk.flush(self.log).add_done_callback(lambda done: self._on_flushed(done, end_offset))

    def _on_flushed(self, done: asyncio.Future[None], end_offset: int) -> None:
        error = done.exception()
        if isinstance(error, OSError):
            self._on_failed(self, error)
            return
        if error is not None:
            raise error
        if end_offset > self._flushed.value:
            self._flushed.advance(end_offset)
        if self.leader is not None and end_offset > self.leader.end and self.leader.on_append(Offset(end_offset)):
            self._publish()

    def flush_if_older(self, now_ms: int) -> None:
        """`flush.ms`, to the precision of the calls: an fsync when something has been unflushed for that long."""
        if self.log.recovery_point >= self.log.end_offset:
            self._unflushed_since_ms = 0
        elif not self._unflushed_since_ms:
            self._unflushed_since_ms = now_ms
        elif now_ms - self._unflushed_since_ms >= self.config.flush_ms:
            self._unflushed_since_ms = 0
            self._start_flush(self.log.end_offset)

    def _check_timestamps(self, header: BatchHeader, now_ms: int) -> None:
        """CreateTime within bounds, as the batch's header tells (KIP-937)."""
        latest = now_ms + self.config.message_timestamp_after_max_ms
        earliest = now_ms - self.config.message_timestamp_before_max_ms
        if header.max_timestamp <= latest and header.base_timestamp >= earliest:
            return
        for timestamp in (header.max_timestamp, header.base_timestamp):
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                why = f"timestamp {timestamp} is out of range; it should be within [{earliest}, {latest}]"
                raise BadRecords(ErrorCode.INVALID_TIMESTAMP, why, [(0, why)])

    def _check_keys(self, data: memoryview, header: BatchHeader) -> None:
        try:
            keyless = keyless_records(data, header, PRODUCED_DECOMPRESSED_BYTES_MAX)
        except Malformed as broken:
            raise Refused(ErrorCode.INVALID_RECORD, f"the records cannot be read: {broken}") from None
        if keyless:
            why = f"compacted topic cannot accept message without key in topic partition {self.key}"
            raise BadRecords(ErrorCode.INVALID_RECORD, why, [(index, why) for index in keyless])

    def _storage_failed(self, problem: OSError) -> Refused:
        self._on_failed(self, problem)
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.key} cannot be written: {problem.strerror}")

    # ---------------------------------------------------------------- read

    def read(self, offset: int, max_bytes: int, committed_only: bool, at_least_one: bool) -> Read:
        """Whole batches from `offset` on, up to the high watermark or the last stable offset."""
        log = self.log
        high_watermark = self._committed.value
        stable = self.last_stable_offset
        limit = stable if committed_only else high_watermark
        if offset < log.start_offset or offset > log.end_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside of {log.start_offset} to {log.end_offset} of {self.key}",
            )
        slices = None
        aborted: list[tuple[int, int]] = []
        if offset < limit and (max_bytes > 0 or at_least_one):
            try:
                slices = log.read(offset, max_bytes, limit, at_least_one)
            except OSError as problem:
                raise self._storage_failed(problem) from problem
            if committed_only and slices.size:
                aborted = [(one.producer_id, one.first_offset) for one in log.aborted_among(slices, offset)]
        return Read(slices, high_watermark, stable, log.start_offset, aborted)

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the number of new offsets whenever more may be read here."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        self._watchers.discard(watcher)

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: move the log start, never past the high watermark; the new log start."""
        self.led()
        high_watermark = self._committed.value
        target = high_watermark if offset == -1 else offset
        if not 0 <= target <= high_watermark:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within 0 to {high_watermark}")
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return self.log.start_offset

    def apply_retention(self, now_ms: int) -> Sequence[str]:
        """Part with what has expired; the paths of files that may be deleted once no reader holds them."""
        if self.leader is None:
            return ()
        return retention.apply_retention(self.log, self._committed.value, now_ms).paths

    def _publish(self) -> None:
        """The high watermark has moved: tell producers that wait for it, and readers."""
        assert self.leader is not None
        grown = self.leader.high_watermark - self._committed.value
        if grown > 0:
            self._committed.advance(self.leader.high_watermark)
            if self.log.producers.first_unstable_offset is not None:
                self.log.producers.advance_high_watermark(self.leader.high_watermark)
            self._wake(grown)

    def _wake(self, grown: int) -> None:
        if self._watchers:
            for watcher in list(self._watchers):
                watcher(grown)
