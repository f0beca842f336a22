"""What must hold after every event, checked from the records, from what the coordinator shows, and from its members.

- No partition has two current owners: not in the log, and not among those members that the coordinator counts in.
- Every target covers every subscribed partition exactly once, and only subscribers.
- A stable group is: everybody has reached the group's epoch and has what its target says.
- Epochs of a member never go back.
- A new owner starts at the last offset that was acknowledged to an old one; committed offsets never go back.
- A coordinator that comes back knows what the one before it knew.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import Refused
from ottla.core.groups import codec
from ottla.core.groups.asks import DescribedConsumerGroup
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.records import CurrentRecord, GroupRecord, OffsetRecord, TargetEpochRecord, from_topics
from ottla.core.groups.shard import GroupShard

if TYPE_CHECKING:
    from tests.sim.groups_members import Member
    from tests.sim.groups_world import World

Place = tuple[str, str, int]


class Laws:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.members: list[Member] = []
        self._holders: dict[tuple[str, str], frozenset[tuple[bytes, int]]] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self._committed: dict[Place, int] = {}
        self._generations: dict[str, tuple[int, int]] = {}
        """The last two generations of a classic group whose work was divided."""
        self._before: dict[str, Any] | None = None
        self.acknowledged: dict[Place, int] = {}
        self.is_dirty = True
        """Whether ownership may have changed since the members were last looked at."""

    # The coordinator's side

    def on_records(self, shard: GroupShard, records: Iterable[object]) -> None:
        self.is_dirty = True
        touched = {}
        for record in records:
            match record:
                case CurrentRecord():
                    self._check_holder(record)
                    touched[record.group_id] = True
                case OffsetRecord(value=value) if value is not None:
                    place = (record.group_id, record.topic, record.partition)
                    assert value.offset >= self._committed.get(place, 0), f"{place} goes back: {value.offset}"
                    self._committed[place] = value.offset
                case OffsetRecord():
                    self._committed.pop((record.group_id, record.topic, record.partition), None)
                case GroupRecord(value=generation) if generation is not None:
                    self._note_generation(record.group_id, generation.generation_id)
                case GroupRecord():
                    self._generations.pop(record.group_id, None)
                case TargetEpochRecord(value=epoch) if epoch is not None:
                    touched[record.group_id] = True
        for group_id in touched:
            self._check_group(shard, group_id)

    def _note_generation(self, group_id: str, generation_id: int) -> None:
        last, _ = self._generations.get(group_id, (0, 0))
        assert generation_id >= last
        if generation_id > last:
            self._generations[group_id] = (generation_id, last)

    def _check_holder(self, record: CurrentRecord) -> None:
        key = (record.group_id, record.member_id)
        if record.value is None:
            self._holders.pop(key, None)
            self._epochs.pop(key, None)
            return
        epoch = record.value.epoch
        assert epoch <= 0 or epoch >= self._epochs.get(key, 0), f"{key} falls from {self._epochs[key]} to {epoch}"
        self._epochs[key] = epoch
        held = record.value.assigned | record.value.revoking
        self._holders[key] = held
        for (group_id, member_id), others in self._holders.items():
            if group_id == record.group_id and member_id != record.member_id:
                assert held.isdisjoint(others), f"{record.member_id} and {member_id} both hold {held & others}"

    def _check_group(self, shard: GroupShard, group_id: str) -> None:
        try:
            group: Any = shard.describe_consumer_group(group_id, self._world.now_ms).reply
        except Refused:
            return
        if group.group_epoch == group.assignment_epoch:
            self._check_targets(group)
        if group.state == "Stable":
            for member in group.members:
                assert member.member_epoch == group.group_epoch
                assert member.assignment == member.target_assignment

    def _check_targets(self, group: DescribedConsumerGroup) -> None:
        wanted = {}
        for member in group.members:
            for name, topic in self._world.topics.items():
                pattern = member.subscribed_topic_regex
                is_meant = pattern is not None and re.fullmatch(pattern, name)
                if name in member.subscribed_topic_names or is_meant:
                    wanted[topic.id] = topic.partition_count
        if any(set(n) - set(range(wanted.get(t, 0))) for m in group.members for t, n in m.target_assignment):
            return  # a topic has changed since; the next heartbeat sees to it
        targets = [place for member in group.members for place in from_topics(member.target_assignment)]
        assert len(targets) == len(set(targets)), "a partition is in two targets"
        if self._world.is_healed:
            expected = {(topic_id, n) for topic_id, size in wanted.items() for n in range(size)}
            assert set(targets) == expected or not group.members, "a partition is in no target"

    def on_crash(self, shard: GroupShard, is_whole: bool) -> None:
        self._before = durable_state(shard) if is_whole else None

    def on_load(self, shard: GroupShard, rows: list[tuple[bytes, bytes | None, int]]) -> None:
        if self._before is not None:
            assert durable_state(shard) == self._before
        self._holders.clear()
        self._epochs.clear()
        self._committed.clear()
        self._generations.clear()
        for key, value, _ in rows:
            match codec.decode(key, value):
                case CurrentRecord() as record:
                    self._check_holder(record)
                case GroupRecord(group_id, generation) if generation is not None:
                    self._note_generation(group_id, generation.generation_id)
                case GroupRecord(group_id):
                    self._generations.pop(group_id, None)
                case OffsetRecord(group_id, topic, partition, committed):
                    self._committed[(group_id, topic, partition)] = 0 if committed is None else committed.offset
        self.is_dirty = True

    # The members' side

    def check_clients(self) -> None:
        """Whoever the coordinator counts in shares nothing with another whom it counts in."""
        if not self.is_dirty or not self._world.coordinator.is_up:
            return
        self.is_dirty = False
        users: dict[Place, str] = {}
        shard = self._world.coordinator.shard
        for member in self.members:
            if not member.owned or not member.is_alive or not is_counted_in(shard, member):
                continue
            if not self._keeps_up(shard, member):
                continue
            for topic, partition in member.owned:
                other = users.setdefault((member.group_id, topic, partition), member.member_id)
                assert other == member.member_id, f"{other} and {member.member_id} both use {topic}-{partition}"

    def _keeps_up(self, shard: GroupShard, member: "Member") -> bool:
        """A static member may miss a whole generation of a classic group and stay in it. What it still claims when it
        joins again is for its leader to judge, by the generation that the claim is from."""
        if isinstance(shard._groups.by_id[member.group_id], ConsumerGroup):
            return True
        last, before = self._generations.get(member.group_id, (0, 0))
        return member.synced_epoch == last or (member.synced_epoch == before and member.epoch == last)

    def on_acknowledged(self, place: Place, offset: int) -> None:
        self.acknowledged[place] = max(offset, self.acknowledged.get(place, 0))

    def on_start(self, place: Place, offset: int, acknowledged: int) -> None:
        assert offset >= acknowledged, f"{place} starts at {offset}, {acknowledged} was acknowledged"


def is_counted_in(shard: GroupShard, member: "Member") -> bool:
    """Whether a commit of this member would be accepted."""
    group = shard._groups.by_id.get(member.group_id)
    if group is None or member.member_id not in group.members:
        return False
    if isinstance(group, ConsumerGroup):
        current = group.current(member.member_id)
        return member.epoch in (current.epoch, current.previous_epoch) and member.epoch > 0
    return member.epoch == group.generation_id


def durable_state(shard: GroupShard) -> dict[str, Any]:
    """All of the consumer groups and the offsets; of classic groups what the last division of work said."""
    state: dict[str, Any] = {"offsets": sorted(shard.committed_offsets())}
    for group_id, group in shard._groups.by_id.items():
        if isinstance(group, ConsumerGroup):
            state[group_id] = (
                group.epoch,
                group.target_epoch,
                group.members,
                group.targets,
                group.currents,
                group.owners,
                group.static_ids,
                group.patterns,
            )
    return state
