"""`GroupShard`: the coordinator of all groups of one partition of `__consumer_offsets`.

Every question ends in a `Decision`. What the log keeps changes only in `apply`; what may die with the coordinator
(sessions, joins under way, waiting answers) changes when it is decided. The driver must append and apply the records of
one decision before it asks the next question.
"""

from collections.abc import Collection, Iterator, Mapping
from random import Random

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import asks, migration
from ottla.core.groups.administration import GroupOverview
from ottla.core.groups.asks import Decision, JoinReply, Reply, SyncReply, Topic
from ottla.core.groups.catalog import Catalog
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.classic_in_consumer import ClassicInConsumer
from ottla.core.groups.classic_join import ClassicJoin
from ottla.core.groups.classic_rebalance import ClassicRebalance
from ottla.core.groups.classic_session import ClassicSession
from ottla.core.groups.codec import decode
from ottla.core.groups.consumer_assignment import ConsumerAssignment
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.consumer_heartbeat import ConsumerSession, check_shape
from ottla.core.groups.consumer_members import ConsumerMembers
from ottla.core.groups.groups import Groups, check_group_id
from ottla.core.groups.offset_keeping import OffsetKeeping
from ottla.core.groups.outcome import EXPIRY, JOIN, REJOIN, REVOKE, SESSION, SYNC, Due, Outcome, Surroundings
from ottla.core.groups.records import Epoch, EpochRecord, GroupRecord, OffsetRecord, Record
from ottla.core.groups.settings import ConsumerTimes, GroupSettings

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
        "_keeping",
        "_members",
        "_overview",
        "_rebalance",
        "_session",
        "_settings",
    )

    def __init__(
        self, settings: GroupSettings, random: Random, own_times: Mapping[str, ConsumerTimes] | None = None
    ) -> None:
        """`own_times` is a table that the driver keeps: groups with settings of their own."""
        self._settings = settings
        self._around = Surroundings(settings, random, own_times)
        self._catalog = Catalog()
        self._groups = Groups()
        self._rebalance = ClassicRebalance(self._around)
        self._join = ClassicJoin(self._around, self._rebalance)
        self._session = ClassicSession(self._around, self._rebalance)
        self._keeping = OffsetKeeping(settings, self._groups, self._session)
        self._overview = GroupOverview(self._groups, settings.consumer_assignors[0])
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
        check_group_id(ask.group_id)
        group = self._groups.by_id.get(ask.group_id)
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            left = tuple(asks.LeftMember(one.member_id, one.group_instance_id, code) for one in ask.members)
        elif isinstance(group, ConsumerGroup):
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
            draft.note(EpochRecord(ask.group_id, Epoch(draft.group.epoch)))
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

    # Offsets

    def commit_offsets(self, ask: asks.OffsetCommit, now_ms: int) -> Decision:
        return self._keeping.commit(ask, now_ms)

    def fetch_offsets(self, ask: asks.OffsetFetch, now_ms: int) -> Decision:
        return self._keeping.fetch(ask)

    def delete_offsets(self, ask: asks.OffsetDelete, now_ms: int) -> Decision:
        return self._keeping.delete(ask)

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all that is committed; for the metric of lag."""
        return self._keeping.committed()

    # Administration

    def list_groups(self, states: Collection[str], types: Collection[str], now_ms: int) -> Decision:
        """Only those in one of the states and of one of the types; no states or types stands for all."""
        return Decision(reply=self._overview.listed(states, types))

    def describe_group(self, group_id: str, now_ms: int) -> Decision:
        return Decision(reply=self._overview.described(group_id, now_ms))

    def describe_consumer_group(self, group_id: str, now_ms: int) -> Decision:
        return Decision(reply=self._overview.described_consumers(group_id))

    def delete_group(self, group_id: str, now_ms: int) -> Decision:
        return self._keeping.delete_group(group_id, now_ms)

    # Topics and time

    def on_topics(self, topics: Mapping[str, Topic], now_ms: int) -> Decision:
        """The cluster's topics have changed. Offsets of deleted ones go; members hear of it at their next heartbeat."""
        gone = self._catalog.replace(topics)
        return Decision(tuple(self._keeping.tombstones_of_topics(gone)) if gone else ())

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
            self._around.deadlines.set(Due(EXPIRY), out.now_ms + self._settings.offsets_retention_check_interval_ms)
            self._keeping.expire(out)
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
