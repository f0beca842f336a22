"""A stream's offsets as Spark writes them into the checkpoint: the JSON of Spark's Kafka connector, and some notes.

`{"topic": {"0": 42}}`, and where they apply, under names that no topic can have:

`@start`  where the query began, in the offsets of its first batch. Spark writes down only where a batch ends and asks
          again for the beginning when it repeats the first one, by when "latest" has become something else.
`@archive` which version of a table is read before the log, and how far (`archived_stream.py`).
`@group`  the consumer group that shows this progress, and the brokers that keep it, so that a sink of the same cluster
          can commit it with the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ottla.base.types import TopicName, TopicPartition

Json: TypeAlias = dict[str, Any]
_START, _GROUP = "@start", "@group"
ARCHIVE = "@archive"


class Group(NamedTuple):
    name: str
    brokers: str
    """As they are named in the options of the source."""


@dataclass(frozen=True)
class Progress:
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] | None = None
    """Only in the offsets of the first batch."""
    group: Group | None = None

    @classmethod
    def from_json(cls, offsets: Json) -> "Progress":
        began = offsets.get(_START)
        group = offsets.get(_GROUP)
        return cls(
            _places(offsets), None if began is None else _places(began), None if group is None else Group(**group)
        )

    @staticmethod
    def is_ours(offsets: Json) -> bool:
        """Whether these offsets have the form that this class gives them."""
        return all(
            isinstance(partitions, dict) and (topic.startswith("@") or all(map(str.isdecimal, partitions)))
            for topic, partitions in offsets.items()
        )

    def as_json(self) -> Json:
        offsets: Json = _by_topic(self.ends)
        if self.began is not None:
            offsets[_START] = _by_topic(self.began)
        if self.group is not None:
            offsets[_GROUP] = self.group._asdict()
        return offsets

    @property
    def is_beginning(self) -> bool:
        """Whether nothing has been read by this query."""
        return self.began is not None and self.began == self.ends

    def then(self, ends: Mapping[TopicPartition, int], group: Group | None = None) -> "Progress":
        """The end of the batch that begins here."""
        return Progress(ends, self.ends if self.is_beginning else None, group)


def _places(topics: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(TopicName(topic), int(index)): int(offset)
        for topic, partitions in topics.items()
        if not topic.startswith("@")
        for index, offset in partitions.items()
    }


def _by_topic(places: Mapping[TopicPartition, int]) -> Json:
    topics: Json = {}
    for place, offset in sorted(places.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return topics
