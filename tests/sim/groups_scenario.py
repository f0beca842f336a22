"""A scenario: members come, go, crash and pause, the coordinator dies and comes back; then all is well for a while."""

from enum import Enum

from ottla.core.groups.asks import DescribedConsumerGroup, DescribedGroup
from ottla.core.groups.consumer_group import ConsumerGroup
from tests.sim.groups_classic_member import COOPERATIVE, EAGER, ClassicMember
from tests.sim.groups_consumer_member import ConsumerMember
from tests.sim.groups_laws import is_counted_in
from tests.sim.groups_members import Member
from tests.sim.groups_world import World

GROUP = "g"
TROUBLE_MS = 40_000
PEACE_MS = 60_000


class Kind(Enum):
    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"
    MIXED = "mixed"


class Scenario:
    def __init__(self, kind: Kind, seed: int) -> None:
        self.world = World(seed)
        self.kind = kind
        self.style = self.world.random.choice((EAGER, COOPERATIVE))
        self.members: list[Member] = []
        self.is_heterogeneous = self.world.chance(0.3)
        self.static_names = 2 if self.world.chance(0.4) else 0

    def run(self) -> None:
        world = self.world
        for name in ("t0", "t1")[: world.random.randint(1, 2)]:
            world.set_topic(name, world.random.randint(1, 5))
        world.coordinator.start()
        for _ in range(world.random.randint(1, 3)):
            world.at(world.random.uniform(0, 3_000), self._add_member)
        for _ in range(world.random.randint(3, 12)):
            event = world.random.choice(
                (self._add_member, self._add_member, self._leave, self._crash, self._pause, self._fail_over, self._grow)
            )
            world.at(world.random.uniform(2_000, TROUBLE_MS), event)
        world.run_until(TROUBLE_MS)
        world.is_healed = True
        world.faults.heal()
        for member in self.members:
            member.pause(0)
        self._add_member()
        world.run_until(TROUBLE_MS + PEACE_MS)
        self._check_peace()

    # Events

    def _alive(self) -> list[Member]:
        return [member for member in self.members if member.is_alive]

    def _add_member(self) -> None:
        if len(self._alive()) >= 5:
            return
        world, number = self.world, len(self.members)
        instance_id = (
            f"i{world.random.randrange(self.static_names)}" if self.static_names and world.chance(0.7) else None
        )
        if instance_id is not None and not self._may_take(instance_id):
            instance_id = None
        names = tuple(sorted(world.topics))
        topics = (
            tuple(world.random.sample(names, world.random.randint(1, len(names)))) if self.is_heterogeneous else names
        )
        is_new = self.kind is Kind.CONSUMER or (self.kind is Kind.MIXED and world.chance(0.5))
        member: Member
        if is_new:
            member = ConsumerMember(world, GROUP, f"c{number}", instance_id, topics)
            member.assignor = world.random.choice((None, "uniform", "range"))
            if world.chance(0.2):
                member.topics, member.regex = None, "t.*"
        else:
            style = {Kind.EAGER: EAGER, Kind.COOPERATIVE: COOPERATIVE}.get(self.kind, self.style)
            member = ClassicMember(world, GROUP, f"m{number}", instance_id, topics, style)
        self.members.append(member)
        member.start()

    def _may_take(self, instance_id: str) -> bool:
        """In the classic protocol a newcomer takes over the name of a member that still runs, and that one stops."""
        users = [member for member in self._alive() if member.instance_id == instance_id]
        return not users or self.kind in (Kind.EAGER, Kind.COOPERATIVE)

    def _leave(self) -> None:
        if self._alive():
            member = self.world.random.choice(self._alive())
            member.after(0, member.leave)

    def _crash(self) -> None:
        if self._alive():
            self.world.random.choice(self._alive()).stop()

    def _pause(self) -> None:
        if self._alive():
            self.world.random.choice(self._alive()).pause(self.world.random.uniform(1_000, 15_000))

    def _fail_over(self) -> None:
        self.world.coordinator.crash(int(self.world.random.uniform(0, 4_000)))

    def _grow(self) -> None:
        name = self.world.random.choice(("t0", "t1", "t2"))
        known = self.world.topics.get(name)
        self.world.set_topic(name, (known.partition_count if known else 0) + self.world.random.randint(1, 2))

    # Peace

    def _check_peace(self) -> None:
        world, alive = self.world, self._alive()
        shard = world.coordinator.shard
        group = shard._groups.by_id[GROUP]
        is_consumer = isinstance(group, ConsumerGroup)
        described = (shard.describe_consumer_group if is_consumer else shard.describe_group)(GROUP, world.now_ms).reply
        assert isinstance(described, DescribedConsumerGroup | DescribedGroup)
        assert described.state == "Stable", described
        assert {member.member_id for member in described.members} == {member.member_id for member in alive}
        assert all(is_counted_in(shard, member) for member in alive)
        assert world.coordinator.parked_count == 0
        wanted = {
            (name, number)
            for name, topic in world.topics.items()
            if any(self._wants(member, name) for member in alive)
            for number in range(topic.partition_count)
        }
        used = [place for member in alive for place in member.owned]
        assert sorted(used) == sorted(wanted), f"used {sorted(used)}, wanted {sorted(wanted)}"
        assert all(position is not None for member in alive for position in member.owned.values())

    def _wants(self, member: Member, topic: str) -> bool:
        if isinstance(member, ConsumerMember) and member.regex is not None:
            return True
        return topic in (getattr(member, "topics", None) or ())


def run(kind: Kind, seed: int) -> None:
    Scenario(kind, seed).run()
