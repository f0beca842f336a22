"""`GroupShard`: the coordinator of all groups of one partition of `__consumer_offsets`.

Every question ends in a `Decision`. What the log keeps changes only in `apply`; what may die with the coordinator
(sessions, joins under way, waiting answers) changes when it is decided. The driver must append and apply the records of
one decision before it asks the next question.
"""

from collections.abc import Collection, Iterator, Mapping
from random import Random

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import administration, asks, migration
from ottla.core.groups.asks import Decision, JoinReply, Reply, SyncReply, Topic
from ottla.core.groups.catalog import Catalog
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.core.groups.classic_in_consumer import ClassicInConsumer, check_identity
from ottla.core.groups.classic_join import ClassicJoin
from ottla.core.groups.classic_rebalance import ClassicRebalance
from ottla.core.groups.classic_session import ClassicSession
from ottla.core.groups.codec import decode
from ottla.core.groups.consumer_assignment import ConsumerAssignment
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.consumer_heartbeat import ConsumerSession, check_shape
from ottla.core.groups.consumer_members import ConsumerMembers
from ottla.core.groups.expiry import expiry_of
from ottla.core.groups.groups import Groups, check_group_id
from ottla.core.groups.outcome import EXPIRY, JOIN, REJOIN, REVOKE, SESSION, SYNC, Due, Outcome, Surroundings
from ottla.core.groups.records import GroupRecord, OffsetRecord, Record
from ottla.core.groups.settings import GroupSettings

GENERATIONS_SKIPPED_MAX = 100_000
"""A member that joined a generation which was then forgotten must not be taken for one of a new generation. How far to
go is drawn, because the coordinator before may have been forgotten in the same way."""


