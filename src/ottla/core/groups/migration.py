"""A classic group becomes a consumer group when the first member of the new protocol joins it, and becomes classic
again when the last one leaves; members and offsets stay (KIP-848)."""

from ottla.core.groups.asks import Protocol
from ottla.core.groups.catalog import Catalog
from ottla.core.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember
from ottla.core.groups.consumer_group import ConsumerGroup, Draft, MemberState
from ottla.core.groups.consumer_protocol import read_assignment, read_subscription, with_ids, write_assignment
from ottla.core.groups.records import (
    NO_PARTITIONS,
    ClassicMembership,
    Current,
    CurrentRecord,
    Epoch,
    EpochRecord,
    Generation,
    GenerationMember,
    GroupRecord,
    MemberRecord,
    Partitions,
    Subscription,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
    TopicIdPartition,
)
from ottla.core.groups.settings import GroupSettings

_NO_HASH = 0


def can_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    return (
        settings.consumer_can_upgrade
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and group.size < settings.consumer_max_size
        and all(_subscription(member) is not None for member in _known_members(group))
    )


def upgrade(group: ClassicGroup, catalog: Catalog, draft: Draft) -> None:
    """Note the consumer group that a classic group becomes. The generation goes on as the epoch of all."""
    epoch = group.generation_id
    members = _known_members(group)
    taken: set[TopicIdPartition] = set()
    assigned: dict[str, Partitions] = {}
    for member in members:
        assigned[member.id] = with_ids(read_assignment(member.assignment), catalog.ids) - taken
        taken |= assigned[member.id]
    for member in sorted(members, key=_claimed_generation, reverse=True):
        subscription = _subscription(member)
        assert subscription is not None
        draft.note(MemberRecord(group.id, member.id, subscription))
        draft.note(TargetRecord(group.id, member.id, assigned[member.id]))
        revoking = _owned(member, catalog) - taken
        taken |= revoking
        state = MemberState.UNREVOKED_PARTITIONS if revoking else MemberState.STABLE
        draft.note(CurrentRecord(group.id, member.id, Current(epoch, epoch, state, assigned[member.id], revoking)))
    draft.note(EpochRecord(group.id, Epoch(epoch, _NO_HASH)))
    draft.note(TargetEpochRecord(group.id, TargetEpoch(epoch)))


def _known_members(group: ClassicGroup) -> list[ClassicMember]:
    """Who has never finished a join may not know its id; it comes again."""
    return [member for member in group.members.values() if not member.is_new]


def _claimed_generation(member: ClassicMember) -> int:
    said = read_subscription(member.protocols[0].metadata)
    return -1 if said is None else said.generation_id


def _owned(member: ClassicMember, catalog: Catalog) -> Partitions:
    """What a cooperative member had when it joined: it has it until it joins again, assigned or not."""
    said = read_subscription(member.protocols[0].metadata)
    return NO_PARTITIONS if said is None else with_ids(said.owned, catalog.ids)


def _subscription(member: ClassicMember) -> Subscription | None:
    said = read_subscription(member.protocols[0].metadata)
    if said is None:
        return None
    return Subscription(
        instance_id=member.group_instance_id,
        rack_id=said.rack_id,
        client=member.client,
        topic_names=tuple(sorted(set(said.topics))),
        topic_regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
    )


def can_downgrade(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """All that are left speak the classic protocol, and have one way to divide work in common."""
    return (
        settings.consumer_can_downgrade
        and 0 < len(group.members) <= settings.group_max_size
        and all(subscription.classic is not None for subscription in group.members.values())
        and _common_protocol(group) is not None
    )


def downgrade(group: ConsumerGroup, catalog: Catalog, now_ms: int) -> GroupRecord:
    """The classic group that takes over. It names no leader, which says that the work is to be divided anew."""
    name = _common_protocol(group)
    members = tuple(
        _generation_member(member_id, subscription, name or "", group.current(member_id).assigned, catalog)
        for member_id, subscription in group.members.items()
    )
    return GroupRecord(group.id, Generation(CONSUMER_PROTOCOL_TYPE, group.epoch, name, None, now_ms, members))


def _common_protocol(group: ConsumerGroup) -> str | None:
    offers = [_protocols(subscription) for subscription in group.members.values()]
    for protocol in offers[0]:
        if all(any(protocol.name == other.name for other in offer) for offer in offers):
            return protocol.name
    return None


def _protocols(subscription: Subscription) -> tuple[Protocol, ...]:
    return () if subscription.classic is None else subscription.classic.protocols


def _generation_member(
    member_id: str, subscription: Subscription, protocol: str, assigned: Partitions, catalog: Catalog
) -> GenerationMember:
    metadata = next(own.metadata for own in _protocols(subscription) if own.name == protocol)
    said = read_subscription(metadata)
    assert subscription.classic is not None
    return GenerationMember(
        member_id,
        subscription.instance_id,
        subscription.client,
        subscription.rebalance_timeout_ms,
        subscription.classic.session_timeout_ms,
        metadata,
        write_assignment(assigned, catalog.names, 0 if said is None else said.version),
    )
