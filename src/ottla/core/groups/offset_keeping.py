"""Committing, fetching and forgetting offsets: who may do it, and what else goes with them."""

from collections.abc import Collection, Iterator

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import asks
from ottla.core.groups.asks import Decision
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.core.groups.classic_in_consumer import check_identity
from ottla.core.groups.classic_session import ClassicSession
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.expiry import expiry_of
from ottla.core.groups.groups import Groups, check_group_id, check_size
from ottla.core.groups.outcome import Outcome
from ottla.core.groups.records import GroupRecord, OffsetRecord
from ottla.core.groups.settings import GroupSettings

_DECIDED_METADATA_BYTES_MAX = 4096


class OffsetKeeping:
    __slots__ = ("_groups", "_offsets", "_session", "_settings")

    def __init__(self, settings: GroupSettings, groups: Groups, session: ClassicSession) -> None:
        self._settings = settings
        self._groups = groups
        self._offsets = groups.offsets
        self._session = session

    def commit(self, ask: asks.OffsetCommit, now_ms: int) -> Decision:
        """The empty group id stands for a group here, as it did before Kafka refused to let anybody join it."""
        check_size(ask.group_id)
        out = Outcome(now_ms)
        bytes_max = _DECIDED_METADATA_BYTES_MAX
        if not ask.is_decided:
            bytes_max = self._settings.offset_metadata_max_bytes
            self._check_commit(ask, out)
        records, errors = self._offsets.commit(ask, bytes_max, now_ms)
        out.records.extend(records)
        return out.decision(asks.OffsetCommitReply(errors))

    def _check_commit(self, ask: asks.OffsetCommit, out: Outcome) -> None:
        group = self._groups.by_id.get(ask.group_id)
        epoch = ask.generation_id_or_member_epoch
        if isinstance(group, ClassicGroup):
            self._session.check_commit(group, ask, out)
        elif isinstance(group, ConsumerGroup):
            _check_consumer_commit(group, ask)
        elif epoch >= 0 and self._offsets.has_any(ask.group_id):
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        elif epoch >= 0:
            # A member of a group that nobody knows.
            is_new = ask.api_version >= 9 and ask.producer_id < 0
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)

    def fetch(self, ask: asks.OffsetFetch) -> Decision:
        group = self._groups.consumer(ask.group_id)
        if group is not None and (ask.member_id or ask.member_epoch >= 0):
            if ask.member_id not in group.members:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if group.current(ask.member_id or "").epoch != ask.member_epoch:
                raise Refused(ErrorCode.STALE_MEMBER_EPOCH)
        return Decision(reply=self._offsets.fetch(ask))

    def delete(self, ask: asks.OffsetDelete) -> Decision:
        check_group_id(ask.group_id)
        if not self._groups.exists(ask.group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._groups.by_id.get(ask.group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        errors = []
        records: list[OffsetRecord] = []
        for topic, partition in ask.partitions:
            if group is not None and group.is_subscribed_to(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            records += self._offsets.removal(ask.group_id, topic, partition)
        return Decision(tuple(records), asks.OffsetDeleteReply(tuple(errors)))

    def committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all that is committed; for the metric of lag."""
        for group_id in self._offsets.groups():
            for topic, partition, committed in self._offsets.of_group(group_id):
                yield group_id, topic, partition, committed.offset

    # Forgetting

    def delete_group(self, group_id: str, now_ms: int) -> Decision:
        if not self._groups.exists(group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group = self._groups.by_id.get(group_id)
        if group is not None and not group.is_empty:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        out = Outcome(now_ms)
        out.records.extend(self._offsets.tombstones(group_id))
        self._note_deletion(group_id, out)
        return out.decision()

    def _note_deletion(self, group_id: str, out: Outcome) -> None:
        """A group that never reached the log is just forgotten."""
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            out.records.extend(group.tombstones())
        elif isinstance(group, ClassicGroup):
            if group.is_persisted:
                out.records.append(GroupRecord(group_id, None))
            else:
                del self._groups.by_id[group_id]

    def tombstones_of_topics(self, names: Collection[str]) -> list[OffsetRecord]:
        """What removes all offsets of topics that are no more."""
        records: list[OffsetRecord] = []
        for group_id in self._offsets.groups():
            records += self._offsets.tombstones(group_id, lambda topic: topic in names)
        return records

    def expire(self, out: Outcome) -> None:
        """Note what has outlived its use: offsets, then groups that nobody is in and that keep none."""
        offsets = self._offsets
        for group_id in dict.fromkeys([*self._groups.by_id, *offsets.groups()]):
            group = self._groups.by_id.get(group_id)
            is_expired = expiry_of(group, self._settings.offsets_retention_ms, out.now_ms)
            if is_expired is None:
                continue
            expired = offsets.expired(group_id, is_expired)
            out.records.extend(expired)
            is_bare = len(expired) == sum(1 for _ in offsets.of_group(group_id)) and not offsets.has_pending(group_id)
            if is_bare and group is not None and _is_abandoned(group):
                self._note_deletion(group_id, out)


def _is_abandoned(group: ClassicGroup | ConsumerGroup) -> bool:
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending)


def _check_consumer_commit(group: ConsumerGroup, ask: asks.OffsetCommit) -> None:
    epoch = ask.generation_id_or_member_epoch
    is_identified = epoch >= 0 or bool(ask.member_id) or ask.group_instance_id is not None
    if not is_identified and (group.is_empty or ask.producer_id >= 0):
        return
    if epoch < 0 and group.is_empty:
        return
    is_transactional = ask.producer_id >= 0
    subscription = check_identity(group, ask.member_id, None if is_transactional else ask.group_instance_id)
    if subscription.classic is None and ask.api_version < 9 and not is_transactional:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if epoch != group.current(ask.member_id).epoch:
        # TxnOffsetCommit has no word for the epochs of the new protocol.
        is_new = subscription.classic is None and not is_transactional
        raise Refused(ErrorCode.STALE_MEMBER_EPOCH if is_new else ErrorCode.ILLEGAL_GENERATION)
