"""The nouns of the domain, each a type of its own so that a checker can tell an offset from an epoch."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
Epoch = NewType("Epoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
TopicName = NewType("TopicName", str)
Uuid = NewType("Uuid", bytes)
"""Sixteen raw bytes: what the wire carries, comparable and hashable without building an object per request."""

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
METADATA_TOPIC = TopicName("__cluster_metadata")
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
"""Coordinators write them; clients only read."""

NO_PRODUCER = ProducerId(-1)
NO_EPOCH = Epoch(-1)


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: bytes) -> str:
    """Kafka's way to print a UUID: base64url, 22 characters, no padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    if len(text) != 22 or not text.isascii():
        raise ValueError(f"a UUID has 22 characters of base64url, not {text[:40]!r}")
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"not base64url: {text!r}")
    return Uuid(raw)
