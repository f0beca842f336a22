"""ConsumerGroupHeartbeat: joining, staying and leaving in the consumer protocol (KIP-848)."""

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import asks
from ottla.core.groups.asks import ConsumerHeartbeat, ConsumerHeartbeatReply
from ottla.core.groups.consumer_assignment import ConsumerAssignment
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.consumer_members import ConsumerMembers
from ottla.core.groups.outcome import Outcome, Surroundings
from ottla.core.groups.patterns import check_pattern
from ottla.core.groups.records import (
    NO_PARTITIONS,
    Current,
    CurrentRecord,
    MemberRecord,
    Partitions,
    Subscription,
    by_topic,
    from_topics,
)

WAITING_INTERVAL_MS = 1_000


def check_shape(ask: ConsumerHeartbeat, assignors: tuple[str, ...]) -> None:
    """What is wrong with a heartbeat whoever sends it."""
    is_joining = ask.member_epoch == asks.JOIN_EPOCH
    wrongs = (
        (not ask.group_id.strip(), "GroupId can't be empty."),
        (not ask.member_id and (ask.api_version >= 1 or not is_joining), "MemberId can't be empty."),
        (ask.instance_id == "", "InstanceId can't be empty."),
        (ask.rack_id == "", "RackId can't be empty."),
        (ask.member_epoch < asks.LEAVE_STATIC_EPOCH, "MemberEpoch is invalid."),
        (ask.member_epoch == asks.LEAVE_STATIC_EPOCH and ask.instance_id is None, "InstanceId can't be null."),
        (is_joining and ask.rebalance_timeout_ms < 0, "RebalanceTimeoutMs must be provided in first request."),
        (is_joining and (ask.topic_partitions is None or len(ask.topic_partitions) > 0),
         "TopicPartitions must be empty when (re-)joining."),
        (is_joining and ask.subscribed_topic_names is None and ask.subscribed_topic_regex is None,
         "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
    )  # fmt: skip
    for is_wrong, why in wrongs:
        if is_wrong:
            raise Refused(ErrorCode.INVALID_REQUEST, why)
    if ask.server_assignor is not None and ask.server_assignor not in assignors:
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"Supported assignors: {', '.join(assignors)}.")
    if ask.subscribed_topic_regex:
        check_pattern(ask.subscribed_topic_regex)


