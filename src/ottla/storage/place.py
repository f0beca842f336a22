"""Where a partition's log lies, and what is known of it before it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.base.types import TopicPartition
from ottla.core.producers.table import PRODUCER_ID_EXPIRATION_MS


@dataclass(frozen=True, slots=True)
class LogPlace:
    directory: Path
    """The log directory; the partition's own directory lies in it."""
    topic: str
    partition: int

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class LogStart:
    """What the log directory's checkpoints say. Not clean: what was not forced to disk is suspect."""

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
