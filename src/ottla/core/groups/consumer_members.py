"""Members of consumer groups come, are kept alive, are replaced and go, whichever protocol they speak."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.consumer_assignment import ConsumerAssignment
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.outcome import REVOKE, SESSION, Due, Outcome, Surroundings
from ottla.core.groups.records import NO_PARTITIONS, Current, CurrentRecord, MemberRecord, TargetRecord


class ConsumerMembers:
    __slots__ = ("_around", "_assignment")

    def __init__(self, around: Surroundings, assignment: ConsumerAssignment) -> None:
        self._around = around
        self._assignment = assignment

    def check_room(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self._around.settings.consumer_max_size:
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.id} is full.")

    def session_timeout_ms(self, group: ConsumerGroup, member_id: str) -> int:
        classic = group.members[member_id].classic
        return self._around.times(group.id).session_timeout_ms if classic is None else classic.session_timeout_ms

    def keep(self, group: ConsumerGroup, member_id: str, has_moved: bool, out: Outcome) -> None:
        """A sign of life; and who has to let go of partitions has its rebalance time-out to do so."""
        deadlines = self._around.deadlines
        deadlines.set(Due(SESSION, group.id, member_id), out.now_ms + self.session_timeout_ms(group, member_id))
        if has_moved:
            self._watch_revocation(group, member_id, out.now_ms)

    def _watch_revocation(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        due = Due(REVOKE, group.id, member_id)
        if group.current(member_id).state == MemberState.UNREVOKED_PARTITIONS:
            self._around.deadlines.set(due, now_ms + max(group.members[member_id].rebalance_timeout_ms, 0))
        else:
            self._around.deadlines.cancel(due)

    def start_all(self, group: ConsumerGroup, now_ms: int) -> None:
        """After a load everybody has a whole session to be heard from."""
        for member_id, subscription in group.members.items():
            timeout_ms = self.session_timeout_ms(group, member_id)
            self._around.deadlines.set(Due(SESSION, group.id, member_id), now_ms + timeout_ms)
            if subscription.classic is None:
                self._watch_revocation(group, member_id, now_ms)

    def remove(self, draft: Draft, *member_ids: str) -> None:
        # Their deadlines stay: should the records not reach the log, the members are still there to be timed out.
        for member_id in member_ids:
            draft.remove_member(member_id)
        self._assignment.bump(draft, is_changed=True)

    def replace_static(self, draft: Draft, former_id: str, member_id: str) -> None:
        """The new member takes over the old one's place, target and partitions, and starts at epoch 0."""
        group = draft.group
        subscription, target, current = group.members[former_id], group.target(former_id), group.current(former_id)
        draft.note(CurrentRecord(group.id, former_id, None))
        draft.note(TargetRecord(group.id, former_id, None))
        draft.note(MemberRecord(group.id, former_id, None))
        draft.note(MemberRecord(group.id, member_id, subscription))
        draft.note(TargetRecord(group.id, member_id, target))
        assigned = current.assigned
        draft.note(CurrentRecord(group.id, member_id, Current(0, 0, MemberState.STABLE, assigned, NO_PARTITIONS)))
