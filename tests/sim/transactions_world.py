"""The simulated world of one transaction coordinator: virtual time, a lossy network, partitions, a log that is
committed bit by bit.

Everything random comes from one seed. The coordinator may die at every append, with the append in the log or not. The
partitions are logs with the real `ProducerTable`, which is now and then rebuilt from the log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from ottla.base.errors import ErrorCode, Refused
from ottla.core.producers.table import Duplicate, ProducerTable
from ottla.core.transactions import codec
from ottla.core.transactions.asks import Decision, MarkersWritten, Reply, Waiting, WriteMarkers
from ottla.core.transactions.records import LAST_USABLE_EPOCH, NO_EPOCH, Transaction, TransactionRecord
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import TransactionShard
from ottla.wire.batch_header import TRANSACTIONAL, BatchHeader
from ottla.wire.control import EndTxnMarker
from tests.sim.transactions_laws import Laws, Value

TIMEOUT_MS = 6_000
SETTINGS = TransactionSettings(marker_resend_ms=2_000, add_partitions_wait_ms_max=100)
TOPIC = "t"
Respond = Callable[[Any], None]


@dataclass
class Faults:
    """How bad this world is. `heal` makes it a good one."""

    lost: float
    doubled: float
    late: float
    delay_ms: int
    append_fails: float
    crash: float
    commit_delay_ms: int
    restart: float

    @classmethod
    def drawn(cls, random: Random) -> "Faults":
        return cls(
            lost=random.choice((0, 0.02, 0.1)),
            doubled=random.choice((0, 0.1)),
            late=random.choice((0, 0.2)),
            delay_ms=random.choice((1, 20, 400)),
            append_fails=random.choice((0, 0, 0.05)),
            crash=random.choice((0, 0.01, 0.06)),
            commit_delay_ms=random.choice((0, 10, 200)),
            restart=random.choice((0, 0.02)),
        )

    def heal(self) -> None:
        self.lost = self.doubled = self.late = self.append_fails = self.crash = self.restart = 0
        self.delay_ms, self.commit_delay_ms = 5, 5


@dataclass(frozen=True)
class Failed:
    """What somebody gets instead of a reply: an error code, or nothing at all."""

    code: ErrorCode | None


class World:
    def __init__(self, seed: int, partition_count: int = 3) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000
        self.faults = Faults.drawn(self.random)
        self.laws = Laws()
        self.producer_ids = count(100)
        self.is_healed = False
        self.partitions = [Partition(self, index) for index in range(partition_count)]
        self.coordinator_epochs = count(1)
        self.coordinator = Coordinator(self, "0")
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def coordinator_of(self, transactional_id: str) -> "Coordinator":
        return self.coordinator

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heappush(self._events, (self.now_ms + int(delay_ms), next(self._order), action))

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
        self.now_ms = end_ms

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def delay(self) -> float:
        return self.random.uniform(0, self.faults.delay_ms)


class Line:
    """The way of one client. A call has one outcome: a reply, a refusal, or silence.

    On an orderly line requests arrive as they were sent, and once. On others copies arrive whenever they like, long
    after the next transaction has begun.
    """

    def __init__(self, world: World, is_orderly: bool) -> None:
        self._world = world
        self._is_orderly = is_orderly
        self._arrival_ms = 0.0

    def call(self, serve: Callable[[Respond], None], then: Respond, timeout_ms: int = 1_500) -> None:
        world, faults = self._world, self._world.faults
        is_open = True

        def end(reply: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                then(reply)

        def answer(reply: Any) -> None:
            if not world.chance(faults.lost):
                world.at(world.delay(), lambda: end(reply))

        world.at(timeout_ms, lambda: end(Failed(None)))
        if world.chance(faults.lost):
            return
        arrival_ms = world.now_ms + world.delay()
        if self._is_orderly:
            arrival_ms = self._arrival_ms = max(self._arrival_ms, arrival_ms)
        elif world.chance(faults.late):
            arrival_ms += world.random.uniform(0, 6_000)
        world.at(arrival_ms - world.now_ms, lambda: serve(answer))
        if not self._is_orderly and world.chance(faults.doubled):
            world.at(world.random.uniform(0, 8_000), lambda: serve(lambda reply: None))


class Partition:
    """One leader: its log of values and markers, and what it knows of producers."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.table = ProducerTable()
        self.log: list[tuple[BatchHeader, Value] | EndTxnMarker] = []
        self.visible: list[Value] = []
        self.stable_offset = 0
        self.markers_seen: dict[int, int] = {}
        self._marker_epochs: dict[int, int] = {}
        self._open: dict[int, list[Value]] = {}
        self._sequences: dict[tuple[int, int], list[int]] = {}

    def has_open(self, producer_id: int, epoch: int) -> bool:
        producer = self.table.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def append(self, header: BatchHeader, value: Value, is_bumping: bool) -> int:
        """The offset of the value; raises Refused."""
        if self.world.chance(self.world.faults.restart):
            self.restart()
        seen = self.table.check(header, supports_epoch_bump=is_bumping)
        if isinstance(seen, Duplicate):
            entry = self.log[seen.base_offset]
            self.world.laws.on_duplicate(entry[1], value)
            return seen.base_offset
        self.world.laws.on_data(value)
        ended_with = self._marker_epochs.get(header.producer_id, -1)
        assert header.producer_epoch >= ended_with, f"T6: epoch {header.producer_epoch} after a marker of {ended_with}"
        offset = len(self.log)
        self.log.append((header, value))
        self.table.apply(header, offset)
        self._open.setdefault(header.producer_id, []).append(value)
        sequences = self._sequences.setdefault((header.producer_id, header.producer_epoch), [])
        sequences.append(header.base_sequence)
        self.world.laws.on_sequences(sequences)
        self._advance()
        return offset

    def end(self, marker: EndTxnMarker, transaction_version: int) -> None:
        self.table.check_marker(marker, transaction_version)
        offset = len(self.log)
        self.log.append(marker)
        self.table.end_transaction(marker, offset, self.world.now_ms)
        self.markers_seen[marker.producer_id] = self.markers_seen.get(marker.producer_id, 0) + 1
        self._marker_epochs[marker.producer_id] = marker.producer_epoch
        for value in self._open.pop(marker.producer_id, ()):
            self.world.laws.on_fate(value, marker.committed)
            if marker.committed:
                self.visible.append(value)
        self._advance()

    def restart(self) -> None:
        before = self.table.snapshot()
        table = ProducerTable()
        for offset, entry in enumerate(self.log):
            if isinstance(entry, EndTxnMarker):
                table.end_transaction(entry, offset, -1)
            else:
                table.apply(entry[0], offset)
        table.advance_high_watermark(len(self.log))
        self.table = table
        known = [[entry._replace(timestamp=0) for entry in snapshot] for snapshot in (before, table.snapshot())]
        self.world.laws.on_restart(known[0], known[1])

    def _advance(self) -> None:
        end = len(self.log)
        self.table.advance_high_watermark(end)
        unstable = self.table.first_unstable_offset
        stable = end if unstable is None else unstable
        starts = [p.txn_first_offset for p in self.table if p.txn_first_offset >= 0]
        self.world.laws.on_stable_offset(self.stable_offset, stable, end, min(starts, default=None))
        self.stable_offset = stable


