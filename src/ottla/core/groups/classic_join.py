"""JoinGroup of the classic protocol."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import Join, JoinReply, Waiting
from ottla.core.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from ottla.core.groups.classic_rebalance import ClassicRebalance
from ottla.core.groups.consumer_protocol import owes_another_join, subscribed_topics
from ottla.core.groups.outcome import SESSION, Due, Outcome, Surroundings
from ottla.core.groups.records import GroupRecord


class ClassicJoin:
    __slots__ = ("_around", "_rebalance")

    def __init__(self, around: Surroundings, rebalance: ClassicRebalance) -> None:
        self._around = around
        self._rebalance = rebalance

    def join(self, group: ClassicGroup, ask: Join, out: Outcome) -> Waiting | JoinReply:
        self._check_room(group, ask.member_id)
        if not group.supports(ask.protocol_type, ask.protocols):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not ask.member_id:
            return self._join_unknown(group, ask, out)
        if ask.member_id in group.pending:
            if ask.group_instance_id is not None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)  # a pending id is never given to a static member
            return self._join_new(group, ask, ask.member_id, out)
        return self._rejoin(group, group.check_member(ask.member_id, ask.group_instance_id), ask, out)

    def _check_room(self, group: ClassicGroup, member_id: str) -> None:
        if group.state is ClassicState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            if member is not None and member.join_ticket is not None:
                return
            count = sum(1 for other in group.members.values() if other.join_ticket is not None)
        else:
            if member_id in group.members:
                return
            count = group.size
        if count >= self._around.settings.group_max_size:
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _join_unknown(self, group: ClassicGroup, ask: Join, out: Outcome) -> Waiting | JoinReply:
        member_id = self._around.member_id(ask.group_instance_id or ask.client.id)
        if ask.group_instance_id is not None:
            known = group.static_ids.get(ask.group_instance_id)
            if known is not None:
                return self._replace_static(group, group.members[known], member_id, ask, out)
        elif ask.requires_known_member_id:
            group.pending.add(member_id)
            self._around.deadlines.set(Due(SESSION, group.id, member_id), out.now_ms + ask.session_timeout_ms)
            return JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return self._join_new(group, ask, member_id, out)

    def _join_new(self, group: ClassicGroup, ask: Join, member_id: str, out: Outcome) -> Waiting:
        member = ClassicMember(member_id, ask.group_instance_id, ask.client)
        member.take(ask)
        member.join_ticket = self._around.ticket()
        waiting = Waiting(member.join_ticket)
        self._rebalance.add(group, member, ask.protocol_type, out)
        return waiting

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, ask: Join, out: Outcome) -> Waiting | JoinReply:
        """A member that has nothing new to say and missed only an answer gets that answer again."""
        is_unchanged = member.protocols == ask.protocols
        if group.state is ClassicState.EMPTY:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is ClassicState.COMPLETING_REBALANCE and is_unchanged:
            return group.join_reply(member)
        if group.state is ClassicState.STABLE and is_unchanged and member.id != group.leader_id:
            return group.join_reply(member)
        return self._wait_for_next(group, member, ask, out)

    def _wait_for_next(self, group: ClassicGroup, member: ClassicMember, ask: Join, out: Outcome) -> Waiting:
        # An older question of this member is still open: its client has given up on it, but its connection may not.
        self._rebalance.release(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
        member.take(ask)
        member.join_ticket = self._around.ticket()
        waiting = Waiting(member.join_ticket)
        self._rebalance.prepare_or_complete(group, out)
        return waiting

    def _replace_static(
        self, group: ClassicGroup, member: ClassicMember, member_id: str, ask: Join, out: Outcome
    ) -> Waiting | JoinReply:
        """A static member is back under a new id (KIP-345): while nothing else changes, nobody has to rebalance."""
        former_leader = group.leader_id or ""
        self._rebalance.end_session(group, member.id)
        self._rebalance.release(member, ErrorCode.FENCED_INSTANCE_ID, out)
        group.rename(member, member_id)
        self._rebalance.start_session(group, member_id, ask.session_timeout_ms, out)
        if group.state is ClassicState.STABLE:
            before = member.metadata_for(group.protocol_name)
            is_done = not owes_another_join(before, member.assignment)
            member.take(ask)
            is_same = subscribed_topics(before) == subscribed_topics(member.metadata_for(group.protocol_name))
            if is_done and is_same and group.select_protocol() == group.protocol_name:
                return self._resume_static(group, member, former_leader, ask, out)
        return self._wait_for_next(group, member, ask, out)

    def _resume_static(
        self, group: ClassicGroup, member: ClassicMember, former_leader: str, ask: Join, out: Outcome
    ) -> JoinReply:
        assignments = {other.id: other.assignment for other in group.members.values()}
        out.records.append(GroupRecord(group.id, group.generation(assignments, out.now_ms)))
        is_leader = member.id == group.leader_id
        can_lead = is_leader and ask.supports_skipping_assignment
        return JoinReply(
            member_id=member.id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            # Before KIP-814 a leader that is not to divide the work anew must not learn that it leads.
            leader=(group.leader_id or "") if ask.supports_skipping_assignment else former_leader,
            members=group.joined_members() if can_lead else (),
            skip_assignment=can_lead,
        )
