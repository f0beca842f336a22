"""Which brokers a client may be sent to, and under which address: that of the listener it came in on (KIP-103)."""

from typing import NamedTuple

from ottla.base.broker_settings import BrokerConfig
from ottla.core.metadata.entries import UNASSIGNED_DIRECTORY, BrokerImage, PartitionImage
from ottla.core.metadata.image import ClusterImage
from ottla.net.connection import Peer

_EVERYWHERE = frozenset(("", "0.0.0.0", "::"))
_MIGRATING_DIRECTORY = bytes(15) + b"\x02"


class BrokerAddress(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Endpoints:
    """The brokers as one listener's clients reach them."""

    def __init__(self, config: BrokerConfig) -> None:
        self._me = int(config.node_id)
        advertised = {listener.name for listener in config.advertised_listeners}
        self._unnamed = frozenset(
            listener.name
            for listener in config.listeners
            if listener.host in _EVERYWHERE and listener.name not in advertised
        )

    def brokers(self, image: ClusterImage, peer: Peer, with_fenced: bool = False) -> list[BrokerAddress]:
        found = (self._address(broker, peer) for broker in image.brokers.values() if with_fenced or not broker.fenced)
        return [address for address in found if address is not None]

    def _address(self, broker: BrokerImage, peer: Peer) -> BrokerAddress | None:
        for endpoint in broker.endpoints:
            if endpoint.name == peer.listener:
                host = endpoint.host
                if broker.id == self._me and peer.listener in self._unnamed and peer.local_host:
                    # Bound to every address and told no name: the client has just shown one that works for it.
                    host = peer.local_host
                return BrokerAddress(broker.id, host, endpoint.port, broker.rack, broker.fenced)
        return None


def controller_id(leader_id: int | None, brokers: list[BrokerAddress]) -> int:
    """The broker that takes administrative requests; any may, and a client wants one that it can reach."""
    ids = [broker.id for broker in brokers if not broker.is_fenced]
    return leader_id if leader_id is not None and leader_id in ids else min(ids, default=-1)


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> list[int]:
    """Replicas whose broker is fenced or gone, or lies in a directory that its broker has lost (KIP-858)."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=False)
        if not _is_online(image.brokers.get(replica), directory)
    ]


def _is_online(broker: BrokerImage | None, directory: bytes) -> bool:
    if broker is None or broker.fenced:
        return False
    if directory in (UNASSIGNED_DIRECTORY, _MIGRATING_DIRECTORY):
        return True
    return not broker.log_dirs or directory in broker.log_dirs
