"""A group of the consumer protocol (KIP-848): a fold over its records, nothing else.

Three epochs keep it in step: the group's grows with every change of members, subscriptions or topics; the target's is
the group epoch that the last assignment was computed for; a member's is the target epoch it has reached. `owners` says
who has a partition now, be it in use or still to be let go: nobody else may have it before it is free again.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import TypeVar

from ottla.core.groups.records import (
    NO_PARTITIONS,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    Partitions,
    PatternRecord,
    Record,
    ResolvedPattern,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
    TopicIdPartition,
)

V = TypeVar("V")


class MemberState(IntEnum):
    """Kafka's numbers, as they stand in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


NEW_MEMBER = Current(0, 0, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS)


class ConsumerGroup:
    __slots__ = (
        "currents",
        "empty_since_ms",
        "epoch",
        "id",
        "members",
        "metadata_hash",
        "owners",
        "patterns",
        "static_ids",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
        "topics_seen",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 1
        """The first member's arrival makes it 2, as in Kafka."""
        self.metadata_hash = 0
        self.members: dict[str, Subscription] = {}
        self.static_ids: dict[str, str] = {}
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.targets: dict[str, Partitions] = {}
        self.currents: dict[str, Current] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.empty_since_ms = 0
        self.topics_seen = -1
        """The version of the cluster's topics that the metadata hash was last compared with; a cache, not state."""

    def copy(self) -> "ConsumerGroup":
        """An independent group that shares the immutable rows."""
        other = ConsumerGroup(self.id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.target_epoch, other.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        other.members, other.static_ids = dict(self.members), dict(self.static_ids)
        other.targets, other.currents = dict(self.targets), dict(self.currents)
        other.owners, other.patterns = dict(self.owners), dict(self.patterns)
        other.empty_since_ms, other.topics_seen = self.empty_since_ms, self.topics_seen
        return other

    # What it is

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self.is_settled(member_id) for member_id in self.members):
            return "Stable"
        return "Reconciling"

    def is_settled(self, member_id: str) -> bool:
        current = self.current(member_id)
        return current.state == MemberState.STABLE and current.epoch == self.target_epoch

    def current(self, member_id: str) -> Current:
        return self.currents.get(member_id, NEW_MEMBER)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def subscribed_names(self, subscription: Subscription) -> frozenset[str]:
        """The topics of one member, whether they exist or not: by name and by pattern."""
        names = frozenset(subscription.topic_names)
        resolved = self.patterns.get(subscription.topic_regex or "")
        return names if resolved is None else names.union(resolved.topics)

    def all_subscribed_names(self) -> frozenset[str]:
        subscriptions = {(s.topic_names, s.topic_regex): s for s in self.members.values()}
        return frozenset().union(*(self.subscribed_names(s) for s in subscriptions.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.all_subscribed_names()

    def uses_pattern(self, pattern: str) -> bool:
        return any(subscription.topic_regex == pattern for subscription in self.members.values())

    def classic_members(self) -> Iterator[tuple[str, Subscription]]:
        return ((member_id, s) for member_id, s in self.members.items() if s.classic is not None)

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for; the default if none asks."""
        votes: dict[str, int] = {}
        for subscription in self.members.values():
            if subscription.server_assignor is not None:
                votes[subscription.server_assignor] = votes.get(subscription.server_assignor, 0) + 1
        return max(votes, key=lambda name: votes[name], default=default)

    # The log

    def apply(self, record: ConsumerRecord, written_ms: int) -> None:
        """Total: a log that was compacted half way may hold a tombstone for what is not there."""
        match record:
            case CurrentRecord(_, member_id, value):
                self._set_current(member_id, value)
            case TargetRecord(_, member_id, value):
                _set(self.targets, member_id, value)
            case MemberRecord(_, member_id, value):
                self._set_member(member_id, value, written_ms)
            case EpochRecord(_, value):
                self.epoch, self.metadata_hash = (1, 0) if value is None else value
            case TargetEpochRecord(_, value):
                self.target_epoch, self.target_timestamp_ms = (0, 0) if value is None else value
            case PatternRecord(_, pattern, value):
                _set(self.patterns, pattern, value)

    def _set_member(self, member_id: str, value: Subscription | None, written_ms: int) -> None:
        former = self.members.get(member_id)
        if (
            former is not None
            and former.instance_id is not None
            and self.static_ids.get(former.instance_id) == member_id
        ):
            del self.static_ids[former.instance_id]
        _set(self.members, member_id, value)
        if value is not None and value.instance_id is not None:
            self.static_ids[value.instance_id] = member_id
        if not self.members:
            self.empty_since_ms = written_ms

    def _set_current(self, member_id: str, value: Current | None) -> None:
        former = self.currents.get(member_id)
        if former is not None:
            for partition in former.assigned | former.revoking:
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        _set(self.currents, member_id, value)
        if value is not None:
            for partition in value.assigned | value.revoking:
                self.owners[partition] = member_id

    def tombstones(self) -> list[ConsumerRecord]:
        """What removes the whole group, members first."""
        records: list[ConsumerRecord] = []
        for member_id in self.currents:
            records.append(CurrentRecord(self.id, member_id, None))
        for member_id in self.targets:
            records.append(TargetRecord(self.id, member_id, None))
        records.append(TargetEpochRecord(self.id, None))
        for member_id in self.members:
            records.append(MemberRecord(self.id, member_id, None))
        for pattern in self.patterns:
            records.append(PatternRecord(self.id, pattern, None))
        records.append(EpochRecord(self.id, None))
        return records


def _set(table: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


class Draft:
    """A consumer group as it will be once the records decided so far are applied. The group itself stays untouched."""

    __slots__ = ("_is_own", "group", "now_ms", "records")

    def __init__(self, group: ConsumerGroup, now_ms: int, records: list[Record]) -> None:
        self.group = group
        self.now_ms = now_ms
        self.records = records
        self._is_own = False

    def note(self, record: ConsumerRecord) -> None:
        if not self._is_own:
            self.group = self.group.copy()
            self._is_own = True
        self.records.append(record)
        self.group.apply(record, self.now_ms)

    def remove_member(self, member_id: str) -> None:
        group = self.group
        pattern = group.members[member_id].topic_regex
        if member_id in group.currents:
            self.note(CurrentRecord(group.id, member_id, None))
        if member_id in group.targets:
            self.note(TargetRecord(group.id, member_id, None))
        self.note(MemberRecord(group.id, member_id, None))
        self.drop_unused_pattern(pattern)

    def drop_unused_pattern(self, pattern: str | None) -> None:
        if pattern is not None and pattern in self.group.patterns and not self.group.uses_pattern(pattern):
            self.note(PatternRecord(self.group.id, pattern, None))
