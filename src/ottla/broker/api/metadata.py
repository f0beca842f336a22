"""Metadata and DescribeCluster: which topics there are, who leads their partitions, where the brokers are."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import TOPICS_CREATED_BY_ASKING_MAX
from ottla.base.types import INTERNAL_TOPICS, METADATA_TOPIC, ZERO_UUID
from ottla.broker.endpoints import Endpoints, controller_id, offline_replicas
from ottla.broker.operations import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_ASKED
from ottla.broker.route import Call, Route, refuse, versions
from ottla.core.metadata.asks import NewTopic
from ottla.core.metadata.entries import PartitionImage, TopicImage
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.topics import check_topic_name
from ottla.runtime.controller import Controller
from ottla.runtime.replicas import Replicas
from ottla.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NOT_TO_BE_CREATED = INTERNAL_TOPICS | {METADATA_TOPIC}
_CHOOSES_CREATION = 4
_TELLS_LISTENER = 6
_BY_ID_VERSION = 12
_BROKER_ENDPOINT, _CONTROLLER_ENDPOINT = 1, 2


class MetadataApi:
    def __init__(self, controller: Controller, replicas: Replicas, config: BrokerConfig, cluster_id: str) -> None:
        self._controller = controller
        self._replicas = replicas
        self._config = config
        self._cluster_id = cluster_id
        self._endpoints = Endpoints(config)
        self._leaders = _Leaders()
        controller.subscribe(self._leaders.on_image)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.METADATA, versions(0, 13), self.metadata),
            Route(ApiKey.DESCRIBE_CLUSTER, versions(0, 2), self.describe_cluster),
        )

    async def metadata(self, call: Call[MetadataRequest]) -> MetadataResponse:
        """Metadata. v0 means all topics by none, later ones by null; v4 can forbid creation, v12 asks by id."""
        ask = call.request
        asks_all = ask.topics is None or (call.version == 0 and not ask.topics)
        may_create = ask.allow_auto_topic_creation or call.version < _CHOOSES_CREATION
        refusals: dict[str, Refused] = {}
        if may_create and not asks_all and self._config.auto_create_topics_enable:
            refusals = await self._create_missing(ask.topics or ())
        image = self._controller.image
        brokers = self._endpoints.brokers(image, call.peer)
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(each.id, each.host, each.port, each.rack) for each in brokers],
            cluster_id=self._cluster_id,
            controller_id=controller_id(self._controller.leader_id, brokers),
            cluster_authorized_operations=ALL_ON_CLUSTER if ask.include_cluster_authorized_operations else NOT_ASKED,
        )
        operations = ALL_ON_TOPIC if ask.include_topic_authorized_operations else NOT_ASKED
        reachable = frozenset(each.id for each in brokers)
        for topic in image.topics_by_name.values() if asks_all else _asked(image, ask.topics or (), call.version):
            if isinstance(topic, TopicImage):
                partitions = self._leaders.of(topic, image, reachable, call.version)
                is_internal = topic.name in INTERNAL_TOPICS
                answer = MetadataResponseTopic(0, topic.name, topic.id, is_internal, partitions, operations)
            else:
                answer = topic
                if answer.name in refusals:
                    refuse(answer, refusals[answer.name])
            response.topics.append(answer)
        return response

    async def _create_missing(self, topics: Iterable[MetadataRequestTopic]) -> dict[str, Refused]:
        """Create what is asked for by a name that may be given; the names that were refused, and why.

        The internal topics belong to coordinators, which create them with settings of their own.
        """
        known = self._controller.image.topics_by_name
        wanted = [t.name for t in topics if t.topic_id == ZERO_UUID and t.name is not None and t.name not in known]
        legal = dict.fromkeys(name for name in wanted if _is_legal(name) and name not in _NOT_TO_BE_CREATED)
        names = list(islice(legal, TOPICS_CREATED_BY_ASKING_MAX))
        if not names:
            return {}
        refusals: dict[str, Refused] = {}
        try:
            made = await self._controller.create_topics([NewTopic(name) for name in names])
        except Refused as refusal:
            return dict.fromkeys(names, refusal)
        for creation in made:
            if creation.error == ErrorCode.NONE or creation.error == ErrorCode.TOPIC_ALREADY_EXISTS:
                await self._replicas.opened(creation.name)
            else:
                refusals[creation.name] = Refused(creation.error, creation.why or "")
        return refusals

    async def describe_cluster(self, call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
        """DescribeCluster. v1 tells brokers from controllers (KIP-919), v2 may list fenced brokers (KIP-1073)."""
        ask = call.request
        if ask.endpoint_type == _CONTROLLER_ENDPOINT:
            why = "this listener serves brokers' requests, not controllers'"
            raise Refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why)
        if ask.endpoint_type != _BROKER_ENDPOINT:
            raise Refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {ask.endpoint_type} is unknown")
        brokers = self._endpoints.brokers(self._controller.image, call.peer, ask.include_fenced_brokers)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=controller_id(self._controller.leader_id, brokers),
            brokers=[DescribeClusterBroker(*each) for each in brokers],
            cluster_authorized_operations=ALL_ON_CLUSTER if ask.include_cluster_authorized_operations else NOT_ASKED,
        )


def _asked(
    image: ClusterImage, topics: Iterable[MetadataRequestTopic], version: int
) -> list[TopicImage | MetadataResponseTopic]:
    """Every topic that is asked for, once, in the order of the request; what is not there with its error."""
    found: dict[object, TopicImage | MetadataResponseTopic] = {}
    for topic in topics:
        if topic.topic_id != ZERO_UUID and version >= _BY_ID_VERSION:
            known = image.topics_by_id.get(topic.topic_id)
            missing = MetadataResponseTopic(int(ErrorCode.UNKNOWN_TOPIC_ID), topic_id=topic.topic_id)
        elif topic.topic_id != ZERO_UUID or topic.name is None:
            # Topic ids stand in requests from version 10 on, but mean something from version 12 on only.
            known = None
            missing = MetadataResponseTopic(int(ErrorCode.INVALID_REQUEST), topic.name or "", topic.topic_id)
        else:
            known = image.topics_by_name.get(topic.name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if known is None and not _is_legal(topic.name):
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
            missing = MetadataResponseTopic(int(code), topic.name, is_internal=topic.name in INTERNAL_TOPICS)
        if known is None:
            found.setdefault((missing.name, missing.topic_id), missing)
        else:
            found.setdefault(known.name, known)
    return list(found.values())


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except Refused:
        return False
    return True


class _Leaders:
    """Answers about the partitions of a topic, kept until the image changes them: they are asked for all the time."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, frozenset[int]], list[MetadataResponsePartition]] = {}

    def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.whole or delta.brokers:
            self._known.clear()
            return
        changed = delta.partitions.keys() | delta.topics_deleted.keys()
        if changed:
            for key in [key for key in self._known if key[0] in changed]:
                del self._known[key]

    def of(
        self, topic: TopicImage, image: ClusterImage, reachable: frozenset[int], version: int
    ) -> list[MetadataResponsePartition]:
        if version < _TELLS_LISTENER:
            return _described(topic, image, reachable, version)
        known = self._known.get((topic.id, reachable))
        if known is None or len(known) != len(topic.partitions):
            known = self._known[topic.id, reachable] = _described(topic, image, reachable, version)
        return known


