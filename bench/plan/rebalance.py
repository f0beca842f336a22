"""Groups that rebalance: members with honest clocks, and the real coordinator, `core.groups`, in virtual time.

What a member does is what clients do: a classic one lets go of everything before it joins again (eager), one of the
consumer protocol (KIP-848) lets go of what it is told to. What the coordinator decides is not modelled but asked.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.plan.costs import Costs
from bench.plan.latency import HOP_SECONDS
from bench.plan.world import Server, World
from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerHeartbeat,
    Decision,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    Protocol,
    Sync,
    Topic,
    Waiting,
)
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.shard import GroupShard

GROUP, TOPIC, TOPIC_ID = "plan", "t", b"t" * 16
CLASSIC_HEARTBEAT_SECONDS = 3.0
_GOLDEN = 0.618034
Respond = Callable[[Any], None]


class Coordinator:
    """The shard on a node's event loop: a request costs something, and every record that it decides a little more."""

    def __init__(self, world: World, costs: Costs, partitions: int, settings: GroupSettings) -> None:
        self._world = world
        self._loop = Server(world)
        self._request_s = (costs["single_us"] + costs["group_call_us"]) / 1e6
        self._record_s = costs["group_record_us"] / 1e6
        self.shard = GroupShard(settings, Random(1))
        self._parked: dict[int, Respond] = {}
        self._wake_ms: int | None = None
        self.decide(lambda: self.shard.on_topics({TOPIC: Topic(TOPIC_ID, partitions)}, self.now_ms))

    @property
    def now_ms(self) -> int:
        return int(self._world.now * 1000)

    @property
    def busy_seconds(self) -> float:
        return self._loop.busy_seconds

    def ask(self, method: str, ask: object, then: Respond) -> None:
        def answer(reply: Any) -> None:
            self._world.at(HOP_SECONDS, lambda: then(reply))

        def serve() -> None:
            self.decide(lambda: getattr(self.shard, method)(ask, self.now_ms), answer)

        self._world.at(HOP_SECONDS, lambda: self._loop.do(self._request_s, serve))

    def decide(self, decide: Callable[[], Decision], answer: Respond = lambda _: None) -> None:
        try:
            decision = decide()
        except Refused as refusal:
            answer(refusal)
            self._arm()
            return
        for record in decision.records:
            self.shard.apply(record, self.now_ms)  # type: ignore[arg-type]
        if isinstance(decision.reply, Waiting):
            self._parked[decision.reply.ticket] = answer

        def hand_out() -> None:
            if not isinstance(decision.reply, Waiting):
                answer(decision.reply)
            for effect in decision.effects:
                if (parked := self._parked.pop(effect.ticket, None)) is not None:
                    parked(effect.reply)

        self._loop.do(len(decision.records) * self._record_s, hand_out)
        self._arm()

    def _arm(self) -> None:
        due_ms = self.shard.next_deadline_ms()
        if due_ms is None or (self._wake_ms is not None and self._wake_ms <= due_ms):
            return
        self._wake_ms = due_ms

        def wake() -> None:
            if self._wake_ms == due_ms:
                self._wake_ms = None
                self.decide(lambda: self.shard.on_time(self.now_ms))

        self._world.at((due_ms + 1) / 1000 - self._world.now, wake)


@dataclass
class Owners:
    """Which member works on which partition, and for how long nobody did."""

    world: World
    partitions: int
    of: dict[int, int] = field(default_factory=dict)
    idle_seconds: float = 0.0
    complete: float = 0.0
    """The moment at which the last partition found its owner."""
    _since: dict[int, float] = field(default_factory=dict)

    def watch(self) -> None:
        """Count from now on; what is in nobody's hands counts from now."""
        self.idle_seconds = 0.0
        self._since = {number: self.world.now for number in range(self.partitions) if number not in self.of}

    def take(self, member: int, places: Iterable[int]) -> None:
        for place in places:
            if self.of.get(place) != member:
                assert place not in self.of, f"{place} has two owners"
                self.of[place] = member
                self.idle_seconds += self.world.now - self._since.pop(place, self.world.now)
        if len(self.of) == self.partitions:
            self.complete = self.world.now

    def drop(self, places: Iterable[int]) -> None:
        for place in places:
            del self.of[place]
            self._since[place] = self.world.now