class ConsumerSession:
    """Decides on drafts of groups; whether the group exists and is of this protocol is the shard's business."""

    __slots__ = ("_around", "_assignment", "_members")

    def __init__(self, around: Surroundings, assignment: ConsumerAssignment, members: ConsumerMembers) -> None:
        self._around = around
        self._assignment = assignment
        self._members = members

    def heartbeat(self, draft: Draft, ask: ConsumerHeartbeat, out: Outcome) -> ConsumerHeartbeatReply:
        owned = None if ask.topic_partitions is None else from_topics(ask.topic_partitions)
        is_joining = ask.member_epoch == asks.JOIN_EPOCH
        member_id = ask.member_id or self._around.member_id("").lstrip("-")
        if is_joining:
            self._admit(draft, ask, member_id)
        else:
            self._check_epoch(draft.group, ask, owned)
        is_changed = self._subscribe(draft, ask, member_id)
        self._assignment.bump(draft, is_changed)
        wait_ms = self._assignment.assign(draft)
        before = draft.group.current(member_id)
        has_moved = self._assignment.reconcile(draft, member_id, owned)
        self._members.keep(draft.group, member_id, has_moved, out)
        after = draft.group.current(member_id)
        is_full = (
            ask.rebalance_timeout_ms >= 0
            and (ask.subscribed_topic_names is not None or ask.subscribed_topic_regex is not None)
            and ask.topic_partitions is not None
        )
        is_told = is_joining or is_full or before.assigned != after.assigned
        return ConsumerHeartbeatReply(
            member_id,
            after.epoch,
            self._interval_ms(draft.group.id, after, wait_ms),
            by_topic(after.assigned) if is_told else None,
        )

    def _interval_ms(self, group_id: str, current: Current, wait_ms: int) -> int:
        """Whoever waits for the next assignment (KIP-1263), or for what others still have, comes back sooner."""
        interval_ms = self._around.times(group_id).heartbeat_interval_ms
        if wait_ms:
            return min(interval_ms, wait_ms)
        if current.state == MemberState.UNRELEASED_PARTITIONS:
            return min(interval_ms, WAITING_INTERVAL_MS)
        return interval_ms

    def leave(self, draft: Draft, ask: ConsumerHeartbeat, out: Outcome) -> ConsumerHeartbeatReply:
        group = draft.group
        member_id = self._known_member(group, ask)
        reply = ConsumerHeartbeatReply(member_id, ask.member_epoch, 0)
        if ask.member_epoch == asks.LEAVE_STATIC_EPOCH:
            # It will be back: its partitions are kept for it until its session ends.
            current = group.current(member_id)
            away = current._replace(epoch=asks.LEAVE_STATIC_EPOCH, revoking=NO_PARTITIONS)
            draft.note(CurrentRecord(group.id, member_id, away))
            return reply
        self._members.remove(draft, member_id)
        return reply

    # Who is it

    def _known_member(self, group: ConsumerGroup, ask: ConsumerHeartbeat) -> str:
        if ask.instance_id is not None:
            owner = group.static_ids.get(ask.instance_id)
            if owner is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {ask.instance_id} is unknown.")
            if owner != ask.member_id:
                raise Refused(
                    ErrorCode.FENCED_INSTANCE_ID, f"Instance id {ask.instance_id} is owned by another member."
                )
        if ask.member_id not in group.members:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {ask.member_id} is not a member of group {group.id}.")
        return ask.member_id

    def _check_epoch(self, group: ConsumerGroup, ask: ConsumerHeartbeat, owned: Partitions | None) -> None:
        current = group.current(self._known_member(group, ask))
        if ask.member_epoch == current.epoch:
            return
        # The answer that raised the epoch may have been lost: a member that claims no more than it has is believed.
        is_one_behind = ask.member_epoch == current.previous_epoch and ask.member_epoch < current.epoch
        if is_one_behind and owned is not None and owned <= current.assigned:
            return
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member has epoch {ask.member_epoch}, the coordinator {current.epoch}. "
            "The member must abandon all its partitions and rejoin.",
        )

    def _admit(self, draft: Draft, ask: ConsumerHeartbeat, member_id: str) -> None:
        group = draft.group
        former_id = None if ask.instance_id is None else group.static_ids.get(ask.instance_id)
        if former_id is not None and former_id != member_id:
            if group.current(former_id).epoch != asks.LEAVE_STATIC_EPOCH:
                raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, f"Instance id {ask.instance_id} is still in use.")
            self._members.replace_static(draft, former_id, member_id)
            return
        if member_id in group.members:
            current = group.current(member_id)
            if current.epoch == asks.LEAVE_STATIC_EPOCH:
                draft.note(CurrentRecord(group.id, member_id, Current(0, 0, 0, current.assigned, NO_PARTITIONS)))
            return
        self._members.check_room(group)

    def _subscribe(self, draft: Draft, ask: ConsumerHeartbeat, member_id: str) -> bool:
        """Note what the member says of itself; True if that concerns the assignment."""
        known = draft.group.members.get(member_id)
        said = _updated(known, ask)
        if said == known:
            return False
        draft.note(MemberRecord(draft.group.id, member_id, said))
        self._assignment.resolve(draft, said.topic_regex)
        if known is None:
            return bool(said.topic_names or said.topic_regex)
        if known.topic_regex != said.topic_regex:
            draft.drop_unused_pattern(known.topic_regex)
        return (known.topic_names, known.topic_regex) != (said.topic_names, said.topic_regex)


def _updated(known: Subscription | None, ask: ConsumerHeartbeat) -> Subscription:
    """Null means "as before", and before a join there is nothing, even if the member or its instance is known."""
    is_first = known is None or ask.member_epoch == asks.JOIN_EPOCH
    base = Subscription(None, None, ask.client, (), None, -1, None) if is_first or known is None else known
    names, pattern = ask.subscribed_topic_names, ask.subscribed_topic_regex
    return Subscription(
        instance_id=base.instance_id if ask.instance_id is None else ask.instance_id,
        rack_id=base.rack_id if ask.rack_id is None else ask.rack_id,
        client=ask.client,
        topic_names=base.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=base.topic_regex if pattern is None else pattern or None,
        rebalance_timeout_ms=base.rebalance_timeout_ms if ask.rebalance_timeout_ms < 0 else ask.rebalance_timeout_ms,
        server_assignor=base.server_assignor if ask.server_assignor is None else ask.server_assignor,
        classic=None,
    )
