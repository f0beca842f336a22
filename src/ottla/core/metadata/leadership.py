"""Who leads a partition when a broker comes, goes or is asked to: one rule, and the record that says it.

A leader comes from the ISR; failing that from the eligible replicas (KIP-966), which left the ISR while it was too
small to acknowledge anything; failing that, if the topic allows it, from any replica: an unclean election.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.base.topic_settings import log_config
from ottla.core.metadata.entries import NO_LEADER, PartitionImage, TopicImage
from ottla.core.metadata.records import PartitionChangeRecord
from ottla.core.metadata.state import ControllerState

Usable = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the settings of a topic say about its leaders."""

    min_in_sync: int
    allows_unclean: bool
    keeps_eligible: bool

    @classmethod
    def of(cls, state: ControllerState, topic: TopicImage) -> "TopicRules":
        config = log_config(state.image.topic_config(topic.name), state.defaults)
        return cls(
            config.min_insync_replicas, config.unclean_leader_election_enable, state.has_eligible_leader_replicas
        )


@dataclass(frozen=True, slots=True)
class Leadership:
    """What a partition comes to: `recovering` after an unclean election, until its leader says otherwise."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    recovering: bool
    last_known: tuple[int, ...] = ()
    """Who led last, once nobody is left that is known to hold everything."""

    @classmethod
    def of(cls, entry: PartitionImage) -> "Leadership":
        return cls(entry.leader, entry.isr, entry.elr, entry.recovering, entry.last_known_elr)


def usable_brokers(state: ControllerState, without: int | None = None) -> Usable:
    brokers = state.image.brokers

    def is_usable(broker_id: int) -> bool:
        broker = brokers.get(broker_id)
        return broker is not None and broker.is_usable and broker_id != without

    return is_usable


def eligible_after(entry: PartitionImage, isr: tuple[int, ...], rules: TopicRules) -> tuple[int, ...]:
    """Who leaves an ISR that is below the minimum still holds all that was acknowledged (KIP-966)."""
    if not rules.keeps_eligible or len(isr) >= min(rules.min_in_sync, len(entry.replicas)):
        return ()
    return tuple(r for r in entry.replicas if (r in entry.isr or r in entry.elr) and r not in isr)


def elect(entry: PartitionImage, isr: tuple[int, ...], rules: TopicRules, is_usable: Usable) -> Leadership:
    """The present leader if it may stay; else the first replica, in the order of preference, that may lead."""
    elr = eligible_after(entry, isr, rules)
    for candidates in (isr, elr):
        ready = [r for r in entry.replicas if r in candidates and is_usable(r)]
        if not ready:
            continue
        leader = entry.leader if entry.leader in ready else ready[0]
        if leader in isr:
            return Leadership(leader, isr, elr, entry.recovering)
        return Leadership(leader, (leader,), tuple(r for r in elr if r != leader), entry.recovering)
    last_known = (entry.leader,) if entry.leader >= 0 else entry.last_known_elr
    hopefuls = entry.replicas if rules.allows_unclean else ()
    if rules.keeps_eligible and not isr and not elr:
        hopefuls = (*last_known, *hopefuls)  # every replica crashed: the last leader lacks least (KIP-966)
    for replica in hopefuls:
        if is_usable(replica):
            return Leadership(replica, (replica,), (), recovering=True)
    return Leadership(NO_LEADER, isr, elr, entry.recovering, last_known if rules.keeps_eligible and not isr else ())


def change_record(topic_id: bytes, entry: PartitionImage, now: Leadership) -> PartitionChangeRecord | None:
    """Only what differs; None if nothing does."""
    record = PartitionChangeRecord(partition_id=entry.index, topic_id=topic_id)
    if now.leader != entry.leader:
        record.leader = now.leader
    if now.isr != entry.isr:
        record.isr = list(now.isr)
    if now.elr != entry.elr:
        record.eligible_leader_replicas = list(now.elr)
    if now.last_known != entry.last_known_elr:
        record.last_known_elr = list(now.last_known)
    if now.recovering != entry.recovering:
        record.leader_recovery_state = int(now.recovering)
    return record if now != Leadership.of(entry) else None


def records_for_lost_broker(
    state: ControllerState, broker_id: int, has_crashed: bool = False
) -> Iterator[PartitionChangeRecord]:
    """The broker leaves every ISR and leads nothing more.

    The last member of an ISR stays in it: it holds the data. Where eligible replicas are kept it goes among these
    instead, unless it crashed: then it may have lost what it had acknowledged.
    """
    is_usable = usable_brokers(state, without=broker_id)
    for topic in state.image.topics_by_id.values():
        touched = [e for e in topic.partitions if broker_id in e.isr or e.leader == broker_id or broker_id in e.elr]
        rules = TopicRules.of(state, topic) if touched else None
        for entry in touched:
            assert rules is not None
            isr = tuple(r for r in entry.isr if r != broker_id)
            known = entry
            if not isr and not rules.keeps_eligible:
                isr = entry.isr
            elif has_crashed and rules.keeps_eligible:
                known = entry._replace(isr=isr, elr=tuple(r for r in entry.elr if r != broker_id))
            record = change_record(topic.id, entry, elect(known, isr, rules, is_usable))
            if record is not None:
                yield record


def records_for_found_broker(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Partitions without a leader get one, if this broker may be it."""
    others = usable_brokers(state)
    for topic in state.image.topics_by_id.values():
        leaderless = [e for e in topic.partitions if e.leader == NO_LEADER and broker_id in e.replicas]
        rules = TopicRules.of(state, topic) if leaderless else None
        for entry in leaderless:
            assert rules is not None
            now = elect(entry, entry.isr, rules, lambda r: r == broker_id or others(r))
            record = change_record(topic.id, entry, now)
            if record is not None:
                yield record
