"""Elections that someone asks for (KIP-183, KIP-460), and the ISR that a leader proposes (KIP-497)."""

from collections.abc import Sequence

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import Decision, IsrAnswer, IsrProposal, LeaderElection, PartitionIsr
from ottla.core.metadata.entries import PartitionImage, TopicImage
from ottla.core.metadata.leadership import (
    Leadership,
    TopicRules,
    change_record,
    elect,
    eligible_after,
    usable_brokers,
)
from ottla.core.metadata.records import PartitionChangeRecord
from ottla.core.metadata.state import ControllerState


def elect_leaders(state: ControllerState, asked: Sequence[tuple[str, int]] | None, unclean: bool = False) -> Decision:
    """`asked` None is every partition; then those that need no election are left out of the answer."""
    every = asked is None
    if asked is None:
        asked = [(topic.name, e.index) for topic in state.image.topics_by_name.values() for e in topic.partitions]
    records: list[object] = []
    replies: list[LeaderElection] = []
    for topic, partition in asked:
        try:
            records.append(_elect(state, topic, partition, unclean))
        except Refused as refusal:
            if every and refusal.code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            replies.append(LeaderElection(topic, partition, refusal.code, refusal.why))
        else:
            replies.append(LeaderElection(topic, partition))
    return Decision(tuple(records), replies)


def _elect(state: ControllerState, name: str, partition: int, unclean: bool) -> PartitionChangeRecord:
    topic = state.image.topics_by_name.get(name)
    entry = state.image.partition(name, partition)
    if topic is None or entry is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name[:249]}-{partition}")
    is_usable = usable_brokers(state)
    rules = TopicRules.of(state, topic)
    if unclean:
        if entry.leader >= 0:
            raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader.")
        now = elect(entry, entry.isr, TopicRules(rules.min_in_sync, True, rules.keeps_eligible), is_usable)
        if now.leader < 0:
            raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is online.")
    else:
        preferred = entry.replicas[0]
        if entry.leader == preferred:
            raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The preferred leader leads.")
        if preferred not in entry.isr or not is_usable(preferred):
            raise Refused(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not in sync or not online."
            )
        now = Leadership(preferred, entry.isr, entry.elr, entry.recovering)
    record = change_record(topic.id, entry, now)
    assert record is not None, "the leader changes"
    return record


def alter_partition(state: ControllerState, ask: IsrProposal) -> Decision:
    broker = state.image.brokers.get(ask.broker_id)
    if broker is None or broker.epoch != ask.broker_epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {ask.broker_id} does not have epoch {ask.broker_epoch}")
    records: list[object] = []
    replies: list[IsrAnswer] = []
    for proposal in ask.partitions:
        try:
            topic, entry = _named(state, proposal)
            _check_proposal(state, ask.broker_id, proposal, entry)
        except Refused as refusal:
            replies.append(IsrAnswer(proposal.topic_id, proposal.partition, refusal.code))
            continue
        isr = tuple(member.broker_id for member in proposal.isr)
        elr = eligible_after(entry, isr, TopicRules.of(state, topic))
        now = Leadership(entry.leader, isr, elr, proposal.recovering)
        record = change_record(topic.id, entry, now)
        if record is not None:
            records.append(record)
            entry = entry.changed(record)
        replies.append(_answer(topic.id, entry))
    return Decision(tuple(records), replies)


def _named(state: ControllerState, proposal: PartitionIsr) -> tuple[TopicImage, PartitionImage]:
    topic = state.image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= proposal.partition < len(topic.partitions):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic, topic.partitions[proposal.partition]


def _check_proposal(state: ControllerState, broker_id: int, proposal: PartitionIsr, entry: PartitionImage) -> None:
    if proposal.leader_epoch > entry.leader_epoch or proposal.partition_epoch > entry.partition_epoch:
        raise Refused(ErrorCode.NOT_CONTROLLER)  # the asker has seen a later controller than this one
    if entry.leader != broker_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if proposal.leader_epoch < entry.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
    if proposal.partition_epoch < entry.partition_epoch:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION)
    isr = [member.broker_id for member in proposal.isr]
    if len(set(isr)) != len(isr) or not set(isr) <= set(entry.replicas) or entry.leader not in isr:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if proposal.recovering and (len(isr) > 1 or not entry.recovering):
        raise Refused(ErrorCode.INVALID_REQUEST)
    for member in proposal.isr:
        broker = state.image.brokers.get(member.broker_id)
        if broker is None or not broker.is_usable or member.broker_epoch not in (-1, broker.epoch):
            raise Refused(ErrorCode.INELIGIBLE_REPLICA)


def _answer(topic_id: bytes, entry: PartitionImage) -> IsrAnswer:
    return IsrAnswer(
        topic_id,
        entry.index,
        leader=entry.leader,
        leader_epoch=entry.leader_epoch,
        isr=entry.isr,
        partition_epoch=entry.partition_epoch,
        recovering=entry.recovering,
    )
