"""Members that still speak the classic protocol inside a consumer group (KIP-848's online migration).

They join, sync and send heartbeats as ever; their generation is their member epoch. Nobody leads: the coordinator
divides the work, and an error in a heartbeat sends a member back to join whenever there is a step for it to take.
"""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import Heartbeat, Join, JoinReply, LeavingMember, LeftMember, Sync, SyncReply
from ottla.core.groups.catalog import Catalog
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE
from ottla.core.groups.consumer_assignment import ConsumerAssignment
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.consumer_members import ConsumerMembers
from ottla.core.groups.consumer_protocol import ConsumerSubscription, read_subscription, with_ids, write_assignment
from ottla.core.groups.outcome import REJOIN, Due, Outcome, Surroundings
from ottla.core.groups.reconciliation import waits_for_others
from ottla.core.groups.records import ClassicMembership, MemberRecord, Subscription


class ClassicInConsumer:
    __slots__ = ("_around", "_assignment", "_catalog", "_members")

    def __init__(
        self, around: Surroundings, catalog: Catalog, assignment: ConsumerAssignment, members: ConsumerMembers
    ) -> None:
        self._around = around
        self._catalog = catalog
        self._assignment = assignment
        self._members = members

    def join(self, draft: Draft, ask: Join, out: Outcome) -> JoinReply:
        self._check_protocols(draft.group, ask)
        member_id = ask.member_id
        if not member_id:
            member_id = self._around.member_id(ask.group_instance_id or ask.client.id)
            if ask.group_instance_id is None and ask.requires_known_member_id:
                return JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        said = read_subscription(ask.protocols[0].metadata)
        if said is None:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._admit(draft, ask, member_id)
        if said.owned and member_id not in draft.group.members:
            # It was removed while it was silent, and what it still has may be with others by now.
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        is_changed = self._subscribe(draft, ask, member_id, said)
        self._assignment.bump(draft, is_changed)
        self._assignment.assign(draft, at_once=True)
        owned = with_ids(said.owned, self._catalog.ids)
        self._assignment.reconcile(draft, member_id, owned)
        self._members.keep(draft.group, member_id, False, out)
        self._expect_back(draft.group, member_id, out)
        return JoinReply(
            member_id=member_id,
            generation_id=draft.group.current(member_id).epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=ask.protocols[0].name,
        )

    def _check_protocols(self, group: ConsumerGroup, ask: Join) -> None:
        """Like Kafka before a member id is given out."""
        if ask.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        offered = {protocol.name for protocol in ask.protocols}
        for member_id, subscription in group.classic_members():
            assert subscription.classic is not None
            if member_id != ask.member_id:
                offered &= {protocol.name for protocol in subscription.classic.protocols}
        if not offered:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _admit(self, draft: Draft, ask: Join, member_id: str) -> None:
        group = draft.group
        if ask.group_instance_id is not None:
            owner = group.static_ids.get(ask.group_instance_id)
            if ask.member_id and owner is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if ask.member_id and owner != ask.member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID)
            if owner is not None and owner != member_id:
                self._members.replace_static(draft, owner, member_id)
                return
        if member_id not in group.members:
            self._members.check_room(group)

    def _subscribe(self, draft: Draft, ask: Join, member_id: str, said: ConsumerSubscription) -> bool:
        known = draft.group.members.get(member_id)
        subscription = Subscription(
            instance_id=ask.group_instance_id,
            rack_id=said.rack_id,
            client=ask.client,
            topic_names=tuple(sorted(set(said.topics))),
            topic_regex=None,
            rebalance_timeout_ms=ask.rebalance_timeout_ms,
            server_assignor=None,
            classic=ClassicMembership(ask.session_timeout_ms, ask.protocols),
        )
        if _without_owned(subscription) == _without_owned(known):
            return False
        draft.note(MemberRecord(draft.group.id, member_id, subscription))
        if known is not None:
            draft.drop_unused_pattern(known.topic_regex)
        return known is None or (known.topic_names, known.topic_regex) != (subscription.topic_names, None)

    def sync(self, group: ConsumerGroup, ask: Sync, out: Outcome) -> SyncReply:
        classic = self._check(group, ask.member_id, ask.group_instance_id, ask.generation_id)
        first = classic.protocols[0]
        if ask.protocol_type is not None and ask.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if ask.protocol_name is not None and ask.protocol_name != first.name:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._members.keep(group, ask.member_id, False, out)
        current = group.current(ask.member_id)
        if group.epoch > current.epoch and current.state != MemberState.UNREVOKED_PARTITIONS:
            self._expect_back(group, ask.member_id, out)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        self._around.deadlines.cancel(Due(REJOIN, group.id, ask.member_id))
        said = read_subscription(first.metadata)
        version = 0 if said is None else said.version
        assignment = write_assignment(current.assigned, self._catalog.names, version)
        return SyncReply(protocol_type=CONSUMER_PROTOCOL_TYPE, protocol_name=first.name, assignment=assignment)

    def heartbeat(self, group: ConsumerGroup, ask: Heartbeat, out: Outcome) -> None:
        self._check(group, ask.member_id, ask.group_instance_id, ask.generation_id)
        self._members.keep(group, ask.member_id, False, out)
        current = group.current(ask.member_id)
        is_behind = current.epoch < group.epoch or current.state == MemberState.UNREVOKED_PARTITIONS
        can_get_more = current.state == MemberState.UNRELEASED_PARTITIONS and not waits_for_others(group, ask.member_id)
        if is_behind or can_get_more:
            if self._around.deadlines.get(Due(REJOIN, group.id, ask.member_id)) is None:
                self._expect_back(group, ask.member_id, out)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, draft: Draft, leaving: tuple[LeavingMember, ...]) -> tuple[LeftMember, ...]:
        left = []
        gone = []
        for one in leaving:
            try:
                member_id = self._leaving_member(draft.group, one)
            except Refused as refusal:
                left.append(LeftMember(one.member_id, one.group_instance_id, refusal.code))
                continue
            left.append(LeftMember(one.member_id, one.group_instance_id))
            if member_id not in gone:
                gone.append(member_id)
        if gone:
            self._members.remove(draft, *gone)
        return tuple(left)

    def _leaving_member(self, group: ConsumerGroup, one: LeavingMember) -> str:
        """By the instance alone an administrator removes a static member, whichever protocol it speaks (KIP-345)."""
        if not one.member_id and one.group_instance_id is not None:
            owner = group.static_ids.get(one.group_instance_id)
            if owner is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            return owner
        check_identity(group, one.member_id, one.group_instance_id)
        return one.member_id

    def _check(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ClassicMembership:
        subscription = check_identity(group, member_id, instance_id)
        if subscription.classic is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation_id != group.current(member_id).epoch:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
        return subscription.classic

    def _expect_back(self, group: ConsumerGroup, member_id: str, out: Outcome) -> None:
        timeout_ms = max(group.members[member_id].rebalance_timeout_ms, 0)
        self._around.deadlines.set(Due(REJOIN, group.id, member_id), out.now_ms + timeout_ms)


def check_identity(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Subscription:
    if instance_id is not None:
        owner = group.static_ids.get(instance_id)
        if owner is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if owner != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
    subscription = group.members.get(member_id)
    if subscription is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    return subscription


def _without_owned(subscription: Subscription | None) -> object:
    """The bytes of the protocols hold what a member owns just now: that alone is no news for the log."""
    if subscription is None or subscription.classic is None:
        return subscription
    names = tuple(protocol.name for protocol in subscription.classic.protocols)
    return subscription._replace(classic=None), subscription.classic.session_timeout_ms, names