class GroupShard:
    __slots__ = (
        "_around",
        "_assignment",
        "_catalog",
        "_classic_in_consumer",
        "_consumers",
        "_groups",
        "_join",
        "_members",
        "_rebalance",
        "_session",
        "_settings",
    )

    def __init__(self, settings: GroupSettings, random: Random) -> None:
        self._settings = settings
        self._around = Surroundings(settings, random)
        self._catalog = Catalog()
        self._groups = Groups()
        self._rebalance = ClassicRebalance(self._around)
        self._join = ClassicJoin(self._around, self._rebalance)
        self._session = ClassicSession(self._around, self._rebalance)
        self._assignment = ConsumerAssignment(self._around, self._catalog)
        self._members = ConsumerMembers(self._around, self._assignment)
        self._consumers = ConsumerSession(self._around, self._assignment, self._members)
        self._classic_in_consumer = ClassicInConsumer(self._around, self._catalog, self._assignment, self._members)

    # The classic protocol

    def join(self, ask: asks.Join, now_ms: int) -> Decision:
        check_group_id(ask.group_id)
        least_ms, most_ms = self._settings.group_min_session_timeout_ms, self._settings.group_max_session_timeout_ms
        if not least_ms <= ask.session_timeout_ms <= most_ms:
            raise Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
        out = Outcome(now_ms)
        consumers = self._groups.consumer(ask.group_id)
        if consumers is not None and not consumers.is_empty:
            draft = Draft(consumers, now_ms, out.records)
            return out.decision(self._classic_in_consumer.join(draft, ask, out))
        group = self._groups.classic(ask.group_id)
        if group is not None:
            return out.decision(self._join.join(group, ask, out))
        if ask.member_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        group = ClassicGroup(ask.group_id, now_ms)
        reply = self._join.join(group, ask, out)
        if consumers is not None:
            out.records[:0] = consumers.tombstones()
        self._groups.by_id[ask.group_id] = group
        return out.decision(reply)

    def sync(self, ask: asks.Sync, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        group = self._group_of_member(ask.group_id)
        if isinstance(group, ConsumerGroup):
            return out.decision(self._classic_in_consumer.sync(group, ask, out))
        return out.decision(self._session.sync(group, ask, out))

    def heartbeat(self, ask: asks.Heartbeat, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        group = self._group_of_member(ask.group_id)
        if isinstance(group, ConsumerGroup):
            self._classic_in_consumer.heartbeat(group, ask, out)
        else:
            self._session.heartbeat(group, ask, out)
        return out.decision()

    def leave(self, ask: asks.Leave, now_ms: int) -> Decision:
        out = Outcome(now_ms)
        group = self._group_of_member(ask.group_id)
        if isinstance(group, ConsumerGroup):
            draft = Draft(group, now_ms, out.records)
            left = self._classic_in_consumer.leave(draft, ask.members)
            self._downgrade_if_due(draft)
        else:
            left = self._session.leave(group, ask.members, out)
        return out.decision(asks.LeaveReply(left))

    def _group_of_member(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        check_group_id(group_id)
        group = self._groups.by_id.get(group_id)
        if group is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # The consumer protocol

    def consumer_heartbeat(self, ask: asks.ConsumerHeartbeat, now_ms: int) -> Decision:
        check_shape(ask, self._settings.consumer_assignors)
        check_group_id(ask.group_id, ErrorCode.INVALID_REQUEST)
        out = Outcome(now_ms)
        draft = self._consumer_draft(ask, out)
        if ask.member_epoch < asks.JOIN_EPOCH:
            reply = self._consumers.leave(draft, ask, out)
            self._downgrade_if_due(draft)
        else:
            reply = self._consumers.heartbeat(draft, ask, out)
            classic = self._groups.classic(ask.group_id)
            if classic is not None:
                # It becomes a consumer group with this decision; whoever waits has to join that one.
                self._rebalance.release_all(classic, ErrorCode.REBALANCE_IN_PROGRESS, out)
                self._members.start_all(draft.group, now_ms)
        return out.decision(reply)

    def _consumer_draft(self, ask: asks.ConsumerHeartbeat, out: Outcome) -> Draft:
        """The group to decide on: as it is, new, or made out of a classic one."""
        group = self._groups.by_id.get(ask.group_id)
        if isinstance(group, ConsumerGroup):
            return Draft(group, out.now_ms, out.records)
        if ask.member_epoch != asks.JOIN_EPOCH:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {ask.group_id} not found.")
        draft = Draft(ConsumerGroup(ask.group_id), out.now_ms, out.records)
        if group is None:
            return draft
        if not group.is_empty and not migration.can_upgrade(group, self._settings):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {ask.group_id} is not a consumer group.")
        out.records.append(GroupRecord(group.id, None))
        if not group.is_empty:
            migration.upgrade(group, self._catalog, draft)
        return draft

    def _downgrade_if_due(self, draft: Draft) -> None:
        group = draft.group
        if draft.records and migration.can_downgrade(group, self._settings):
            draft.records.extend(group.tombstones())
            draft.records.append(migration.downgrade(group, self._catalog, draft.now_ms))
            self._around.deadlines.set(Due(group.id), draft.now_ms)

    # Offsets

    def commit_offsets(self, ask: asks.OffsetCommit, now_ms: int) -> Decision:
        check_group_id(ask.group_id)
        out = Outcome(now_ms)
        self._check_commit(ask, out)
        records, errors = self._groups.offsets.commit(ask, self._settings.offset_metadata_max_bytes, now_ms)
        out.records.extend(records)
        return out.decision(asks.OffsetCommitReply(errors))

    def _check_commit(self, ask: asks.OffsetCommit, out: Outcome) -> None:
        group = self._groups.by_id.get(ask.group_id)
        epoch = ask.generation_id_or_member_epoch
        if isinstance(group, ClassicGroup):
            self._session.check_commit(group, ask, out)
        elif isinstance(group, ConsumerGroup):
            _check_consumer_commit(group, ask)
        elif epoch >= 0:
            # A member of a group that nobody knows.
            is_new = ask.api_version >= 9 and ask.producer_id < 0
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)

    def fetch_offsets(self, ask: asks.OffsetFetch, now_ms: int) -> Decision:
        group = self._groups.consumer(ask.group_id)
        if group is not None and (ask.member_id or ask.member_epoch >= 0):
            if ask.member_id not in group.members:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if group.current(ask.member_id or "").epoch != ask.member_epoch:
                raise Refused(ErrorCode.STALE_MEMBER_EPOCH)
        return Decision(reply=self._groups.offsets.fetch(ask))

    def delete_offsets(self, ask: asks.OffsetDelete, now_ms: int) -> Decision:
        check_group_id(ask.group_id)
        if not self._groups.exists(ask.group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._groups.by_id.get(ask.group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        errors = []
        records = []
        for topic, partition in ask.partitions:
            if group is not None and group.is_subscribed_to(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            if self._groups.offsets.get(ask.group_id, topic, partition) is not None:
                records.append(OffsetRecord(ask.group_id, topic, partition, None))
        return Decision(tuple(records), asks.OffsetDeleteReply(tuple(errors)))

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all that is committed; for the metric of lag."""
        for group_id in self._groups.offsets.groups():
            for topic, partition, committed in self._groups.offsets.of_group(group_id):
                yield group_id, topic, partition, committed.offset

    # Administration

    def list_groups(self, states: Collection[str], types: Collection[str], now_ms: int) -> Decision:
        wanted_states, wanted_types = {state.lower() for state in states}, {kind.lower() for kind in types}
        known = self._groups.by_id
        rows = [administration.listed(group) for group in known.values()]
        rows += [
            administration.listed_offsets_only(group_id)
            for group_id in self._groups.offsets.groups()
            if group_id not in known
        ]
        return Decision(reply=tuple(row for row in rows if administration.is_wanted(row, wanted_states, wanted_types)))

    def describe_group(self, group_id: str, now_ms: int) -> Decision:
        check_group_id(group_id)
        group = self._groups.by_id.get(group_id)
        if group is None and self._groups.offsets.has_any(group_id):
            group = ClassicGroup(group_id, now_ms)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return Decision(reply=administration.described(group))

    def describe_consumer_group(self, group_id: str, now_ms: int) -> Decision:
        check_group_id(group_id)
        group = self._groups.by_id.get(group_id)
        if group is None and not self._groups.exists(group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return Decision(reply=administration.described_consumers(group, self._settings.consumer_assignors[0]))

    def delete_group(self, group_id: str, now_ms: int) -> Decision:
        check_group_id(group_id)
        if not self._groups.exists(group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group = self._groups.by_id.get(group_id)
        if group is not None and not group.is_empty:
            raise Refused(ErrorCode.NON_EMPTY_GROUP)
        out = Outcome(now_ms)
        out.records.extend(self._groups.offsets.tombstones(group_id, even_open=True))
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

    # Topics and time

    def on_topics(self, topics: Mapping[str, Topic], now_ms: int) -> Decision:
        """The cluster's topics have changed. Offsets of deleted ones go; members hear of it at their next heartbeat."""
        gone = self._catalog.replace(topics)
        out = Outcome(now_ms)
        if gone:
            for group_id in list(self._groups.offsets.groups()):
                out.records.extend(
                    self._groups.offsets.tombstones(group_id, lambda topic, committed: topic in gone, even_open=True)
                )
        return out.decision()

    def next_deadline_ms(self) -> int | None:
        return self._around.deadlines.next_ms()

    def on_time(self, now_ms: int) -> Decision:
        """Everything that is due. Each deadline is decided on what the earlier ones have left in place, so a group
        with changes not yet applied waits for the next call."""
        out = Outcome(now_ms)
        touched: set[str] = set()
        for due in self._around.deadlines.due(now_ms):
            if due.group_id in touched:
                self._around.deadlines.set(due, now_ms + 1)
                continue
            count = len(out.records)
            self._on_due(due, out)
            if len(out.records) > count:
                touched.add(due.group_id)
        return out.decision()

    def _on_due(self, due: Due, out: Outcome) -> None:
        if due.kind == EXPIRY:
            self._expire(out)
            return
        group = self._groups.by_id.get(due.group_id)
        if isinstance(group, ConsumerGroup):
            self._on_consumer_due(group, due, out)
        elif isinstance(group, ClassicGroup):
            self._on_classic_due(group, due, out)

    def _on_classic_due(self, group: ClassicGroup, due: Due, out: Outcome) -> None:
        if due.kind == SESSION:
            self._session.on_session_deadline(group, due.member_id, out)
        elif due.kind == JOIN:
            self._rebalance.on_join_deadline(group, out)
        elif due.kind == SYNC:
            self._rebalance.on_sync_deadline(group, out)

    def _on_consumer_due(self, group: ConsumerGroup, due: Due, out: Outcome) -> None:
        subscription = group.members.get(due.member_id)
        if subscription is None:
            return
        is_over = (
            due.kind == SESSION
            or (due.kind == REJOIN and subscription.classic is not None)
            or (due.kind == REVOKE and group.current(due.member_id).state == MemberState.UNREVOKED_PARTITIONS)
        )
        if is_over:
            # Looked at again, in case the records do not make it into the log.
            self._around.deadlines.set(due, out.now_ms + self._members.session_timeout_ms(group, due.member_id))
            draft = Draft(group, out.now_ms, out.records)
            self._members.remove(draft, due.member_id)
            self._downgrade_if_due(draft)

    def _expire(self, out: Outcome) -> None:
        self._around.deadlines.set(Due(EXPIRY), out.now_ms + self._settings.offsets_retention_check_interval_ms)
        offsets = self._groups.offsets
        for group_id in dict.fromkeys([*self._groups.by_id, *offsets.groups()]):
            group = self._groups.by_id.get(group_id)
            is_expired = expiry_of(group, self._settings.offsets_retention_ms, out.now_ms)
            if is_expired is None:
                continue
            expired = offsets.tombstones(group_id, is_expired)
            out.records.extend(expired)
            is_bare = len(expired) == sum(1 for _ in offsets.of_group(group_id)) and not offsets.has_pending(group_id)
            if is_bare and group is not None and _is_abandoned(group):
                self._note_deletion(group_id, out)

    # The log

    def apply(self, record: Record, now_ms: int) -> None:
        """A record of a decision is in the log."""
        self._groups.apply(record, now_ms)
        if isinstance(record, GroupRecord) and record.value is not None:
            group = self._groups.classic(record.group_id)
            if group is not None and group.is_replayed:
                self._take_up(group, Outcome(now_ms))

    def load(self, key: bytes, value: bytes | None, written_ms: int, producer_id: int = -1) -> None:
        """A record that was in the log when this coordinator took over."""
        record = decode(key, value)
        if record is None:
            return
        if producer_id >= 0 and isinstance(record, OffsetRecord):
            record = record._replace(producer_id=producer_id)
        self._groups.apply(record, written_ms)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The marker that ends a producer's transaction is in the log."""
        self._groups.offsets.end_transaction(producer_id, committed)

    def loaded(self, now_ms: int) -> Decision:
        """The whole log has been loaded: everybody in it has a session to be heard from."""
        out = Outcome(now_ms)
        self._around.deadlines.set(Due(EXPIRY), now_ms + self._settings.offsets_retention_check_interval_ms)
        for group in list(self._groups.by_id.values()):
            if isinstance(group, ConsumerGroup):
                self._members.start_all(group, now_ms)
            else:
                self._take_up(group, out)
        return out.decision()

    def _take_up(self, group: ClassicGroup, out: Outcome) -> None:
        """Begin to coordinate a classic group that comes out of the log. Nobody waits yet, so nobody is answered."""
        if not group.is_replayed:
            return
        group.is_replayed = False
        group.generations_skipped = self._around.random.randrange(GENERATIONS_SKIPPED_MAX)
        for member in group.members.values():
            self._rebalance.start_session(group, member.id, member.session_timeout_ms, out)
        if group.members and (group.needs_rebalance or group.size > self._settings.group_max_size):
            self._rebalance.prepare(group, out)

    def resign(self) -> tuple[Reply, ...]:
        """Another node is the coordinator now: everybody who waits has to go there."""
        replies = []
        for group in self._groups.by_id.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    if member.join_ticket is not None:
                        replies.append(Reply(member.join_ticket, JoinReply(error=ErrorCode.NOT_COORDINATOR)))
                    if member.sync_ticket is not None:
                        replies.append(Reply(member.sync_ticket, SyncReply(error=ErrorCode.NOT_COORDINATOR)))
        return tuple(replies)


def _is_abandoned(group: ClassicGroup | ConsumerGroup) -> bool:
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending)


def _check_consumer_commit(group: ConsumerGroup, ask: asks.OffsetCommit) -> None:
    epoch = ask.generation_id_or_member_epoch
    is_identified = epoch >= 0 or bool(ask.member_id) or ask.group_instance_id is not None
    if not is_identified and (group.is_empty or ask.producer_id >= 0):
        return
    if epoch < 0 and group.is_empty:
        return
    subscription = check_identity(group, ask.member_id, ask.group_instance_id)
    if subscription.classic is None and ask.api_version < 9 and ask.producer_id < 0:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if epoch != group.current(ask.member_id).epoch:
        raise Refused(ErrorCode.STALE_MEMBER_EPOCH if subscription.classic is None else ErrorCode.ILLEGAL_GENERATION)
