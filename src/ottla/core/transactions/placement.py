"""Which partition of `__transaction_state` a group commit belongs to.

That of a transactional id is found by the same hash of the id alone, as in Kafka.
"""

from ottla.core.groups.placement import partition_for


def commit_partition_for(sink: str, query: str, partition_count: int) -> int:
    return partition_for(f"{sink}\x00{query}", partition_count)
