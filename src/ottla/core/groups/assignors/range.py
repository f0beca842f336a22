"""The `range` assignor: of each topic every subscriber gets one run of neighbouring partitions.

Members stand in the same order for every topic, so topics of equal size are split alike and can be joined by key.
"""

from ottla.core.groups.assignors.model import Assignees, PartitionCounts, in_order
from ottla.core.groups.records import Partitions, TopicIdPartition


def assign_ranges(assignees: Assignees, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    members = in_order(assignees)
    subscribers: dict[bytes, list[str]] = {}
    for member_id in members:
        for topic_id in assignees[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for topic_id, candidates in subscribers.items():
        share, extra = divmod(partition_counts[topic_id], len(candidates))
        start = 0
        for index, member_id in enumerate(candidates):
            end = start + share + (index < extra)
            assigned[member_id].extend((topic_id, partition) for partition in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
