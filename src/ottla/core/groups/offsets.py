"""The committed offsets of all groups of a shard, and those of open transactions.

An offset committed inside a transaction is set aside under its producer until the transaction ends; a reader that asks
for stable offsets is told to wait as long as such an offset is pending (KIP-447).
"""

from collections.abc import Callable, Iterator

from ottla.base.errors import ErrorCode
from ottla.base.types import ZERO_UUID
from ottla.core.groups.asks import FetchedOffset, OffsetCommit, OffsetFetch, OffsetFetchReply
from ottla.core.groups.records import CommittedOffset, OffsetRecord

Place = tuple[str, str, int]
"""Group, topic, partition."""

_NOTHING: dict[str, dict[int, CommittedOffset]] = {}


class Offsets:
    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending: dict[int, dict[Place, CommittedOffset]] = {}
        """By producer id: what its open transaction will commit."""
        self._open: dict[Place, int] = {}
        """How many open transactions touch a partition of a group."""

    # What there is

    def groups(self) -> Iterator[str]:
        return iter(self._committed)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed

    def has_pending(self, group_id: str) -> bool:
        return any(place[0] == group_id for place in self._open)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._committed.get(group_id, _NOTHING).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def topics(self) -> set[str]:
        return {topic for topics in self._committed.values() for topic in topics}

    def fetch(self, ask: OffsetFetch) -> OffsetFetchReply:
        topics = ask.topics
        if topics is None:
            own = self._committed.get(ask.group_id, _NOTHING)
            topics = tuple((topic, tuple(sorted(own[topic]))) for topic in sorted(own))
        return OffsetFetchReply(
            tuple((topic, tuple(self._fetched(ask, topic, number) for number in numbers)) for topic, numbers in topics)
        )

    def _fetched(self, ask: OffsetFetch, topic: str, partition: int) -> FetchedOffset:
        if ask.require_stable and (ask.group_id, topic, partition) in self._open:
            return FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.get(ask.group_id, topic, partition)
        if committed is None:
            return FetchedOffset(partition)
        return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)

    # Decisions

    def commit(
        self, ask: OffsetCommit, metadata_bytes_max: int, now_ms: int
    ) -> tuple[list[OffsetRecord], tuple[ErrorCode, ...]]:
        """Of a partition named twice the later offset counts, as it does in the log."""
        records = []
        errors = []
        expire_ms = now_ms + ask.retention_ms if ask.retention_ms >= 0 else -1
        for asked in ask.offsets:
            metadata = asked.metadata or ""
            if len(metadata.encode()) > metadata_bytes_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            committed = CommittedOffset(
                asked.offset, asked.leader_epoch, metadata, now_ms, expire_ms, asked.topic_id or ZERO_UUID
            )
            records.append(OffsetRecord(ask.group_id, asked.topic, asked.partition, committed, ask.producer_id))
        return records, tuple(errors)

    def tombstones(
        self,
        group_id: str,
        is_meant: Callable[[str, CommittedOffset], bool] = lambda topic, committed: True,
        even_open: bool = False,
    ) -> list[OffsetRecord]:
        """What removes the offsets that are meant; of partitions in open transactions only if asked to."""
        return [
            OffsetRecord(group_id, topic, partition, None)
            for topic, partition, committed in self.of_group(group_id)
            if (even_open or (group_id, topic, partition) not in self._open) and is_meant(topic, committed)
        ]

    # The log

    def apply(self, record: OffsetRecord) -> None:
        place = (record.group_id, record.topic, record.partition)
        if record.producer_id >= 0:
            if record.value is not None:
                pending = self._pending.setdefault(record.producer_id, {})
                if place not in pending:
                    self._open[place] = self._open.get(place, 0) + 1
                pending[place] = record.value
        elif record.value is None:
            self._remove(place)
        else:
            self._put(place, record.value)

    def end_transaction(self, producer_id: int, committed: bool) -> tuple[str, ...]:
        """The transaction's marker is in the log; returns the groups it touched."""
        pending = self._pending.pop(producer_id, {})
        for place, value in pending.items():
            left = self._open[place] - 1
            if left:
                self._open[place] = left
            else:
                del self._open[place]
            if committed:
                self._put(place, value)
        return tuple(dict.fromkeys(place[0] for place in pending))

    def _put(self, place: Place, value: CommittedOffset) -> None:
        group_id, topic, partition = place
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = value

    def _remove(self, place: Place) -> None:
        group_id, topic, partition = place
        topics = self._committed.get(group_id)
        if topics is None or topic not in topics:
            return
        topics[topic].pop(partition, None)
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._committed[group_id]