def header_of(producer_id: int, epoch: int, sequence: int) -> BatchHeader:
    return BatchHeader(0, 80, 0, 2, 0, TRANSACTIONAL, 0, 0, 0, producer_id, epoch, sequence, 1)


class Coordinator:
    """The shard and its driver; it dies and comes back with what its log has committed, and maybe a little more."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rows: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        self.epoch = 0
        self.is_up = False
        self.shard: TransactionShard
        self._parked: dict[int, Respond] = {}
        self._promises: list[tuple[int, Callable[[], None]]] = []
        self._wake_ms: int | None = None
        self._sending: set[tuple[int, int]] = set()

    # Life

    def begin_near_the_last_epoch(self, transactional_id: str) -> None:
        """Long before this world began, a producer has used up nearly all epochs of its producer id."""
        old = Transaction(
            next(self.world.producer_ids), LAST_USABLE_EPOCH - 3, TIMEOUT_MS, updated_ms=self.world.now_ms
        )
        self.rows.append(codec.encode(TransactionRecord(transactional_id, old)))
        self.committed = len(self.rows)

    def start(self) -> None:
        world = self.world
        self.is_up = True
        self.epoch = next(world.coordinator_epochs)
        world.laws.on_coordinator(self.epoch)
        self.shard = TransactionShard(SETTINGS, Random(world.random.getrandbits(64)), self.epoch)
        for key, value in self.rows:
            self.shard.load(key, value, world.now_ms)
        world.laws.on_reload(self.name, dict(self.shard.transactions()))
        self._take(self.shard.loaded(world.now_ms), lambda reply: None)
        self._commit_later()

    def crash(self) -> None:
        if not self.is_up:
            return
        self.is_up = False
        del self.rows[self.world.random.randint(self.committed, len(self.rows)) :]
        self._parked.clear()
        self._promises.clear()
        self._sending.clear()
        self._wake_ms = None
        self.world.at(self.world.random.uniform(10, 1_500), self.start)

    # Service

    def serve(self, method: str, ask: object, respond: Respond) -> None:
        self.call(lambda shard, now_ms: getattr(shard, method)(ask, now_ms), respond)

    def call(self, decide: Callable[[TransactionShard, int], Decision], respond: Respond = lambda reply: None) -> None:
        if not self.is_up:
            respond(Failed(ErrorCode.NOT_COORDINATOR))
            return
        try:
            decision = decide(self.shard, self.world.now_ms)
        except Refused as refusal:
            failed = Failed(refusal.code)
            self._when_committed(lambda: respond(failed))
            self._arm()
            return
        self._take(decision, respond)

    def _take(self, decision: Decision, respond: Respond) -> None:
        world = self.world
        if decision.records:
            if world.chance(world.faults.crash):
                self.crash()
                return
            if world.chance(world.faults.append_fails):
                self._answer([e for e in decision.effects if isinstance(e, Reply) and e.reply.error != ErrorCode.NONE])
                respond(Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                self._arm()
                return
            self._append(decision)
            if world.chance(world.faults.crash):
                self.crash()
                return
            self._commit_later()
        if isinstance(decision.reply, Waiting):
            self._parked[decision.reply.ticket] = respond
        self._when_committed(lambda: self._hand_out(decision, respond))
        self._arm()

    def _append(self, decision: Decision) -> None:
        for record in decision.records:
            row = codec.encode(record)
            assert codec.decode(*row) == as_stored(record)
            self.rows.append(row)
            self.shard.apply(record, self.world.now_ms)
            if isinstance(record, TransactionRecord):
                self.world.laws.on_transaction(self.name, record.transactional_id, record.value)

    def _hand_out(self, decision: Decision, respond: Respond) -> None:
        if not isinstance(decision.reply, Waiting):
            respond(decision.reply)
        self._answer(decision.effects)

    def _answer(self, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, WriteMarkers):
                self._send_markers(effect)
            elif isinstance(effect, Reply):
                parked = self._parked.pop(effect.ticket, None)
                if parked is not None:
                    parked(effect.reply)
            else:
                self.tell(effect)

    def tell(self, effect: Any) -> None:
        """What goes to other coordinators; here there are none."""
        raise AssertionError(f"nobody to tell of {effect}")

    # Markers: one on its way per transaction and partition. What is on its way outlives the coordinator.

    def _send_markers(self, effect: WriteMarkers) -> None:
        for _, index in effect.partitions:
            if (effect.marker_id, index) not in self._sending:
                self._sending.add((effect.marker_id, index))
                self._send_marker(effect, index, self.epoch)

    def _send_marker(self, effect: WriteMarkers, index: int, epoch: int) -> None:
        world = self.world
        if epoch != self.epoch or not self.is_up:
            return
        marker = EndTxnMarker(
            effect.producer_id, effect.producer_epoch, effect.committed, coordinator_epoch=effect.coordinator_epoch
        )

        def arrive() -> None:
            try:
                world.partitions[index].end(marker, effect.transaction_version)
            except Refused as refusal:
                is_old = epoch != self.epoch
                assert is_old, f"the marker of the coordinator in office is refused: {refusal}"
                return
            if world.chance(world.faults.lost):
                world.at(500, lambda: self._send_marker(effect, index, epoch))
            else:
                world.at(world.delay(), report)
                if world.chance(world.faults.doubled):
                    world.at(world.random.uniform(0, 3_000), report)

        def report() -> None:
            if epoch == self.epoch and self.is_up:
                self._sending.discard((effect.marker_id, index))
                written = frozenset({(TOPIC, index)})
                self.serve(
                    "on_markers", MarkersWritten(effect.marker_id, effect.transactional_id, written), lambda reply: None
                )

        if world.chance(world.faults.lost):
            world.at(500, lambda: self._send_marker(effect, index, epoch))
        else:
            world.at(world.delay(), arrive)

    # Commitment and time

    def _when_committed(self, promise: Callable[[], None]) -> None:
        if self.committed >= len(self.rows) and not self._promises:
            promise()
        else:
            self._promises.append((len(self.rows), promise))

    def _commit_later(self) -> None:
        end, epoch = len(self.rows), self.epoch

        def commit() -> None:
            if epoch != self.epoch or not self.is_up or end <= self.committed:
                return
            self.committed = end
            while self._promises and self._promises[0][0] <= self.committed:
                self._promises.pop(0)[1]()

        self.world.at(self.world.random.uniform(0, self.world.faults.commit_delay_ms), commit)

    def _arm(self) -> None:
        next_ms = self.shard.next_deadline_ms() if self.is_up else None
        if next_ms is None or (self._wake_ms is not None and self._wake_ms <= next_ms):
            return
        self._wake_ms = next_ms
        epoch = self.epoch

        def wake() -> None:
            if epoch == self.epoch and self.is_up and self._wake_ms == next_ms:
                self._wake_ms = None
                self._take(self.shard.on_time(self.world.now_ms), lambda reply: None)

        self.world.at(max(next_ms - self.world.now_ms, 0), wake)


def as_stored(record: Any) -> Any:
    """Kafka's format forgets which epoch a producer had before."""
    if isinstance(record, TransactionRecord) and record.value is not None:
        return record._replace(value=record.value._replace(last_epoch=NO_EPOCH))
    return record
