"""Brokers: they register, send heartbeats, are fenced when these stop, and leave.

A registration is in the log; when a broker was last heard of is not: `BrokerSessions` forgets it with the leadership,
and a new leader gives every broker a whole session from the moment it leads.
"""

from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata import records as r
from ottla.core.metadata.asks import BrokerHeartbeat, BrokerRegistration, Decision, HeartbeatReply, ProducerIdBlock
from ottla.core.metadata.entries import BrokerImage
from ottla.core.metadata.leadership import records_for_found_broker, records_for_lost_broker
from ottla.core.metadata.state import ControllerState

PRODUCER_IDS_PER_BLOCK = 1000
_PRODUCER_ID_MAX = 2**63 - 1


@dataclass(slots=True)
class BrokerSessions:
    """When each broker was heard of last. Kept beside the image and never in the log."""

    session_ms: int
    heard_ms: dict[int, int] = field(default_factory=dict)
    since_ms: int = 0
    """When this controller began to lead."""

    def begin(self, now_ms: int) -> None:
        self.heard_ms.clear()
        self.since_ms = now_ms

    def hear(self, broker_id: int, now_ms: int) -> None:
        self.heard_ms[broker_id] = now_ms

    def forgive(self, lost_ms: int) -> None:
        """Time in which this controller itself stood still is held against nobody."""
        self.since_ms += lost_ms
        for broker_id in self.heard_ms:
            self.heard_ms[broker_id] += lost_ms

    def deadline_ms(self, broker_id: int) -> int:
        return self.heard_ms.get(broker_id, self.since_ms) + self.session_ms

    def has_valid_session(self, broker_id: int, now_ms: int) -> bool:
        return broker_id in self.heard_ms and now_ms < self.deadline_ms(broker_id)

    def next_deadline_ms(self, state: ControllerState) -> int | None:
        live = (self.deadline_ms(b.id) for b in state.image.brokers.values() if not b.fenced)
        return min(live, default=None)

    def overdue(self, state: ControllerState, now_ms: int) -> list[BrokerImage]:
        return [b for b in state.image.brokers.values() if not b.fenced and now_ms >= self.deadline_ms(b.id)]


def register_broker(
    state: ControllerState, sessions: BrokerSessions, ask: BrokerRegistration, next_offset: int, now_ms: int
) -> Decision:
    """The epoch of a broker is the offset of its registration: unique, and growing."""
    if ask.broker_id < 0:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{ask.broker_id} is no broker id")
    if ask.cluster_id != state.cluster_id:
        raise Refused(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.cluster_id}, but got cluster ID {ask.cluster_id}",
        )
    known = state.image.brokers.get(ask.broker_id)
    records: list[object] = []
    if known is not None and known.incarnation_id != ask.incarnation_id:
        if not known.fenced and sessions.has_valid_session(ask.broker_id, now_ms):
            raise Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
        has_crashed = ask.previous_broker_epoch != known.epoch
        records += records_for_lost_broker(state, ask.broker_id, has_crashed)
    if known is not None and known.incarnation_id == ask.incarnation_id:
        epoch, fenced, leaving = known.epoch, known.fenced, known.in_controlled_shutdown
    else:
        epoch, fenced, leaving = next_offset, True, False
    _check_features(state, ask)
    registration = r.RegisterBrokerRecord(
        broker_id=ask.broker_id,
        incarnation_id=ask.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            r.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in ask.endpoints
        ],
        features=[
            r.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(ask.features.items())
        ],
        rack=ask.rack,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        log_dirs=list(ask.log_dirs),
    )
    return Decision((registration, *records), epoch)


def _check_features(state: ControllerState, ask: BrokerRegistration) -> None:
    for name, level in state.image.features.items():
        low, high = ask.features.get(name, (0, 0))
        if name in ask.features and not low <= level <= high:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive.",
            )


def broker_heartbeat(state: ControllerState, ask: BrokerHeartbeat) -> Decision:
    broker = state.image.brokers.get(ask.broker_id)
    if broker is None or broker.epoch != ask.broker_epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {ask.broker_id} does not have epoch {ask.broker_epoch}")
    is_caught_up = ask.current_metadata_offset >= broker.epoch
    if ask.want_shut_down:
        return _shut_down(state, broker, is_caught_up)
    if ask.want_fence:
        if broker.fenced:
            return Decision((), HeartbeatReply(is_caught_up, True, False))
        return Decision(fencing_records(state, broker), HeartbeatReply(is_caught_up, True, False))
    if not broker.fenced or not is_caught_up:
        return Decision((), HeartbeatReply(is_caught_up, broker.fenced, False))
    unfence = r.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=-1)
    records = (unfence, *records_for_found_broker(state, broker.id))
    return Decision(records, HeartbeatReply(is_caught_up, False, False))


def _shut_down(state: ControllerState, broker: BrokerImage, is_caught_up: bool) -> Decision:
    """First the leaderships go to others, then the broker is fenced and may stop."""
    if broker.fenced:
        return Decision((), HeartbeatReply(is_caught_up, True, True))
    if not broker.in_controlled_shutdown:
        leaving = r.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        records = (leaving, *records_for_lost_broker(state, broker.id))
        return Decision(records, HeartbeatReply(is_caught_up, False, False))
    leads = any(e.leader == broker.id for topic in state.image.topics_by_id.values() for e in topic.partitions)
    if leads:
        return Decision((), HeartbeatReply(is_caught_up, False, False))
    return Decision(fencing_records(state, broker), HeartbeatReply(is_caught_up, True, True))


def fencing_records(state: ControllerState, broker: BrokerImage) -> tuple[object, ...]:
    fence = r.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)
    return (fence, *records_for_lost_broker(state, broker.id))


def fence_overdue(state: ControllerState, sessions: BrokerSessions, now_ms: int) -> Decision:
    """One broker at a time: the records for the next one are decided once these have been applied."""
    overdue = sessions.overdue(state, now_ms)
    return Decision(fencing_records(state, overdue[0]) if overdue else ())


def unregister_broker(state: ControllerState, broker_id: int) -> Decision:
    broker = state.image.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    gone = r.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*records_for_lost_broker(state, broker_id), gone))


def allocate_producer_ids(state: ControllerState, broker_id: int, broker_epoch: int) -> Decision:
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} does not have epoch {broker_epoch}")
    first = state.image.next_producer_id
    if first > _PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producerIds")
    record = r.ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + PRODUCER_IDS_PER_BLOCK
    )
    return Decision((record,), ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK))
