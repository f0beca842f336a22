"""The simulated world of one group coordinator: virtual time, a lossy network, a log with a committed prefix.

Everything random comes from one seed. A member's requests arrive in the order in which it sent them, as they do on
connections that are opened one after the other; requests and answers get lost, doubled and delayed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, cast

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import codec
from ottla.core.groups.asks import Decision, Topic, Waiting
from ottla.core.groups.records import Record
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.shard import GroupShard
from tests.sim.groups_laws import Laws

SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=500,
    consumer_session_timeout_ms=10_000,
    consumer_heartbeat_interval_ms=2_500,
    offsets_retention_check_interval_ms=20_000,
)


@dataclass
class Faults:
    """How bad this world is. `heal` makes it a good one."""

    lost: float
    doubled: float
    delay_ms: int
    append_fails: float
    commit_delay_ms: int

    @classmethod
    def drawn(cls, random: Random) -> "Faults":
        return cls(
            lost=random.choice((0, 0, 0.02, 0.1)),
            doubled=random.choice((0, 0, 0.1)),
            delay_ms=random.choice((1, 20, 400)),
            append_fails=random.choice((0, 0, 0.05)),
            commit_delay_ms=random.choice((0, 10, 300)),
        )

    def heal(self) -> None:
        self.lost = self.doubled = self.append_fails = 0
        self.delay_ms, self.commit_delay_ms = 5, 5


@dataclass(frozen=True)
class Failed:
    """What a member gets instead of a reply: an error code, or nothing at all."""

    code: ErrorCode | None


Respond = Callable[[Any], None]


@dataclass
class Log:
    records: list[tuple[bytes, bytes | None, int]] = field(default_factory=list)
    committed: int = 0


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = 0
        self.faults = Faults.drawn(self.random)
        self.topics: dict[str, Topic] = {}
        self.laws = Laws(self)
        self.coordinator = Coordinator(self)
        self.is_healed = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heappush(self._events, (self.now_ms + int(delay_ms), next(self._order), action))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
            self.laws.check_clients()
        self.now_ms = end_ms

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def set_topic(self, name: str, partition_count: int) -> None:
        known = self.topics.get(name)
        topic_id = known.id if known is not None else name.encode().ljust(16, b"-")
        self.topics = {**self.topics, name: Topic(topic_id, partition_count)}
        self.coordinator.take_topics()


class Line:
    """The way of one member to the coordinator. A call has one outcome: a reply, a refusal, or silence."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._arrival_ms = 0

    def call(self, method: str, ask: object, then: Respond, timeout_ms: int = 3_000) -> None:
        world, faults = self._world, self._world.faults
        is_open = True

        def end(reply: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                then(reply)

        def answer(reply: Any) -> None:
            if not world.chance(faults.lost):
                world.at(world.random.uniform(0, faults.delay_ms), lambda: end(reply))

        world.at(timeout_ms, lambda: end(Failed(None)))
        if world.chance(faults.lost):
            return
        arrival_ms = world.now_ms + world.random.uniform(0, faults.delay_ms)
        self._arrival_ms = int(max(self._arrival_ms, arrival_ms))
        in_ms = self._arrival_ms - world.now_ms
        world.at(in_ms, lambda: world.coordinator.serve(method, ask, answer))
        if world.chance(faults.doubled):
            # The copy came over a connection that is no longer there: nobody hears its answer.
            world.at(in_ms, lambda: world.coordinator.serve(method, ask, lambda reply: None))


class Coordinator:
    """The shard and its driver; it dies and comes back with what its log has committed, and maybe a little more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Log()
        self.term = 0
        self.is_up = False
        self.shard: GroupShard
        self._parked: dict[int, Respond] = {}
        self._promises: list[tuple[int, Callable[[], None]]] = []
        self._wake_ms: int | None = None

    # Life

    def start(self) -> None:
        world = self.world
        self.is_up = True
        self.shard = GroupShard(SETTINGS, Random(world.random.getrandbits(64)))
        self.shard.on_topics(world.topics, world.now_ms)
        for key, value, written_ms in self.log.records:
            self.shard.load(key, value, written_ms)
        world.laws.on_load(self.shard, self.log.records)
        self._take(self.shard.loaded(world.now_ms), lambda reply: None)
        self._commit_later()

    def crash(self, down_ms: int) -> None:
        if not self.is_up:
            return
        self.is_up = False
        self.term += 1
        kept = self.world.random.randint(self.log.committed, len(self.log.records))
        self.world.laws.on_crash(self.shard, is_whole=kept == len(self.log.records))
        del self.log.records[kept:]
        self._parked.clear()
        self._promises.clear()
        self._wake_ms = None
        self.world.at(down_ms, self.start)

    # Service

    def serve(self, method: str, ask: object, respond: Respond) -> None:
        if not self.is_up:
            respond(Failed(ErrorCode.NOT_COORDINATOR))
            return
        try:
            decision = getattr(self.shard, method)(ask, self.world.now_ms)
        except Refused as refusal:
            failed = Failed(refusal.code)
            self._when_committed(lambda: respond(failed))
            self._arm()
            return
        self._take(decision, respond)

    def take_topics(self) -> None:
        if self.is_up:
            self._take(self.shard.on_topics(self.world.topics, self.world.now_ms), lambda reply: None)

    def _take(self, decision: Decision, respond: Respond) -> None:
        world = self.world
        if decision.records:
            rows = [codec.encode(record) for record in decision.records]
            for row, record in zip(rows, decision.records, strict=True):
                assert codec.decode(*row) == record
            if world.chance(world.faults.append_fails):
                self._answer(tuple(e for e in decision.effects if e.reply.error != ErrorCode.NONE))
                respond(Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                self._arm()
                return
            self.log.records += [(key, value, world.now_ms) for key, value in rows]
            for record in decision.records:
                self.shard.apply(cast(Record, record), world.now_ms)
            world.laws.on_records(self.shard, decision.records)
            self._commit_later()
        if isinstance(decision.reply, Waiting):
            self._parked[decision.reply.ticket] = respond
        self._when_committed(lambda: self._hand_out(decision, respond))
        self._arm()

    def _hand_out(self, decision: Decision, respond: Respond) -> None:
        if not isinstance(decision.reply, Waiting):
            respond(decision.reply)
        self._answer(decision.effects)

    def _answer(self, effects: tuple[Any, ...]) -> None:
        for effect in effects:
            parked = self._parked.pop(effect.ticket, None)
            if parked is not None:
                parked(effect.reply)

    @property
    def parked_count(self) -> int:
        return len(self._parked)

    # Commitment and time

    def _when_committed(self, promise: Callable[[], None]) -> None:
        if self.log.committed >= len(self.log.records) and not self._promises:
            promise()
        else:
            self._promises.append((len(self.log.records), promise))

    def _commit_later(self) -> None:
        end, term, delay_ms = len(self.log.records), self.term, self.world.faults.commit_delay_ms

        def commit() -> None:
            if term != self.term or end <= self.log.committed:
                return
            self.log.committed = end
            while self._promises and self._promises[0][0] <= end:
                self._promises.pop(0)[1]()

        self.world.at(self.world.random.uniform(0, delay_ms), commit)

    def _arm(self) -> None:
        next_ms = self.shard.next_deadline_ms()
        if next_ms is None or (self._wake_ms is not None and self._wake_ms <= next_ms):
            return
        self._wake_ms = next_ms
        term = self.term

        def wake() -> None:
            if term == self.term and self._wake_ms == next_ms:
                self._wake_ms = None
                self._take(self.shard.on_time(self.world.now_ms), lambda reply: None)

        self.world.at(max(next_ms - self.world.now_ms, 0), wake)
