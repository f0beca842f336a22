"""What operators see of groups: lists and descriptions."""

from collections.abc import Collection

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicState
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.groups import Groups, check_group_id
from ottla.core.groups.records import by_topic

CLASSIC = "classic"
CONSUMER = "consumer"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1

Group = ClassicGroup | ConsumerGroup


class GroupOverview:
    __slots__ = ("_default_assignor", "_groups")

    def __init__(self, groups: Groups, default_assignor: str) -> None:
        self._groups = groups
        self._default_assignor = default_assignor

    def listed(self, states: Collection[str], types: Collection[str]) -> tuple[ListedGroup, ...]:
        wanted_states, wanted_types = {state.lower() for state in states}, {kind.lower() for kind in types}
        known = self._groups.by_id
        rows = [_listed(group) for group in known.values()]
        rows += [_listed_offsets_only(group_id) for group_id in self._groups.offsets.groups() if group_id not in known]
        return tuple(row for row in rows if _is_wanted(row, wanted_states, wanted_types))

    def described(self, group_id: str, now_ms: int) -> DescribedGroup:
        group = self._groups.by_id.get(group_id)
        if group is None and self._groups.offsets.has_any(group_id):
            group = ClassicGroup(group_id, now_ms)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return _described(group)

    def described_consumers(self, group_id: str) -> DescribedConsumerGroup:
        check_group_id(group_id)
        group = self._groups.by_id.get(group_id)
        if group is None and not self._groups.exists(group_id):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return _described_consumers(group, self._default_assignor)


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.id, CONSUMER_PROTOCOL_TYPE, group.state, CONSUMER)
    return ListedGroup(group.id, group.protocol_type or "", group.state.value, CLASSIC)


def _listed_offsets_only(group_id: str) -> ListedGroup:
    """A group that nobody ever joined: some consumer that assigns itself commits under its name."""
    return ListedGroup(group_id, "", ClassicState.EMPTY.value, CLASSIC)


def _is_wanted(group: ListedGroup, states: Collection[str], types: Collection[str]) -> bool:
    """Filters are folded to lower case; an empty one lets everything pass."""
    return (not states or group.state.lower() in states) and (not types or group.type in types)


def _described(group: ClassicGroup) -> DescribedGroup:
    """What members said is shown of a stable group only: while it rebalances it is of different times."""
    is_stable = group.state is ClassicState.STABLE
    members = tuple(
        DescribedMember(
            member.id,
            member.group_instance_id,
            member.client,
            member.metadata_for(group.protocol_name) if is_stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    protocol = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(group.id, group.state.value, group.protocol_type or "", protocol, members)


def _described_consumers(group: ConsumerGroup, default_assignor: str) -> DescribedConsumerGroup:
    members = []
    for member_id, subscription in group.members.items():
        current = group.current(member_id)
        members.append(
            DescribedConsumer(
                member_id=member_id,
                instance_id=subscription.instance_id,
                rack_id=subscription.rack_id,
                member_epoch=current.epoch,
                client=subscription.client,
                subscribed_topic_names=subscription.topic_names,
                subscribed_topic_regex=subscription.topic_regex or "",
                # What it still has to let go of is its own until it says so.
                assignment=by_topic(current.assigned | current.revoking),
                target_assignment=by_topic(group.target(member_id)),
                member_type=_CONSUMER_MEMBER if subscription.classic is None else _CLASSIC_MEMBER,
            )
        )
    assignor = group.assignor(default_assignor)
    return DescribedConsumerGroup(group.id, group.state, group.epoch, group.target_epoch, assignor, tuple(members))
