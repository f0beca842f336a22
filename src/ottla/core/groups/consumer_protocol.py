"""What consumers of the classic protocol put into their subscription and assignment bytes.

Both begin with an int16 version. A later version than we know is read as the last known one: its new fields come last.
Bytes that cannot be read are nobody's fault here (any client may put anything there): they say nothing.
"""

from struct import Struct
from typing import NamedTuple

from ottla.core.groups.records import Partitions, TopicIdPartition
from ottla.wire.malformed import Malformed
from ottla.wire.primitives import Buffer
from ottla.wire.state.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_int16 = Struct(">h")


class ConsumerSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: tuple[tuple[str, int], ...]
    rack_id: str | None
    generation_id: int = -1
    """The generation that gave it what it owns, where its client says so: of two claims the later one is true."""


def read_subscription(metadata: bytes) -> ConsumerSubscription | None:
    if len(metadata) < _int16.size:
        return None
    (version,) = _int16.unpack_from(metadata)
    known = min(version, ConsumerProtocolSubscription.MAX_VERSION)
    try:
        message, _ = ConsumerProtocolSubscription.decode(memoryview(metadata), _int16.size, known)
    except Malformed:
        return None
    owned = tuple((entry.topic, partition) for entry in message.owned_partitions for partition in entry.partitions)
    return ConsumerSubscription(version, tuple(message.topics), owned, message.rack_id, message.generation_id)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    subscription = read_subscription(metadata)
    return None if subscription is None else frozenset(subscription.topics)


def read_assignment(assignment: bytes) -> tuple[tuple[str, int], ...]:
    if len(assignment) < _int16.size:
        return ()
    (version,) = _int16.unpack_from(assignment)
    known = min(version, ConsumerProtocolAssignment.MAX_VERSION)
    try:
        message, _ = ConsumerProtocolAssignment.decode(memoryview(assignment), _int16.size, known)
    except Malformed:
        return ()
    return tuple((entry.topic, partition) for entry in message.assigned_partitions for partition in entry.partitions)


def owes_another_join(metadata: bytes, assignment: bytes) -> bool:
    """Whether a cooperative member was told to let go of something and then to join again, for others to get it."""
    said = read_subscription(metadata)
    return said is not None and not set(said.owned) <= set(read_assignment(assignment))


def write_assignment(partitions: Partitions, names: dict[bytes, str], version: int) -> bytes:
    """An assignment as a client of the classic protocol reads it; topics that are gone are left out."""
    topics: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        if topic_id in names:
            topics.setdefault(names[topic_id], []).append(partition)
    entries = [ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=topics[name]) for name in sorted(topics)]
    known = max(0, min(version, ConsumerProtocolAssignment.MAX_VERSION))
    out = Buffer()
    out += _int16.pack(known)
    ConsumerProtocolAssignment(assigned_partitions=entries, user_data=None).encode(out, known)
    return bytes(out)


def with_ids(pairs: tuple[tuple[str, int], ...], ids: dict[str, bytes]) -> Partitions:
    found: list[TopicIdPartition] = [(ids[topic], partition) for topic, partition in pairs if topic in ids]
    return frozenset(found)
