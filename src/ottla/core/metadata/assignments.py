"""The checks of replica assignments given by hand, and what a new partition starts with."""

from collections.abc import Sequence

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import Assignment
from ottla.core.metadata.entries import NO_LEADER, UNASSIGNED_DIRECTORY
from ottla.core.metadata.image import ClusterImage
from ottla.core.metadata.records import PartitionRecord

_BAD = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def checked_assignments(image: ClusterImage, assignments: Sequence[Assignment]) -> list[tuple[int, ...]]:
    """The replicas by partition, if the partitions are 0, 1, 2, … and each has the same number of real brokers."""
    by_partition: dict[int, tuple[int, ...]] = {}
    for assignment in assignments:
        if assignment.partition in by_partition:
            raise Refused(_BAD, f"Found multiple manual partition assignments for partition {assignment.partition}")
        by_partition[assignment.partition] = assignment.replicas
    ordered = sorted(by_partition)
    if ordered != list(range(len(ordered))):
        raise Refused(_BAD, "partitions should be a consecutive 0-based integer sequence")
    replicas = [by_partition[index] for index in ordered]
    for one in replicas:
        check_replicas(image, one, len(replicas[0]))
    return replicas


def check_replicas(image: ClusterImage, replicas: tuple[int, ...], factor: int) -> None:
    if not replicas:
        raise Refused(_BAD, "The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for broker in replicas:
        if broker in seen:
            raise Refused(_BAD, f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in image.brokers:
            raise Refused(
                _BAD,
                f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
            )
        seen.add(broker)
    if len(replicas) != factor:
        raise Refused(
            _BAD,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s).",
        )


def new_partition(image: ClusterImage, topic_id: bytes, index: int, replicas: tuple[int, ...]) -> PartitionRecord:
    """The first record of a partition: its usable replicas are in sync, and the first of them leads."""
    in_sync = [broker for broker in replicas if image.brokers[broker].is_usable]
    if not in_sync:
        raise Refused(
            _BAD,
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown.",
        )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=in_sync,
        leader=in_sync[0] if in_sync else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        directories=[_directory(image, broker) for broker in replicas],
    )


def _directory(image: ClusterImage, broker: int) -> bytes:
    """A broker with one directory has no choice; otherwise it says later where it put the replica (KIP-858)."""
    directories = image.brokers[broker].log_dirs
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
