"""The `uniform` assignor: loads as equal as the subscriptions allow, and as few partitions moved as that allows.

With equal subscriptions everybody is entitled to the whole-number share, and some to one more. With different ones,
free partitions go to the least loaded subscriber, then single partitions move downhill until no move helps.
"""

from ottla.core.groups.assignors.model import Assignee, Assignees, PartitionCounts, in_order
from ottla.core.groups.records import Partitions, TopicIdPartition

Shares = dict[str, set[TopicIdPartition]]


def assign_uniformly(assignees: Assignees, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    if not assignees:
        return {}
    shares = {member_id: _still_valid(assignees[member_id], partition_counts) for member_id in in_order(assignees)}
    _drop_doubles(shares)
    subscriptions = {assignee.topic_ids for assignee in assignees.values()}
    if len(subscriptions) == 1:
        _share_equally(shares, _all_partitions(next(iter(subscriptions)), partition_counts))
    else:
        subscribers = _subscribers(assignees, shares)
        _hand_out(shares, subscribers, partition_counts)
        _level(shares, subscribers)
    return {member_id: frozenset(partitions) for member_id, partitions in shares.items()}


def _still_valid(assignee: Assignee, partition_counts: PartitionCounts) -> set[TopicIdPartition]:
    return {
        (topic_id, partition)
        for topic_id, partition in assignee.assigned
        if topic_id in assignee.topic_ids and partition < partition_counts[topic_id]
    }


def _drop_doubles(shares: Shares) -> None:
    taken: set[TopicIdPartition] = set()
    for partitions in shares.values():
        partitions -= taken
        taken |= partitions


def _all_partitions(topic_ids: frozenset[bytes], partition_counts: PartitionCounts) -> list[TopicIdPartition]:
    return [(topic_id, n) for topic_id in sorted(topic_ids) for n in range(partition_counts[topic_id])]


def _share_equally(shares: Shares, partitions: list[TopicIdPartition]) -> None:
    """Whoever already has more than the least share keeps one of the extra ones, as long as there are any."""
    least, extra = divmod(len(partitions), len(shares))
    quotas = {}
    for member_id in sorted(shares, key=lambda one: -len(shares[one])):
        quotas[member_id] = least + (extra > 0)
        extra -= extra > 0
    for member_id, share in shares.items():
        for surplus in sorted(share)[quotas[member_id] :]:
            share.discard(surplus)
    taken = set().union(*shares.values())
    free = iter([partition for partition in partitions if partition not in taken])
    for member_id, share in shares.items():
        while len(share) < quotas[member_id]:
            share.add(next(free))


def _subscribers(assignees: Assignees, shares: Shares) -> dict[bytes, list[str]]:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in shares:
        for topic_id in assignees[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers


def _hand_out(shares: Shares, subscribers: dict[bytes, list[str]], partition_counts: PartitionCounts) -> None:
    """Topics with the fewest subscribers first: they have the least choice."""
    taken = set().union(*shares.values())
    for topic_id in sorted(subscribers, key=lambda one: (len(subscribers[one]), one)):
        candidates = subscribers[topic_id]
        for partition in range(partition_counts[topic_id]):
            if (topic_id, partition) not in taken:
                shares[min(candidates, key=lambda one: len(shares[one]))].add((topic_id, partition))


def _level(shares: Shares, subscribers: dict[bytes, list[str]]) -> None:
    """Every move makes the sum of squared loads smaller, so this ends."""
    is_level = False
    while not is_level:
        is_level = True
        for topic_id in sorted(subscribers):
            while _move_one(shares, subscribers[topic_id], topic_id):
                is_level = False


def _move_one(shares: Shares, candidates: list[str], topic_id: bytes) -> bool:
    receiver = min(candidates, key=lambda one: len(shares[one]))
    for giver in sorted(candidates, key=lambda one: -len(shares[one])):
        if len(shares[giver]) <= len(shares[receiver]) + 1:
            return False
        moved = max((p for p in shares[giver] if p[0] == topic_id), default=None)
        if moved is not None:
            shares[giver].discard(moved)
            shares[receiver].add(moved)
            return True
    return False
