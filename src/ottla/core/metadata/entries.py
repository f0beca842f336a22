"""The entries of the cluster image: immutable rows, one per topic partition and per broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.types import ZERO_UUID
from ottla.core.metadata.asks import Endpoint
from ottla.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

NO_LEADER = -1
LEADER_UNCHANGED = -2
UNASSIGNED_DIRECTORY = ZERO_UUID
"""The broker has not said yet in which of its directories the replica lies (KIP-858)."""


class PartitionImage(NamedTuple):
    """One partition; `elr` are replicas out of the ISR that still hold everything acknowledged (KIP-966)."""

    index: int  # type: ignore[assignment]  # no one asks a partition for tuple.index
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovering: bool = False

    @classmethod
    def missing(cls, index: int) -> "PartitionImage":
        """Stands in until its record has been read."""
        return cls(index, (), (), NO_LEADER, -1, -1, ())

    @classmethod
    def of(cls, record: PartitionRecord) -> "PartitionImage":
        replicas = tuple(record.replicas)
        return cls(
            record.partition_id,
            replicas,
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.directories) or (UNASSIGNED_DIRECTORY,) * len(replicas),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            record.leader_recovery_state == 1,
        )

    def changed(self, record: PartitionChangeRecord) -> "PartitionImage":
        """A new leader, even the same one again, starts a new leader epoch; any change a new partition epoch."""
        led = record.leader != LEADER_UNCHANGED
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        return PartitionImage(
            self.index,
            replicas,
            self.isr if record.isr is None else tuple(record.isr),
            record.leader if led else self.leader,
            self.leader_epoch + 1 if led else self.leader_epoch,
            self.partition_epoch + 1,
            self._directories_for(replicas) if record.directories is None else tuple(record.directories),
            self.removing if record.removing_replicas is None else tuple(record.removing_replicas),
            self.adding if record.adding_replicas is None else tuple(record.adding_replicas),
            self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
            self.recovering if record.leader_recovery_state == -1 else record.leader_recovery_state == 1,
        )

    def _directories_for(self, replicas: tuple[int, ...]) -> tuple[bytes, ...]:
        if replicas == self.replicas:
            return self.directories
        known = dict(zip(self.replicas, self.directories, strict=False))
        return tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in replicas)

    def record(self, topic_id: bytes) -> PartitionRecord:
        return PartitionRecord(
            partition_id=self.index,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=int(self.recovering),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )


@dataclass(slots=True)
class TopicImage:
    """`partitions[i]` is partition i. The list grows as records are applied; only the image changes it."""

    name: str
    id: bytes
    partitions: list[PartitionImage] = field(default_factory=list)

    def copy(self) -> "TopicImage":
        return TopicImage(self.name, self.id, list(self.partitions))


class BrokerImage(NamedTuple):
    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] = ()

    @property
    def is_usable(self) -> bool:
        """May lead, and may be given new replicas."""
        return not self.fenced and not self.in_controlled_shutdown

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> "BrokerImage":
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            tuple(record.cordoned_log_dirs or ()),
        )

    def changed(self, record: BrokerRegistrationChangeRecord) -> "BrokerImage":
        """In the record 1 sets a flag, -1 clears it, 0 leaves it."""
        return self._replace(
            fenced=record.fenced == 1 if record.fenced else self.fenced,
            in_controlled_shutdown=(
                record.in_controlled_shutdown == 1 if record.in_controlled_shutdown else self.in_controlled_shutdown
            ),
            log_dirs=tuple(record.log_dirs) or self.log_dirs,
            cordoned_log_dirs=(
                self.cordoned_log_dirs if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
            ),
        )
