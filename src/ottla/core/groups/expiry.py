"""When committed offsets have outlived their use (KIP-211).

A group that has members keeps its offsets, except those of topics it no longer subscribes to. One without members keeps
them for the retention time from the moment it became empty; a name under which somebody only commits, from the commit.
"""

from collections.abc import Callable

from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.records import CommittedOffset

IsExpired = Callable[[str, CommittedOffset], bool]


def expiry_of(group: ClassicGroup | ConsumerGroup | None, retention_ms: int, now_ms: int) -> IsExpired | None:
    """How to tell which offsets of a group (None: nobody ever joined) are expired; None if none can be."""
    if group is None:
        return lambda topic, committed: _is_over(committed, committed.commit_timestamp_ms, retention_ms, now_ms)
    if group.is_empty:
        since_ms = group.empty_since_ms if isinstance(group, ConsumerGroup) else group.state_since_ms
        return lambda topic, committed: _is_over(
            committed, max(since_ms, committed.commit_timestamp_ms), retention_ms, now_ms
        )
    if isinstance(group, ConsumerGroup):
        names = group.all_subscribed_names()
        return lambda topic, committed: (
            topic not in names and _is_over(committed, committed.commit_timestamp_ms, retention_ms, now_ms)
        )
    if group.subscribed is None:
        return None
    classic = group
    return lambda topic, committed: (
        not classic.is_subscribed_to(topic) and _is_over(committed, committed.commit_timestamp_ms, retention_ms, now_ms)
    )


def _is_over(committed: CommittedOffset, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
