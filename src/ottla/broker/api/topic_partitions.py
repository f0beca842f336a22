"""DescribeTopicPartitions: the partitions of topics page by page, with their eligible leaders (KIP-966)."""

from collections.abc import Iterable, Sequence

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import INTERNAL_TOPICS
from ottla.broker.endpoints import Endpoints, offline_replicas
from ottla.broker.operations import ALL_ON_TOPIC
from ottla.broker.route import Call, Route, versions
from ottla.core.metadata.entries import PartitionImage
from ottla.core.metadata.image import ClusterImage
from ottla.core.metadata.topics import check_topic_name
from ottla.runtime.controller import Controller
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.messages.index import ApiKey


class TopicPartitionsApi:
    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._endpoints = Endpoints(config)
        self._partitions_max = config.max_request_partition_size_limit

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions(0, 0), self.describe),)

    async def describe(self, call: Call[DescribeTopicPartitionsRequest]) -> DescribeTopicPartitionsResponse:
        """DescribeTopicPartitions: topics in order of their names, up to a number of partitions, then a cursor."""
        ask = call.request
        image = self._controller.image
        names = sorted({topic.name for topic in ask.topics} if ask.topics else image.topics_by_name)
        first_index = 0
        if ask.cursor is not None:
            if _is_bad(ask.cursor, names if ask.topics else None):
                # The answer has no error code of its own: every topic that is asked for carries it.
                return _refused([topic.name for topic in ask.topics] or [ask.cursor.topic_name])
            names = [name for name in names if name >= ask.cursor.topic_name]
            if names and names[0] == ask.cursor.topic_name:
                first_index = ask.cursor.partition_index
        left = max(1, min(ask.response_partition_limit, self._partitions_max))
        reachable = frozenset(broker.id for broker in self._endpoints.brokers(image, call.peer))
        response = DescribeTopicPartitionsResponse()
        for name in names:
            if left == 0:
                response.next_cursor = Cursor(name, 0)
                break
            answer = _described(image, name, range(first_index, first_index + left), reachable)
            response.topics.append(answer)
            left -= len(answer.partitions)
            end = first_index + len(answer.partitions)
            first_index = 0
            topic = image.topics_by_name.get(name)
            if topic is not None and left == 0 and end < len(topic.partitions):
                response.next_cursor = Cursor(name, end)
                break
        return response


def _is_bad(cursor: Cursor, names: Sequence[str] | None) -> bool:
    return cursor.partition_index < 0 or (names is not None and cursor.topic_name not in names)


def _refused(names: Iterable[str]) -> DescribeTopicPartitionsResponse:
    code = int(ErrorCode.INVALID_REQUEST)
    topics = [DescribeTopicPartitionsResponseTopic(code, name) for name in dict.fromkeys(names)]
    return DescribeTopicPartitionsResponse(topics=topics)


def _described(
    image: ClusterImage, name: str, indexes: range, reachable: frozenset[int]
) -> DescribeTopicPartitionsResponseTopic:
    answer = DescribeTopicPartitionsResponseTopic(
        name=name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=ALL_ON_TOPIC
    )
    topic = image.topics_by_name.get(name)
    if topic is None:
        answer.error_code = int(_why_missing(name))
        return answer
    answer.topic_id = topic.id
    for entry in topic.partitions[indexes.start : indexes.stop]:
        answer.partitions.append(_partition(image, entry, reachable))
    return answer


def _why_missing(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except Refused as refusal:
        return refusal.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    image: ClusterImage, entry: PartitionImage, reachable: frozenset[int]
) -> DescribeTopicPartitionsResponsePartition:
    is_led = entry.leader in reachable
    return DescribeTopicPartitionsResponsePartition(
        int(ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE),
        entry.index,
        entry.leader if is_led else -1,
        entry.leader_epoch,
        list(entry.replicas),
        list(entry.isr),
        list(entry.elr),
        list(entry.last_known_elr),
        offline_replicas(image, entry),
    )
