"""How a member of a consumer group gets from what it has to what it shall have (KIP-848).

First it lets go: whatever is not in its target is revoked, and the member stays at its epoch until its heartbeat no
longer lists it. Then it moves to the target's epoch with all that is free; what others still have comes to it later.
"""

from collections.abc import Mapping

from ottla.core.groups.consumer_group import ConsumerGroup, MemberState
from ottla.core.groups.records import NO_PARTITIONS, Current, Partitions, TopicIdPartition


def reconciled(group: ConsumerGroup, member_id: str, owned: Partitions | None) -> Current:
    """The member's next step; `owned` is what its heartbeat lists, None if it lists nothing new."""
    current = group.current(member_id)
    if current.state == MemberState.UNREVOKED_PARTITIONS and _still_has(owned, current.revoking):
        return current
    if current.state == MemberState.STABLE and current.epoch == group.target_epoch:
        return current
    target = group.target(member_id)
    keeps = current.assigned & target
    revokes = current.assigned - target
    if revokes and _still_has(owned, revokes):
        return Current(current.epoch, current.previous_epoch, MemberState.UNREVOKED_PARTITIONS, keeps, revokes)
    wanted = target - keeps
    free = frozenset(partition for partition in wanted if is_free(group.owners, partition, member_id))
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    previous = current.epoch if current.epoch != group.target_epoch else current.previous_epoch
    return Current(group.target_epoch, previous, state, keeps | free, NO_PARTITIONS)


def is_free(owners: Mapping[TopicIdPartition, str], partition: TopicIdPartition, member_id: str) -> bool:
    owner = owners.get(partition)
    return owner is None or owner == member_id


def waits_for_others(group: ConsumerGroup, member_id: str) -> bool:
    """Whether all that the member lacks is still with others."""
    lacks = group.target(member_id) - group.current(member_id).assigned
    return bool(lacks) and not any(is_free(group.owners, partition, member_id) for partition in lacks)


def _still_has(owned: Partitions | None, partitions: Partitions) -> bool:
    return owned is None or not owned.isdisjoint(partitions)
