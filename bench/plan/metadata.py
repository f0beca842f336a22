"""What very many partitions weigh: records, snapshots, images, files, and fetches that name them all."""

from dataclasses import dataclass

from bench.plan.costs import Costs

POLL_SECONDS = 0.5
"""A follower with nothing to fetch asks again so often (`replica.fetch.wait.max.ms`)."""
FACTOR = 3


@dataclass(frozen=True)
class Weight:
    partitions: int
    nodes: int
    hosted: float
    """Replicas per node."""
    snapshot_mb: float
    image_mb: float
    load_s: float
    """From the snapshot to the image, at the start of every node."""
    open_s: float
    """Logs that a node opens at its start, after a clean stop."""
    copy_ms: float
    """The loop stands still so long for every snapshot."""
    answer_mb: float
    answer_ms: float
    """Metadata of everything, for one client."""
    node_mb: float
    idle_share: float
    """Of each loop, for fetches between followers that find nothing."""


def weigh(costs: Costs, partitions: int, nodes: int) -> Weight:
    hosted = partitions * FACTOR / nodes
    return Weight(
        partitions=partitions,
        nodes=nodes,
        hosted=hosted,
        snapshot_mb=partitions * costs["snapshot_partition_bytes"] / 1e6,
        image_mb=partitions * costs["image_partition_bytes"] / 1e6,
        load_s=partitions * costs["snapshot_load_us"] / 1e6,
        open_s=hosted * costs["restart_partition_ms"] / 1e3,
        copy_ms=partitions * costs["copy_us"] / 1e3,
        answer_mb=partitions * costs["metadata_partition_bytes"] / 1e6,
        answer_ms=partitions * costs["metadata_partition_us"] / 1e3,
        node_mb=costs["idle_mb"]
        + hosted * costs["partition_kb"] / 1e3
        + partitions * costs["image_partition_bytes"] / 1e6,
        idle_share=idle_share(costs, partitions, nodes),
    )


def idle_share(costs: Costs, partitions: int, nodes: int) -> float:
    """A node asks every other node twice a second and is asked as often, for all they share, whatever happens there."""
    followed = partitions * (FACTOR - 1) / nodes
    each_us = costs["fetch_partition_us"] * 2 + costs["follow_partition_us"]
    # Looked at twice by the leader: when the fetch comes, and again when its time is over.
    return followed * each_us / 1e6 / POLL_SECONDS + (nodes - 1) * 2 * costs["fetch_us"] / 1e6 / POLL_SECONDS


def group_load_seconds(costs: Costs, groups: int, offsets_each: int, shards: int, nodes: int) -> float:
    """For a node that takes over all offsets partitions of a node that has gone."""
    records = groups * (offsets_each + 1)
    return records * costs["group_load_us"] / 1e6 / min(shards, nodes)
