"""A cluster's metadata for tests: decide, apply, look."""

from random import Random

from ottla.core.metadata import brokers
from ottla.core.metadata.asks import BrokerHeartbeat, BrokerRegistration, Decision, Endpoint
from ottla.core.metadata.brokers import BrokerSessions
from ottla.core.metadata.entries import PartitionImage
from ottla.core.metadata.image import ClusterImage
from ottla.core.metadata.state import ControllerState

CLUSTER = "a-cluster"
SESSION_MS = 9_000


class Cluster:
    def __init__(self, brokers: int = 1, racks: tuple[str, ...] = (), seed: int = 1) -> None:
        self.state = ControllerState(ClusterImage(), Random(seed), CLUSTER)
        self.sessions = BrokerSessions(SESSION_MS)
        self.offset = 0
        self.log: list[object] = []
        for broker_id in range(1, brokers + 1):
            self.join(broker_id, racks[(broker_id - 1) % len(racks)] if racks else None)

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    def apply(self, decision: Decision) -> object:
        for record in decision.records:
            self.image.apply(record)
        self.log += decision.records
        self.offset += len(decision.records)
        return decision.reply

    def register(
        self,
        broker_id: int,
        rack: str | None = None,
        incarnation: int = 1,
        now_ms: int = 0,
        previous_epoch: int = -1,
    ) -> int:
        ask = BrokerRegistration(
            broker_id,
            CLUSTER,
            bytes(15) + bytes([incarnation]),
            (Endpoint("PLAINTEXT", "localhost", 9092),),
            rack=rack,
            log_dirs=(bytes(15) + bytes([broker_id]),),
            previous_broker_epoch=previous_epoch,
        )
        epoch = self.apply(brokers.register_broker(self.state, self.sessions, ask, self.offset, now_ms))
        assert isinstance(epoch, int)
        return epoch

    def heartbeat(self, broker_id: int, **wishes: bool) -> object:
        ask = BrokerHeartbeat(broker_id, self.image.brokers[broker_id].epoch, self.offset, **wishes)
        return self.apply(brokers.broker_heartbeat(self.state, ask))

    def join(self, broker_id: int, rack: str | None = None, incarnation: int = 1) -> None:
        self.register(broker_id, rack, incarnation)
        self.heartbeat(broker_id)

    def fence(self, broker_id: int) -> None:
        self.heartbeat(broker_id, want_fence=True)

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        found = self.image.partition(topic, index)
        assert found is not None
        return found
