"""A stream's offsets as Spark writes them into the checkpoint: the JSON of Spark's Kafka connector, and two notes.

`{"topic": {"0": 42}}`, and where they apply, under names that no topic can have:

`@start`  where the query began, in the offsets of its first batch. Spark writes down only where a batch ends and asks
          again for the beginning when it repeats the first one, by when "latest" has become something else.
`@group`  the consumer group that shows this progress, so that a sink can commit it with the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ottla.base.types import TopicName, TopicPartition

Json: TypeAlias = dict[str, Any]
_START, _GROUP = "@start", "@group"


@dataclass(frozen=True)
class Progress:
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] | None = None
    """Only in the offsets of the first batch."""
    group: str | None = None

    @classmethod
    def from_json(cls, offsets: Json) -> "Progress":
        began = offsets.get(_START)
        return cls(_places(offsets), None if began is None else _places(began), offsets.get(_GROUP))

    def as_json(self) -> Json:
        offsets: Json = _by_topic(self.ends)
        if self.began is not None:
            offsets[_START] = _by_topic(self.began)
        if self.group is not None:
            offsets[_GROUP] = self.group
        return offsets

    @property
    def is_beginning(self) -> bool:
        """Whether nothing has been read by this query."""
        return self.began is not None and self.began == self.ends

    def then(self, ends: Mapping[TopicPartition, int]) -> "Progress":
        """The end of the batch that begins here."""
        return Progress(ends, self.ends if self.is_beginning else None, self.group)


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
