"""CreateTopics, DeleteTopics, CreatePartitions: the controller decides, the answer waits until the topic is usable."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import ZERO_UUID
from ottla.broker.deadline import within
from ottla.broker.route import Call, Route, refuse, versions
from ottla.broker.setting_view import SettingViews
from ottla.core.metadata.asks import (
    Assignment,
    NewPartitions,
    NewTopic,
    PartitionsCreation,
    TopicCreation,
    TopicDeletion,
    TopicRef,
)
from ottla.runtime.controller import Controller
from ottla.runtime.replicas import Replicas
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.index import ApiKey

Name = TypeVar("Name", bound=Hashable)

_TELLS_CONFIGS = 5
_NAMES_IN_OBJECTS = 6
_KNOWS_DELETION_DISABLED = 3


class TopicsApi:
    def __init__(self, controller: Controller, replicas: Replicas, config: BrokerConfig) -> None:
        self._controller = controller
        self._replicas = replicas
        self._views = SettingViews(config)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.CREATE_TOPICS, versions(2, 7), self.create),
            Route(ApiKey.DELETE_TOPICS, versions(1, 6), self.delete),
            Route(ApiKey.CREATE_PARTITIONS, versions(0, 3), self.add_partitions),
        )

    async def create(self, call: Call[CreateTopicsRequest]) -> CreateTopicsResponse:
        """CreateTopics. v5 tells the settings and the size of what was made, v7 its id."""
        ask = call.request
        twice = _twice(topic.name for topic in ask.topics)
        results = {topic.name: CreatableTopicResult(topic.name) for topic in ask.topics}
        for name in twice:
            refuse(results[name], Refused(ErrorCode.INVALID_REQUEST, "the topic is named twice"))
        wanted = [_new_topic(topic) for topic in ask.topics if topic.name not in twice]
        try:
            made = await within(ask.timeout_ms, self._create(wanted, ask.validate_only)) if wanted else []
        except Refused as refusal:
            for new in wanted:
                refuse(results[new.name], refusal)
        else:
            for creation in made:
                self._tell(creation, results[creation.name], call.version)
        return CreateTopicsResponse(topics=list(results.values()))

    async def _create(self, wanted: list[NewTopic], validate_only: bool) -> list[TopicCreation]:
        made = await self._controller.create_topics(wanted, validate_only)
        if not validate_only:
            for creation in made:
                if creation.error == ErrorCode.NONE:
                    await self._replicas.opened(creation.name)
        return made

    def _tell(self, creation: TopicCreation, result: CreatableTopicResult, version: int) -> None:
        if creation.error != ErrorCode.NONE:
            refuse(result, Refused(creation.error, creation.why or ""))
            return
        result.topic_id = creation.id
        result.num_partitions = creation.partition_count
        result.replication_factor = creation.replication_factor
        if version >= _TELLS_CONFIGS:
            views = self._views.topic(self._controller.image, creation.configs)
            result.configs = [
                CreatableTopicConfigs(view.row.name, view.value, view.is_read_only, int(view.source), False)
                for view in views
            ]

    async def delete(self, call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
        """DeleteTopics. v6 names topics by name or by id; before v3 there was no code for a forbidden deletion."""
        ask = call.request
        if call.version >= _NAMES_IN_OBJECTS:
            refs = [TopicRef(topic.name, topic.topic_id) for topic in ask.topics]
        else:
            refs = [TopicRef(name) for name in ask.topic_names]
        # Nameless and without an id are no duplicates of each other: each is wrong by itself.
        twice = _twice(ref for ref in refs if ref.name is not None or ref.id != ZERO_UUID)
        response = DeleteTopicsResponse()
        for ref in twice:
            why = "the topic is named twice"
            response.responses.append(DeletableTopicResult(ref.name, ref.id, int(ErrorCode.INVALID_REQUEST), why))
        wanted = [ref for ref in refs if ref not in twice]
        try:
            gone = await within(ask.timeout_ms, self._controller.delete_topics(wanted)) if wanted else []
        except Refused as refusal:
            gone = [TopicDeletion(ref.name, ref.id, refusal.code, refusal.why) for ref in wanted]
        for deletion in gone:
            code = deletion.error
            if code == ErrorCode.TOPIC_DELETION_DISABLED and call.version < _KNOWS_DELETION_DISABLED:
                code = ErrorCode.INVALID_REQUEST
            response.responses.append(DeletableTopicResult(deletion.name, deletion.id, int(code), deletion.why))
        return response

    async def add_partitions(self, call: Call[CreatePartitionsRequest]) -> CreatePartitionsResponse:
        """CreatePartitions: the total that a topic shall have, or where the added partitions go."""
        ask = call.request
        twice = _twice(topic.name for topic in ask.topics)
        results = {topic.name: CreatePartitionsTopicResult(topic.name) for topic in ask.topics}
        for name in twice:
            refuse(results[name], Refused(ErrorCode.INVALID_REQUEST, "the topic is named twice"))
        wanted = [_new_partitions(topic) for topic in ask.topics if topic.name not in twice]
        try:
            made = await within(ask.timeout_ms, self._add(wanted, ask.validate_only)) if wanted else []
        except Refused as refusal:
            for new in wanted:
                refuse(results[new.name], refusal)
        else:
            for creation in made:
                if creation.error != ErrorCode.NONE:
                    refuse(results[creation.name], Refused(creation.error, creation.why or ""))
        return CreatePartitionsResponse(results=list(results.values()))

    async def _add(self, wanted: list[NewPartitions], validate_only: bool) -> list[PartitionsCreation]:
        made = await self._controller.create_partitions(wanted, validate_only)
        if not validate_only:
            for creation in made:
                if creation.error == ErrorCode.NONE:
                    await self._replicas.opened(creation.name)
        return made


def _twice(names: Iterable[Name]) -> set[Name]:
    return {name for name, times in Counter(names).items() if times > 1}


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(Assignment(one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    if topic.assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(one.broker_ids) for one in topic.assignments))
