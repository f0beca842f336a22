"""What is known about a cluster: brokers, topics, leaders. A picture that is replaced topic by topic; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.types import ZERO_UUID, TopicPartition
from ottla.client.addresses import Address
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class TopicView(NamedTuple):
    id: bytes
    is_internal: bool
    leaders: dict[int, int]
    """By partition; NO_LEADER where there is none, or none that is known."""

    @property
    def has_id(self) -> bool:
        """Old clusters do without."""
        return self.id != ZERO_UUID


@dataclass
class ClusterView:
    brokers: dict[int, Address] = field(default_factory=dict)
    topics: dict[str, TopicView] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Of the topics that were asked for and are not there."""

    def update(self, response: MetadataResponse) -> None:
        self.brokers = {one.node_id: (one.host, one.port) for one in response.brokers}
        for topic in response.topics:
            if topic.name is None:
                continue
            self.errors.pop(topic.name, None)
            self.topics.pop(topic.name, None)
            if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                self.errors[topic.name] = topic.error_code
            else:
                self._learn(topic.name, topic)

    def _learn(self, name: str, topic: MetadataResponseTopic) -> None:
        leaders = {
            one.partition_index: one.leader_id if one.leader_id in self.brokers else NO_LEADER
            for one in topic.partitions
        }
        self.topics[name] = TopicView(bytes(topic.topic_id), topic.is_internal, leaders)

    def leader(self, place: TopicPartition) -> int:
        topic = self.topics.get(place.topic)
        return NO_LEADER if topic is None else topic.leaders.get(place.partition, NO_LEADER)

    def drop_leader(self, place: TopicPartition) -> None:
        """It says that it is none."""
        topic = self.topics.get(place.topic)
        if topic is not None and place.partition in topic.leaders:
            topic.leaders[place.partition] = NO_LEADER

    def without_leader(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [place for place in places if self.leader(place) == NO_LEADER]


def by_topic(places: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """The shape in which nearly every request names partitions."""
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics
