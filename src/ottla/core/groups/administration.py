"""What operators see of groups: lists and descriptions."""

from collections.abc import Collection

from ottla.core.groups.asks import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicState
from ottla.core.groups.consumer_group import ConsumerGroup
from ottla.core.groups.records import by_topic

CLASSIC = "classic"
CONSUMER = "consumer"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1

Group = ClassicGroup | ConsumerGroup


def listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.id, CONSUMER_PROTOCOL_TYPE, group.state, CONSUMER)
    return ListedGroup(group.id, group.protocol_type or "", group.state.value, CLASSIC)


def listed_offsets_only(group_id: str) -> ListedGroup:
    """A group that nobody ever joined: some consumer that assigns itself commits under its name."""
    return ListedGroup(group_id, "", ClassicState.EMPTY.value, CLASSIC)


def is_wanted(group: ListedGroup, states: Collection[str], types: Collection[str]) -> bool:
    """Filters are folded to lower case; an empty one lets everything pass."""
    return (not states or group.state.lower() in states) and (not types or group.type in types)


def described(group: ClassicGroup) -> DescribedGroup:
    """Metadata and assignments are shown of a stable group only: while it rebalances they are of different times."""
    is_stable = group.state is ClassicState.STABLE
    members = tuple(
        DescribedMember(
            member.id,
            member.group_instance_id,
            member.client,
            member.metadata_for(group.protocol_name) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    )
    protocol = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(group.id, group.state.value, group.protocol_type or "", protocol, members)


def described_consumers(group: ConsumerGroup, default_assignor: str) -> DescribedConsumerGroup:
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
                subscribed_topic_regex=subscription.topic_regex,
                assignment=by_topic(current.assigned),
                target_assignment=by_topic(group.target(member_id)),
                member_type=_CONSUMER_MEMBER if subscription.classic is None else _CLASSIC_MEMBER,
            )
        )
    assignor = group.assignor(default_assignor)
    return DescribedConsumerGroup(group.id, group.state, group.epoch, group.target_epoch, assignor, tuple(members))
