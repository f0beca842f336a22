"""The settings of the transaction coordinator, under the names of Kafka's own settings."""

from dataclasses import dataclass

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """One field per Kafka setting, its comment names the setting."""

    timeout_ms_max: int = 900_000  # transaction.max.timeout.ms
    has_two_phase_commit: bool = False  # transaction.two.phase.commit.enable
    id_expiration_ms: int = 7 * 24 * _HOUR_MS  # transactional.id.expiration.ms
    id_expiration_check_interval_ms: int = _HOUR_MS
    # transaction.remove.expired.transaction.cleanup.interval.ms
    add_partitions_wait_ms_max: int = 100  # add.partitions.to.txn.retry.backoff.max.ms
    marker_resend_ms: int = 10_000
    """Markers nobody has reported as written are asked for again; Kafka's sender has no such setting."""

    def __post_init__(self) -> None:
        if min(self.timeout_ms_max, self.id_expiration_ms, self.id_expiration_check_interval_ms) < 1:
            raise ValueError("transaction.max.timeout.ms and the expiration of transactional ids must be positive")
        if self.marker_resend_ms < 1 or self.add_partitions_wait_ms_max < 0:
            raise ValueError("what the coordinator waits for needs a time that is not negative")
