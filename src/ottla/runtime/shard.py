"""One coordinator partition: decide → append → apply → committed → reply.

The core decides and knows nothing of logs; here its records become one batch in the partition, and nobody hears an
answer before that batch is committed. What a decision has seen may itself be uncommitted, so answers without records
wait for the same mark. Nothing is awaited between a decision and its records being applied.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.runtime.disk import Disk
from ottla.runtime.partition import Admission, Partition
from ottla.storage.slices import Slices
from ottla.wire.batch import ProducerStamp, decode_records, encode_batch, iter_headers, new_records
from ottla.wire.control import EndTxnMarker, decode_end_txn_marker
from ottla.wire.malformed import Malformed

log = structlog.get_logger(__name__)

_LOAD_BYTES = 4 * 1024 * 1024

_COORDINATOR_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Decision(Protocol):
    @property
    def records(self) -> Sequence[Any]: ...
    @property
    def reply(self) -> Any: ...
    @property
    def effects(self) -> Sequence[Any]:
        """Answers to those who wait, with a `ticket` and a `reply`; anything else is for `Driver.perform`."""
        ...


class Core(Protocol):
    """What a coordinator's state machine has to offer to be driven."""

    def load(self, key: bytes, value: bytes | None, written_ms: int, producer_id: int = -1) -> None: ...
    def end_transaction(self, producer_id: int, committed: bool) -> None: ...
    def loaded(self, now_ms: int) -> Decision: ...
    def apply(self, record: Any, now_ms: int) -> None: ...
    def next_deadline_ms(self) -> int | None: ...
    def on_time(self, now_ms: int) -> Decision: ...
    def resign(self) -> Sequence[Any]: ...


C = TypeVar("C", bound=Core)


def _nothing_to_perform(effect: Any) -> None:
    raise AssertionError(f"nobody carries out {effect}")


class Stamp(NamedTuple):
    """The client's transaction in which records are written, and what its coordinator has said of it."""

    producer: ProducerStamp
    admission: Admission


@dataclass(frozen=True, slots=True)
class Driver:
    """What all shards of one kind share."""

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    disk: Disk
    commit_timeout_ms: int
    batch_bytes_max: int = 512 * 1024
    perform: Callable[[Any], None] = _nothing_to_perform
    """Carries out what a core wants done elsewhere. It must not fail: what does not succeed the core asks for again."""


