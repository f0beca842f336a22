"""The rebalance of a classic group: everybody joins, the leader divides the work, everybody syncs.

A rebalance begins with `prepare` and waits until all known members have joined, or until the rebalance time-out, after
which those who have not are removed. The first one of an empty group waits instead for the initial delay, again and
again while members keep coming (KIP-134). After the join everybody has one more rebalance time-out to sync.
"""

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import SyncReply
from ottla.core.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from ottla.core.groups.outcome import JOIN, SESSION, SYNC, Due, Outcome, Surroundings, join_refusal
from ottla.core.groups.records import GroupRecord

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member has no id to send heartbeats with, and a client that gave up joins again as another new one."""


class ClassicRebalance:
    __slots__ = ("_around",)

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # Sessions

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int, out: Outcome) -> None:
        self._around.deadlines.set(Due(SESSION, group.id, member_id), out.now_ms + timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._around.deadlines.cancel(Due(SESSION, group.id, member_id))

    # Members come and go

    def add(self, group: ClassicGroup, member: ClassicMember, protocol_type: str, out: Outcome) -> None:
        member.is_new = True
        group.add(member, protocol_type)
        self.start_session(group, member.id, NEW_MEMBER_JOIN_TIMEOUT_MS, out)
        self.prepare_or_complete(group, out)

    def remove(self, group: ClassicGroup, member: ClassicMember, out: Outcome) -> None:
        """Whoever waits for an answer under this member id gets it: nobody knows the id any more."""
        self.end_session(group, member.id)
        self.release(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
        group.remove(member)

    def release(self, member: ClassicMember, error: ErrorCode, out: Outcome) -> None:
        """Answer what a member waits for with an error."""
        out.answer(member.join_ticket, join_refusal(error, member.id))
        out.answer(member.sync_ticket, SyncReply(error=error))
        member.join_ticket = member.sync_ticket = None

    def release_all(self, group: ClassicGroup, error: ErrorCode, out: Outcome) -> None:
        for member in group.members.values():
            self.release(member, error, out)

    # Phases

    def prepare_or_complete(self, group: ClassicGroup, out: Outcome) -> None:
        if group.state is ClassicState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, out)
        else:
            self.prepare(group, out)

    def after_removal(self, group: ClassicGroup, out: Outcome) -> None:
        if group.state is not ClassicState.EMPTY:
            self.prepare_or_complete(group, out)

    def prepare(self, group: ClassicGroup, out: Outcome) -> None:
        deadlines = self._around.deadlines
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._break_off_sync(group, out)
        deadlines.cancel(Due(SYNC, group.id))
        group.is_initial_rebalance = group.state is ClassicState.EMPTY
        group.move_to(ClassicState.PREPARING_REBALANCE, out.now_ms)
        if group.is_initial_rebalance:
            delay_ms = self._around.settings.group_initial_rebalance_delay_ms
            group.delay_end_ms = out.now_ms + max(group.rebalance_timeout_ms, delay_ms)
            group.take_joiners_since_delay()
            if delay_ms <= 0:
                self.complete(group, out)
            else:
                deadlines.set(Due(JOIN, group.id), out.now_ms + delay_ms)
            return
        deadlines.set(Due(JOIN, group.id), out.now_ms + group.rebalance_timeout_ms)
        self.complete_if_all_joined(group, out)

    def complete_if_all_joined(self, group: ClassicGroup, out: Outcome) -> None:
        """An initial rebalance ends by its delay alone, unless nobody is left to wait for."""
        if group.state is not ClassicState.PREPARING_REBALANCE or not group.all_have_joined:
            return
        if group.is_initial_rebalance and group.members:
            return
        self.complete(group, out)

    def on_join_deadline(self, group: ClassicGroup, out: Outcome) -> None:
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        left_ms = group.delay_end_ms - out.now_ms
        if group.is_initial_rebalance and group.take_joiners_since_delay() and left_ms > 0:
            delay_ms = min(self._around.settings.group_initial_rebalance_delay_ms, left_ms)
            self._around.deadlines.set(Due(JOIN, group.id), out.now_ms + delay_ms)
            return
        self.complete(group, out)

    def complete(self, group: ClassicGroup, out: Outcome) -> None:
        """Everybody is here who will be: start the next generation."""
        deadlines = self._around.deadlines
        deadlines.cancel(Due(JOIN, group.id))
        for member in list(group.members.values()):
            if member.join_ticket is None and member.group_instance_id is None:
                self.remove(group, member, out)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none is here: wait on, their sessions decide.
            deadlines.set(Due(JOIN, group.id), out.now_ms + group.rebalance_timeout_ms)
            return
        group.start_generation(out.now_ms)
        if not group.members:
            group.is_persisted = True
            out.records.append(GroupRecord(group.id, group.generation({}, out.now_ms)))
            return
        for member in group.members.values():
            out.answer(member.join_ticket, group.join_reply(member))
            if member.join_ticket is not None:
                self.start_session(group, member.id, member.session_timeout_ms, out)
            member.join_ticket = None
            member.is_new = False
        deadlines.set(Due(SYNC, group.id), out.now_ms + group.rebalance_timeout_ms)

    def on_sync_deadline(self, group: ClassicGroup, out: Outcome) -> None:
        """Whoever joined and did not sync is gone; a static member too, for it holds up its partitions."""
        if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return
        late = [m for m in group.members.values() if not m.has_synced and m.sync_ticket is None]
        if not late:
            return
        for member in late:
            self.remove(group, member, out)
        self.prepare(group, out)

    def note_synced(self, group: ClassicGroup) -> None:
        if all(member.has_synced for member in group.members.values()):
            self._around.deadlines.cancel(Due(SYNC, group.id))

    def _break_off_sync(self, group: ClassicGroup, out: Outcome) -> None:
        """Nobody keeps an assignment of a generation that never came about."""
        for member in group.members.values():
            if member.sync_ticket is not None:
                out.answer(member.sync_ticket, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
                self.start_session(group, member.id, member.session_timeout_ms, out)
                member.sync_ticket = None
