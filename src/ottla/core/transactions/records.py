"""The records of `__transaction_state`, as the core names them; a value of None is a tombstone.

`ottla.core.transactions.codec` turns them into Kafka's bytes and back.
"""

from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
LAST_USABLE_EPOCH = EPOCH_MAX - 1
"""A producer never gets the highest epoch, so that there is always one left to fence it with."""
NO_TIMEOUT_MS = 2**31 - 1
"""Of transactions that wait for an outside verdict (KIP-939)."""
EPOCH_BUMP_VERSION = 2
"""From this transaction version on every end of a transaction begins a new epoch (KIP-890)."""

TopicPartition = tuple[str, int]
NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class Status(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Transaction(NamedTuple):
    """All that is known of one transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    updated_ms: int = -1
    started_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_epoch: int = NO_EPOCH
    client_version: int = 0
    last_epoch: int = NO_EPOCH
    """The producer's epoch before this one, if it may ask again with it. Kafka's format has no place for it."""

    @property
    def is_kept(self) -> bool:
        """An open transaction whose producer has come back under a new identity, to end it and nothing else."""
        return self.status is Status.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def identity(self) -> Identity:
        """Whom the coordinator listens to, now or once the transaction is over."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Identity(self.next_producer_id, max(self.next_epoch, 0))
        return Identity(self.producer_id, self.epoch)

    @property
    def deadline_ms(self) -> int | None:
        if self.status is not Status.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.started_ms + self.timeout_ms


class TransactionRecord(NamedTuple):
    transactional_id: str
    value: Transaction | None
    version: int = 1
    """Of the format; 0 while the cluster's transaction.version is 0."""


class Member(NamedTuple):
    """One producer of a group commit, with the epoch in which it has written."""

    transactional_id: str
    producer_id: int
    epoch: int


class GroupOffset(NamedTuple):
    group_id: str
    topic: str
    partition: int
    offset: int


class GroupDecision(NamedTuple):
    """The one record by which all members and offsets of a batch are committed."""

    batch: int
    digest: bytes
    attempt: int
    members: tuple[Member, ...] = ()
    offsets: tuple[GroupOffset, ...] = ()
    """Members and offsets are those that have yet to hear of it."""


class DecisionRecord(NamedTuple):
    sink: str
    query: str
    value: GroupDecision | None


class Pin(NamedTuple):
    """A member's promise to end its transaction as the group's decision says, and not otherwise."""

    sink: str
    query: str
    batch: int
    attempt: int
    producer_id: int
    epoch: int


class PinRecord(NamedTuple):
    transactional_id: str
    value: Pin | None


Record = TransactionRecord | DecisionRecord | PinRecord
