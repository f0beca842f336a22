"""Where replicas go: leaders striped over the brokers, the replicas of a partition over the racks.

Brokers are laid out so that neighbours stand in different racks, from a random start; each partition begins one
place further on than the one before. A fenced broker is taken only when there are not enough others, and never leads.
"""

from collections.abc import Iterable
from random import Random

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.entries import BrokerImage


def place_replicas(brokers: Iterable[BrokerImage], count: int, factor: int, random: Random) -> list[tuple[int, ...]]:
    """The replicas of `count` partitions, the preferred leader first."""
    known = sorted(brokers)
    usable = [broker for broker in known if broker.is_usable]
    if factor > len(known):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(known)} broker(s) are registered.",
        )
    if not usable:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled "
            "shutdown.",
        )
    ring = _striped(usable, random)
    spare = _striped([broker for broker in known if not broker.is_usable], random)
    start = random.randrange(len(ring))
    return [_replicas_of(ring, spare, start + index, factor) for index in range(count)]


def _striped(brokers: list[BrokerImage], random: Random) -> list[BrokerImage]:
    """Rack by rack in turn: neighbours stand in different racks as far as the racks allow."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    rows = list(racks.values())
    random.shuffle(rows)
    for row in rows:
        random.shuffle(row)
    return [row[at] for at in range(max(map(len, rows), default=0)) for row in rows if at < len(row)]


def _replicas_of(ring: list[BrokerImage], spare: list[BrokerImage], start: int, factor: int) -> tuple[int, ...]:
    size = len(ring)
    turn, first = divmod(start, size)
    # Each time round the ring the followers move on by one: no two brokers share all of their partitions.
    others = [ring[(first + 1 + (turn + step) % (size - 1)) % size] for step in range(size - 1)]
    chosen = [ring[first]]
    racks = {ring[first].rack}
    for candidates in (others, spare):
        for broker in candidates:
            if len(chosen) < factor and broker.rack not in racks:
                chosen.append(broker)
                racks.add(broker.rack)
        taken = {broker.id for broker in chosen}
        for broker in candidates:
            if len(chosen) < factor and broker.id not in taken:
                chosen.append(broker)
    return tuple(broker.id for broker in chosen)
