"""The committed offsets of all groups of a shard, and those of open transactions.

An offset committed inside a transaction is set aside under its producer until the transaction ends; a reader that asks
for stable offsets is told to wait as long as such an offset is pending (KIP-447). Of all that is committed for a
partition the one that came last counts, whenever its transaction ended: it is the one that compaction leaves.
"""

from collections.abc import Callable, Iterator

from ottla.base.errors import ErrorCode
from ottla.base.types import ZERO_UUID
from ottla.core.groups.asks import FetchedOffset, OffsetCommit, OffsetFetch, OffsetFetchReply
from ottla.core.groups.records import CommittedOffset, OffsetRecord

Place = tuple[str, str, int]
"""Group, topic, partition."""

_NOTHING: dict[str, dict[int, CommittedOffset]] = {}


class _Contested:
    """A partition of a group that open transactions have offsets for."""

    __slots__ = ("newest", "producers")

    def __init__(self) -> None:
        self.producers: set[int] = set()
        self.newest = 0
        """The number of the last commit that counts."""


class Offsets:
    __slots__ = ("_commits", "_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending: dict[int, dict[Place, tuple[int, CommittedOffset]]] = {}
        """By producer id: what its open transaction will commit, each with its number."""
        self._open: dict[str, dict[tuple[str, int], _Contested]] = {}
        """By group: the partitions that open transactions touch."""
        self._commits = 0

    # What there is

    def groups(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._committed, *self._open]))

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

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
        if ask.require_stable and self._contested(ask.group_id, topic, partition) is not None:
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

    def expired(self, group_id: str, is_expired: Callable[[str, CommittedOffset], bool]) -> list[OffsetRecord]:
        """What removes the offsets that are expired, but for those that open transactions touch."""
        return [
            OffsetRecord(group_id, topic, partition, None)
            for topic, partition, committed in self.of_group(group_id)
            if self._contested(group_id, topic, partition) is None and is_expired(topic, committed)
        ]

    def tombstones(self, group_id: str, is_meant: Callable[[str], bool] = lambda topic: True) -> list[OffsetRecord]:
        """What removes all offsets of the topics that are meant, also those that open transactions would commit."""
        places = [(topic, partition) for topic, partition, _ in self.of_group(group_id)]
        places = [*dict.fromkeys([*places, *self._open.get(group_id, ())])]
        return [OffsetRecord(group_id, topic, partition, None) for topic, partition in places if is_meant(topic)]

    def removal(self, group_id: str, topic: str, partition: int) -> list[OffsetRecord]:
        """What removes the offset of one partition, if there is one or an open transaction would commit one."""
        is_there = self.get(group_id, topic, partition) or self._contested(group_id, topic, partition)
        return [OffsetRecord(group_id, topic, partition, None)] if is_there else []

    # The log

    def apply(self, record: OffsetRecord) -> None:
        place = (record.group_id, record.topic, record.partition)
        if record.value is None:
            if record.producer_id < 0:
                self._remove(place)
            return
        self._commits += 1
        if record.producer_id >= 0:
            self._pending.setdefault(record.producer_id, {})[place] = self._commits, record.value
            self._open.setdefault(place[0], {}).setdefault(place[1:], _Contested()).producers.add(record.producer_id)
            return
        self._put(place, record.value)
        contested = self._contested(*place)
        if contested is not None:
            contested.newest = self._commits

    def end_transaction(self, producer_id: int, committed: bool) -> tuple[str, ...]:
        """The transaction's marker is in the log; returns the groups it touched."""
        pending = self._pending.pop(producer_id, {})
        for place, (number, value) in pending.items():
            contested = self._open[place[0]][place[1:]]
            if committed and number > contested.newest:
                contested.newest = number
                self._put(place, value)
            contested.producers.discard(producer_id)
            if not contested.producers:
                self._settle(place)
        return tuple(dict.fromkeys(place[0] for place in pending))

    def _contested(self, group_id: str, topic: str, partition: int) -> _Contested | None:
        return self._open[group_id].get((topic, partition)) if group_id in self._open else None

    def _settle(self, place: Place) -> None:
        """No open transaction has an offset for it any more."""
        places = self._open[place[0]]
        del places[place[1:]]
        if not places:
            del self._open[place[0]]

    def _put(self, place: Place, value: CommittedOffset) -> None:
        group_id, topic, partition = place
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = value

    def _remove(self, place: Place) -> None:
        group_id, topic, partition = place
        contested = self._contested(group_id, topic, partition)
        if contested is not None:
            for producer_id in contested.producers:
                pending = self._pending[producer_id]
                del pending[place]
                if not pending:
                    del self._pending[producer_id]
            self._settle(place)
        topics = self._committed.get(group_id)
        if topics is None or topic not in topics:
            return
        topics[topic].pop(partition, None)
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._committed[group_id]
