"""What follows when members, subscriptions or topics of a consumer group change: epochs and targets."""

from ottla.core.groups.assignors import ASSIGNORS
from ottla.core.groups.assignors.model import Assignee
from ottla.core.groups.catalog import Catalog
from ottla.core.groups.consumer_group import Draft
from ottla.core.groups.outcome import Surroundings
from ottla.core.groups.patterns import matching_topics
from ottla.core.groups.reconciliation import reconciled
from ottla.core.groups.records import (
    CurrentRecord,
    Epoch,
    EpochRecord,
    Partitions,
    PatternRecord,
    ResolvedPattern,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)


class ConsumerAssignment:
    __slots__ = ("_around", "_catalog")

    def __init__(self, around: Surroundings, catalog: Catalog) -> None:
        self._around = around
        self._catalog = catalog

    def resolve(self, draft: Draft, pattern: str | None) -> None:
        """Note which topics a pattern stands for, if that is news. Refuses what is no pattern."""
        if not pattern:
            return
        known = draft.group.patterns.get(pattern)
        if known is not None and draft.group.topics_seen == self._catalog.version:
            return
        topics = tuple(sorted(matching_topics(pattern, self._catalog.topics)))
        if known is None or known.topics != topics:
            resolved = ResolvedPattern(topics, self._catalog.version, draft.now_ms)
            draft.note(PatternRecord(draft.group.id, pattern, resolved))

    def bump(self, draft: Draft, is_changed: bool) -> None:
        """A new group epoch if the group or what its topics look like has changed."""
        group = draft.group
        if not is_changed and group.topics_seen == self._catalog.version:
            return
        if group.topics_seen != self._catalog.version:
            for pattern in list(group.patterns):
                self.resolve(draft, pattern)
        seen = self._catalog.hash_of(draft.group.all_subscribed_names())
        if is_changed or seen != group.metadata_hash:
            draft.note(EpochRecord(group.id, Epoch(group.epoch + 1, seen)))
        draft.group.topics_seen = self._catalog.version

    def assign(self, draft: Draft, at_once: bool = False) -> int:
        """Compute the targets of a new epoch; returns how long that has to wait, so that one catches many changes."""
        group = draft.group
        if group.epoch <= group.target_epoch:
            return 0
        since_ms = draft.now_ms - group.target_timestamp_ms
        interval_ms = self._around.times(group.id).assignment_interval_ms
        if not at_once and group.target_epoch > 0 and 0 <= since_ms < interval_ms:
            return interval_ms - since_ms
        targets = self._compute(draft)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                draft.note(TargetRecord(group.id, member_id, target))
        draft.note(TargetEpochRecord(group.id, TargetEpoch(group.epoch, draft.now_ms)))
        return 0

    def _compute(self, draft: Draft) -> dict[str, Partitions]:
        group = draft.group
        names = {subscription: group.subscribed_names(subscription) for subscription in set(group.members.values())}
        counts = self._catalog.partition_counts(frozenset().union(*names.values()))
        topic_ids = {wanted: frozenset(self._catalog.partition_counts(wanted)) for wanted in set(names.values())}
        assignees = {
            member_id: Assignee(subscription.instance_id, topic_ids[names[subscription]], group.target(member_id))
            for member_id, subscription in group.members.items()
        }
        default = self._around.settings.consumer_assignors[0]
        return ASSIGNORS[group.assignor(default)](assignees, counts)

    def reconcile(self, draft: Draft, member_id: str, owned: Partitions | None) -> bool:
        """Take the member's next step; True if it took one."""
        following = reconciled(draft.group, member_id, owned)
        if following == draft.group.currents.get(member_id):
            return False
        draft.note(CurrentRecord(draft.group.id, member_id, following))
        return True
