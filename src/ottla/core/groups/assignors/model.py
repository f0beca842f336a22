"""What an assignor is given and gives back."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.core.groups.records import Partitions


class Assignee(NamedTuple):
    instance_id: str | None
    topic_ids: frozenset[bytes]
    """The topics it is subscribed to, only those that exist."""
    assigned: Partitions
    """Its target so far."""


Assignees = Mapping[str, Assignee]
"""By member id."""

PartitionCounts = Mapping[bytes, int]
"""By topic id."""

Assignor = Callable[[Assignees, PartitionCounts], dict[str, Partitions]]


def in_order(assignees: Assignees) -> list[str]:
    """Static members keep their place by the name of their instance, the others by their member id."""
    return sorted(
        assignees,
        key=lambda member_id: (assignees[member_id].instance_id is None, assignees[member_id].instance_id or member_id),
    )