class Shard(Generic[C]):
    __slots__ = (
        "_driver",
        "_due_ms",
        "_loading",
        "_parked",
        "_timer",
        "core",
        "is_loaded",
        "is_resigned",
        "partition",
    )

    def __init__(self, core: C, partition: Partition, driver: Driver) -> None:
        self.partition = partition
        self.core = core
        self._driver = driver
        self._parked: dict[int, asyncio.Future[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self.is_loaded = False
        self.is_resigned = False
        self._loading = asyncio.get_running_loop().create_task(self._load())

    async def loaded(self) -> None:
        await asyncio.wait([self._loading])

    async def ask(self, decide: Callable[[C, int], Decision], stamp: Stamp | None = None) -> Any:
        """The core's answer, once it is committed; raises Refused, which is an answer too and waits like one.

        With a stamp the records are written inside a client's transaction.
        """
        self._check_loaded()
        try:
            decision = decide(self.core, self._driver.now_ms())
        except Refused:
            self._arm()
            seen = self._committed()
            if seen is not None:
                await self._wait_for(seen)
            raise
        reply = decision.reply
        ticket = getattr(reply, "ticket", None)
        if ticket is not None:
            parked = self._parked[ticket] = asyncio.get_running_loop().create_future()
        committed = self._carry_out(decision, stamp)
        if ticket is not None:
            try:
                return await parked
            finally:
                self._parked.pop(ticket, None)
        if committed is not None:
            await self._wait_for(committed)
        return reply

    def write_marker(self, marker: EndTxnMarker, transaction_version: int) -> asyncio.Future[None] | None:
        """End a client's transaction in this partition; what to wait for, if anything. Raises Refused."""
        self._check_loaded()
        self.partition.append_marker(marker, transaction_version, self._driver.wall_ms())
        self.core.end_transaction(marker.producer_id, marker.committed)
        return self._committed()

    def _check_loaded(self) -> None:
        if not self.is_loaded:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is still reading its log")

    def resign(self) -> None:
        """Another node coordinates now, or none."""
        if self.is_resigned:
            return
        self.is_resigned = True
        self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self.is_loaded:
            self.is_loaded = False
            self._hand_out(self.core.resign())
        for future in self._parked.values():
            if not future.done():
                future.set_exception(Refused(ErrorCode.NOT_COORDINATOR, "this node is the coordinator no longer"))

    # ---------------------------------------------------------------- decisions

    def _carry_out(self, decision: Decision, stamp: Stamp | None = None) -> asyncio.Future[None] | None:
        """Append and apply; effects leave when the log is committed so far. What to wait for, if anything."""
        try:
            if decision.records:
                self._append(decision.records, stamp)
        except Refused as refusal:
            self._hand_out([effect for effect in decision.effects if _is_refusal(effect)])
            code = _COORDINATOR_ERRORS.get(refusal.code, refusal.code)
            raise Refused(code, refusal.why) from None
        finally:
            self._arm()
        committed = self._committed()
        if decision.effects:
            if committed is None:
                self._hand_out(decision.effects)
            else:
                effects = decision.effects
                committed.add_done_callback(lambda done: self._hand_out_if(done, effects))
        return committed

    def _committed(self) -> asyncio.Future[None] | None:
        """Everything that is in the log so far; None if it is committed."""
        return self.partition.acknowledged(self.partition.log.end_offset, -1)

    def _append(self, records: Sequence[Any], stamp: Stamp | None) -> None:
        """One batch, or a few when the records are many; applied as soon as they are in the log, batch by batch."""
        wall_ms, now_ms = self._driver.wall_ms(), self._driver.now_ms()
        begin = size = 0
        pairs: list[tuple[bytes, bytes | None]] = []
        for index, record in enumerate(records):
            key, value = self._driver.encode(record)
            size += len(key) + len(value or b"") + 32
            if pairs and size > self._driver.batch_bytes_max:
                self._append_batch(pairs, wall_ms, stamp)
                self._apply(records[begin:index], now_ms)
                begin, size, pairs = index, len(key) + len(value or b""), []
            pairs.append((key, value))
        self._append_batch(pairs, wall_ms, stamp)
        self._apply(records[begin:], now_ms)

    def _append_batch(self, pairs: Sequence[tuple[bytes, bytes | None]], wall_ms: int, stamp: Stamp | None) -> None:
        records = new_records(pairs, wall_ms)
        if stamp is None:
            self.partition.append_own(bytearray(encode_batch(records)), wall_ms)
        else:
            batch = bytearray(encode_batch(records, producer=stamp.producer))
            self.partition.append_own(batch, wall_ms, stamp.admission)

    def _apply(self, records: Sequence[Any], now_ms: int) -> None:
        for record in records:
            self.core.apply(record, now_ms)

    async def _wait_for(self, committed: asyncio.Future[None]) -> None:
        done, _ = await asyncio.wait([committed], timeout=self._driver.commit_timeout_ms / 1000)
        if not done:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the answer is in the log but not committed in time")
        try:
            committed.result()
        except Refused as refusal:
            raise Refused(_COORDINATOR_ERRORS.get(refusal.code, refusal.code), refusal.why) from None

    def _hand_out_if(self, committed: asyncio.Future[None], effects: Sequence[Any]) -> None:
        if not committed.cancelled() and committed.exception() is None:
            self._hand_out(effects)

    def _hand_out(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            ticket = getattr(effect, "ticket", None)
            if ticket is None:
                if not self.is_resigned:
                    self._driver.perform(effect)
                continue
            parked = self._parked.get(ticket)
            if parked is not None and not parked.done():
                parked.set_result(effect.reply)

    # ---------------------------------------------------------------- time

    def _arm(self) -> None:
        """Be called at the core's next deadline. A timer that is too early does no harm and is left as it is."""
        due_ms = self.core.next_deadline_ms()
        if due_ms is None or self.is_resigned:
            return
        if self._timer is not None:
            if self._due_ms <= due_ms:
                return
            self._timer.cancel()
        self._due_ms = due_ms
        delay = max(due_ms - self._driver.now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._carry_out(self.core.on_time(self._driver.now_ms()))
        except Refused as refusal:
            log.warning("deadline not carried out", partition=str(self.partition.key), reason=str(refusal))

    # ---------------------------------------------------------------- loading

    async def _load(self) -> None:
        """Fold everything that is in the log into the core, in a thread that owns the core until then."""
        begun_ms = self._driver.now_ms()
        try:
            count = await self._read_all()
        except (OSError, Refused, Malformed) as problem:
            log.error("coordinator cannot load", partition=str(self.partition.key), reason=str(problem))
            return
        self.is_loaded = True
        try:
            self._carry_out(self.core.loaded(self._driver.now_ms()))
        except Refused as refusal:
            log.warning("deadline not carried out", partition=str(self.partition.key), reason=str(refusal))
        if count:
            ms = self._driver.now_ms() - begun_ms
            log.info("coordinator loaded", partition=str(self.partition.key), records=count, ms=ms)

    async def _read_all(self) -> int:
        """Looking up where batches lie is the loop's business, reading and decoding them the thread's."""
        source, count = self.partition.log, 0
        offset, end_offset = source.start_offset, source.end_offset
        while offset < end_offset:
            slices = source.read(offset, _LOAD_BYTES, end_offset)
            if not slices:
                break
            offset, taken = await self._driver.disk.run(self._take, slices)
            count += taken
        return count

    def _take(self, slices: Slices) -> tuple[int, int]:
        data, count, offset = memoryview(slices.read()), 0, 0
        for at, header in iter_headers(data):
            batch = data[at : at + header.size]
            offset = header.next_offset
            if header.is_control:
                marker = decode_end_txn_marker(batch)
                if marker is not None:
                    self.core.end_transaction(marker.producer_id, marker.committed)
                continue
            producer_id = header.producer_id if header.is_transactional else -1
            for record in decode_records(batch):
                self.core.load(record.key or b"", record.value, record.timestamp, producer_id)
                count += 1
        return offset, count


def _is_refusal(effect: Any) -> bool:
    reply = getattr(effect, "reply", None)
    return reply is not None and reply.error != ErrorCode.NONE