class _Shape(NamedTuple):
    """What an answer says of a partition besides its number; most partitions of a topic share a few of these."""

    error: int
    leader: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def _described(
    topic: TopicImage, image: ClusterImage, reachable: frozenset[int], version: int
) -> list[MetadataResponsePartition]:
    shapes: dict[object, _Shape] = {}
    answers: list[MetadataResponsePartition] = []
    for entry in topic.partitions:
        key = (entry.leader, entry.replicas, entry.isr, entry.directories)
        shape = shapes.get(key)
        if shape is None:
            shape = shapes[key] = _shape(entry, image, reachable, version)
        error, leader, replicas, isr, offline = shape
        answers.append(
            MetadataResponsePartition(error, entry.index, leader, entry.leader_epoch, replicas, isr, offline)
        )
    return answers


def _shape(entry: PartitionImage, image: ClusterImage, reachable: frozenset[int], version: int) -> _Shape:
    replicas, isr = list(entry.replicas), list(entry.isr)
    error, leader = ErrorCode.NONE, entry.leader
    if version == 0:
        # The oldest clients take every replica that they are told of for one that they can reach.
        if not reachable.issuperset(replicas):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, isr = [r for r in replicas if r in reachable], [r for r in isr if r in reachable]
    if leader not in reachable:
        is_led_elsewhere = leader >= 0 and version >= _TELLS_LISTENER and leader in image.brokers
        error = ErrorCode.LISTENER_NOT_FOUND if is_led_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
        leader = -1
    return _Shape(int(error), leader, replicas, isr, offline_replicas(image, entry))