class Member:
    def __init__(self, number: int, world: World, coordinator: Coordinator, owners: Owners, members: list["Member"]):
        self.number = number
        self.world = world
        self.coordinator = coordinator
        self.owners = owners
        self.members = members
        self.member_id = ""
        self.owned: set[int] = set()
        self.is_alive = True
        self.phase = number * _GOLDEN % 1
        """Of its heartbeats: members that came together do not stay in step, and are not in step with what happens."""

    def hold(self, places: set[int]) -> None:
        self.let_go(self.owned - places)
        self.owners.take(self.number, places)
        self.owned = places

    def let_go(self, places: set[int]) -> None:
        self.owners.drop(places)
        self.owned = self.owned - places

    def ask(self, method: str, ask: object, then: Respond) -> None:
        self.coordinator.ask(method, ask, lambda reply: then(reply) if self.is_alive else None)

    def start(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError


class ClassicMember(Member):
    generation = -1

    def start(self) -> None:
        self.let_go(set(self.owned))
        ask = Join(group_id=GROUP, member_id=self.member_id, protocols=(Protocol("range", b"s"),))
        self.ask("join", ask, self._joined)

    def _joined(self, reply: Any) -> None:
        if isinstance(reply, Refused) or reply.error is not ErrorCode.NONE:
            code = reply.code if isinstance(reply, Refused) else reply.error
            assert code is ErrorCode.MEMBER_ID_REQUIRED or code is ErrorCode.REBALANCE_IN_PROGRESS, code
            self.member_id = getattr(reply, "member_id", "") or self.member_id
            self.start()
            return
        self.member_id, self.generation = reply.member_id, reply.generation_id
        shares: dict[str, bytes] = {}
        if reply.leader == self.member_id:
            ids = [member.member_id for member in reply.members]
            for at, member_id in enumerate(ids):
                shares[member_id] = ",".join(map(str, range(at, self.owners.partitions, len(ids)))).encode()
        ask = Sync(group_id=GROUP, generation_id=self.generation, member_id=self.member_id, assignments=shares)
        self.ask("sync", ask, self._synced)

    def _synced(self, reply: Any) -> None:
        if isinstance(reply, Refused) or reply.error is not ErrorCode.NONE:
            self.start()
            return
        self.hold({int(number) for number in bytes(reply.assignment).decode().split(",") if number})
        self.world.at(CLASSIC_HEARTBEAT_SECONDS * self.phase, lambda generation=self.generation: self._beat(generation))  # type: ignore[misc]

    def _beat(self, generation: int) -> None:
        if self.is_alive and generation == self.generation:
            ask = Heartbeat(group_id=GROUP, generation_id=generation, member_id=self.member_id)
            self.ask("heartbeat", ask, self._beaten)

    def _beaten(self, reply: Any) -> None:
        if isinstance(reply, Refused):
            self.start()
        else:
            self.world.at(CLASSIC_HEARTBEAT_SECONDS, lambda generation=self.generation: self._beat(generation))  # type: ignore[misc]

    def leave(self) -> None:
        self.let_go(set(self.owned))
        self.ask("leave", Leave(GROUP, (LeavingMember(self.member_id),)), lambda _: None)
        self.is_alive = False


class ConsumerMember(Member):
    epoch = JOIN_EPOCH
    _turn = 0
    _is_new = True

    def start(self) -> None:
        self.member_id = f"member-{self.number}"
        self._beat(says_owned=True)

    def _beat(self, says_owned: bool = False) -> None:
        self._turn += 1
        first: dict[str, Any] = {}
        if self.epoch == JOIN_EPOCH:
            first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": (TOPIC,)}
        owned = ((TOPIC_ID, tuple(sorted(self.owned))),) if self.owned else ()
        ask = ConsumerHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=owned if says_owned else None,
            **first,
        )
        self.ask("consumer_heartbeat", ask, self._beaten)

    def _beaten(self, reply: Any) -> None:
        assert not isinstance(reply, Refused), reply
        self.epoch = reply.member_epoch
        given = None if reply.assignment is None else {place for _, places in reply.assignment for place in places}
        if given is not None and given != self.owned:
            self.hold(given)
            self._beat(says_owned=True)
            return
        turn = self._turn
        phase, self._is_new = self.phase if self._is_new else 1.0, False
        self.world.at(reply.heartbeat_interval_ms / 1000 * phase, lambda: self._beat_again(turn))

    def _beat_again(self, turn: int) -> None:
        if self.is_alive and turn == self._turn:
            self._beat()

    def leave(self) -> None:
        self.let_go(set(self.owned))
        gone = ConsumerHeartbeat(group_id=GROUP, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
        self.ask("consumer_heartbeat", gone, lambda _: None)
        self.is_alive = False


KINDS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


@dataclass(frozen=True)
class Step:
    """One event of a group's life."""

    seconds: float
    """Until every partition was worked on again, for good."""
    stood_still: float
    """How long a partition was worked on by nobody, on average over all of them."""
    coordinator_seconds: float


class Group:
    """A group's life: all come at once, one leaves, one comes."""

    def __init__(self, costs: Costs, protocol: str, members: int, partitions_each: int = 2, delay_ms: int = 3_000):
        self.world = World()
        settings = GroupSettings(group_initial_rebalance_delay_ms=delay_ms)
        self.partitions = members * partitions_each
        self.coordinator = Coordinator(self.world, costs, self.partitions, settings)
        self.owners = Owners(self.world, self.partitions)
        self.members: list[Member] = []
        self._kind = KINDS[protocol]
        self._first = members

    def _begin(self) -> Member:
        member = self._kind(len(self.members), self.world, self.coordinator, self.owners, self.members)
        self.members.append(member)
        return member

    def _step(self, happen: Callable[[], None], seconds_max: float) -> Step:
        begun, busy = self.world.now, self.coordinator.busy_seconds
        self.owners.watch()
        happen()
        self.world.run(begun + seconds_max)
        self.world.now = begun + seconds_max
        assert len(self.owners.of) == self.partitions, "the group has come to rest"
        took = self.owners.complete - begun
        return Step(took, self.owners.idle_seconds / self.partitions, self.coordinator.busy_seconds - busy)

    def all_come(self) -> Step:
        def happen() -> None:
            for _ in range(self._first):
                self._begin().start()

        return self._step(happen, 30.0)

    def one_leaves(self) -> Step:
        return self._step(self.members[1].leave, 20.0)

    def one_comes(self) -> Step:
        return self._step(lambda: self._begin().start(), 30.0)
