"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol, and what happens when a session ends."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import Heartbeat, LeavingMember, LeftMember, OffsetCommit, Sync, SyncReply, Waiting
from ottla.core.groups.classic_group import ClassicGroup, ClassicState
from ottla.core.groups.classic_rebalance import ClassicRebalance
from ottla.core.groups.outcome import Outcome, Surroundings
from ottla.core.groups.records import GroupRecord


class ClassicSession:
    __slots__ = ("_around", "_rebalance")

    def __init__(self, around: Surroundings, rebalance: ClassicRebalance) -> None:
        self._around = around
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, ask: Sync, out: Outcome) -> Waiting | SyncReply:
        member = group.check_member(ask.member_id, ask.group_instance_id)
        group.check_generation(ask.generation_id)
        if ask.protocol_type is not None and ask.protocol_type != group.protocol_type:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if ask.protocol_name is not None and ask.protocol_name != group.protocol_name:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.start_session(group, member.id, member.session_timeout_ms, out)
        if group.state is ClassicState.STABLE:
            member.has_synced = True
            self._rebalance.note_synced(group)
            return group.sync_reply(member.assignment)
        if member.id == group.leader_id:
            return self._divide(group, ask, out)
        out.answer(member.sync_ticket, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = self._around.ticket()
        return Waiting(member.sync_ticket)

    def _divide(self, group: ClassicGroup, ask: Sync, out: Outcome) -> SyncReply:
        """The leader has divided the work: that is a new generation for the log, and everybody's answer."""
        out.records.append(GroupRecord(group.id, group.generation(dict(ask.assignments), out.now_ms)))
        for other in group.members.values():
            if other.sync_ticket is not None:
                out.answer(other.sync_ticket, group.sync_reply(ask.assignments.get(other.id, b"")))
                self._rebalance.start_session(group, other.id, other.session_timeout_ms, out)
        return group.sync_reply(ask.assignments.get(ask.member_id, b""))

    def heartbeat(self, group: ClassicGroup, ask: Heartbeat, out: Outcome) -> None:
        member = group.check_member(ask.member_id, ask.group_instance_id)
        group.check_generation(ask.generation_id)
        if not member.is_new:
            self._rebalance.start_session(group, member.id, member.session_timeout_ms, out)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group: ClassicGroup, leaving: tuple[LeavingMember, ...], out: Outcome) -> tuple[LeftMember, ...]:
        left = []
        is_changed = False
        for one in leaving:
            try:
                member_id = self._leave_one(group, one, out)
            except Refused as refusal:
                left.append(LeftMember(one.member_id, one.group_instance_id, refusal.code))
            else:
                is_changed = True
                left.append(LeftMember(member_id, one.group_instance_id))
        if is_changed:
            self._rebalance.after_removal(group, out)
        return tuple(left)

    def _leave_one(self, group: ClassicGroup, one: LeavingMember, out: Outcome) -> str:
        """Returns the member id to answer with. An administrator names a static member by its instance alone."""
        if one.member_id in group.pending:
            group.pending.discard(one.member_id)
            self._rebalance.end_session(group, one.member_id)
            return one.member_id
        member_id = one.member_id
        if not member_id and one.group_instance_id is not None:
            member_id = group.static_ids.get(one.group_instance_id, "")
        member = group.check_member(member_id, one.group_instance_id)
        self._rebalance.remove(group, member, out)
        return one.member_id

    def on_session_deadline(self, group: ClassicGroup, member_id: str, out: Outcome) -> None:
        if member_id in group.pending:
            group.pending.discard(member_id)
            self._rebalance.complete_if_all_joined(group, out)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        is_waiting = member.join_ticket is not None or member.sync_ticket is not None
        if is_waiting and not member.is_new:
            return  # a client that waits for us owes no heartbeat; its session starts again with the answer
        self._rebalance.remove(group, member, out)
        self._rebalance.after_removal(group, out)

    def check_commit(self, group: ClassicGroup, ask: OffsetCommit, out: Outcome) -> None:
        """May this member commit now? Without members anybody may (a consumer that assigns itself, a tool)."""
        generation_id = ask.generation_id_or_member_epoch
        if generation_id < 0 and group.state is ClassicState.EMPTY:
            return
        is_identified = generation_id >= 0 or bool(ask.member_id) or ask.group_instance_id is not None
        if not is_identified:
            if ask.producer_id >= 0:
                return  # transactional clients from before KIP-447 do not say who they are
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(ask.member_id, ask.group_instance_id)
        group.check_generation(generation_id)
        if group.state is ClassicState.COMPLETING_REBALANCE and ask.producer_id < 0:
            # In a transaction the code has no meaning; there the generation alone decides.
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        if not member.is_new:
            self._rebalance.start_session(group, member.id, member.session_timeout_ms, out)
