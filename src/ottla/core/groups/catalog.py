"""The topics of the cluster as a coordinator sees them, with a number that grows whenever they change."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import blake2b

from ottla.core.groups.asks import Topic


class Topics(dict[str, Topic]):
    """The topics by name, not to be changed any more: one object serves all shards of a node."""

    @cached_property
    def names(self) -> dict[bytes, str]:
        return {topic.id: name for name, topic in self.items()}

    @cached_property
    def ids(self) -> dict[str, bytes]:
        return {name: topic.id for name, topic in self.items()}


class Catalog:
    __slots__ = ("topics", "version")

    def __init__(self) -> None:
        self.topics = Topics()
        self.version = 0

    @property
    def names(self) -> dict[bytes, str]:
        return self.topics.names

    @property
    def ids(self) -> dict[str, bytes]:
        return self.topics.ids

    def replace(self, topics: Mapping[str, Topic]) -> frozenset[str]:
        """Take over the new topics; returns the names that no longer stand for what they stood for."""
        gone = frozenset(
            name for name, topic in self.topics.items() if name not in topics or topics[name].id != topic.id
        )
        if topics != self.topics:
            self.topics = topics if isinstance(topics, Topics) else Topics(topics)
            self.version += 1
        return gone

    def partition_counts(self, names: Iterable[str]) -> dict[bytes, int]:
        found = (self.topics.get(name) for name in names)
        return {topic.id: topic.partition_count for topic in found if topic is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """A number that changes with the existence, identity and size of these topics; 0 if there is none."""
        digest = blake2b(digest_size=8)
        found = [(name, self.topics[name]) for name in sorted(names) if name in self.topics]
        if not found:
            return 0
        for name, topic in found:
            digest.update(b"%s\0%s%d\0" % (name.encode(), topic.id, topic.partition_count))
        return int.from_bytes(digest.digest(), "big", signed=True)
