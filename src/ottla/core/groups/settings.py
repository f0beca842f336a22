"""The settings of the group coordinator, under the names of Kafka's own settings."""

from dataclasses import dataclass
from typing import NamedTuple

_MINUTE_MS = 60_000


ALL_GROUPS = ""
"""No group's name: in a table by group, what counts for those that are not in it."""


class ConsumerTimes(NamedTuple):
    """What a consumer group may have of its own."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """One field per Kafka setting, its comment names the setting."""

    group_initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    group_min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    group_max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    group_max_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_bytes: int = 4096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 10_080 * _MINUTE_MS  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS  # offsets.retention.check.interval.ms
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_max_size: int = 2**31 - 1  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors; the first is the default
    consumer_assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms (KIP-1263)
    consumer_can_upgrade: bool = True  # group.consumer.migration.policy: bidirectional or upgrade
    consumer_can_downgrade: bool = True  # group.consumer.migration.policy: bidirectional or downgrade

    @property
    def consumer_times(self) -> "ConsumerTimes":
        """Those of a group that has no settings of its own."""
        return ConsumerTimes(
            self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms, self.consumer_assignment_interval_ms
        )

    def __post_init__(self) -> None:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError("group.min.session.timeout.ms must not exceed group.max.session.timeout.ms")
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise ValueError("group.consumer.heartbeat.interval.ms must be below group.consumer.session.timeout.ms")
