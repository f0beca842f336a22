"""ElectLeaders, ListPartitionReassignments, AlterPartitionReassignments: who leads and who holds a partition."""

from collections.abc import Iterable

from ottla.base.errors import ErrorCode, Refused
from ottla.broker.deadline import within
from ottla.broker.route import Call, Route, answering, versions
from ottla.core.metadata.asks import LeaderElection
from ottla.core.metadata.entries import PartitionImage
from ottla.core.metadata.image import ClusterImage
from ottla.runtime.controller import Controller
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_PREFERRED, _UNCLEAN = 0, 1


class ReassignmentsApi:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.ELECT_LEADERS, versions(0, 2), self.elect),
            Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions(0, 0), self.list),
            Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions(0, 1), self.alter),
        )

    async def elect(self, call: Call[ElectLeadersRequest]) -> ElectLeadersResponse:
        """ElectLeaders: the preferred leader, or from v1 on (KIP-460) any replica even if it lost records."""
        ask = call.request
        if ask.election_type not in (_PREFERRED, _UNCLEAN):
            raise Refused(ErrorCode.INVALID_REQUEST, f"election type {ask.election_type} is unknown")
        asked = None
        if ask.topic_partitions is not None:
            asked = list(
                dict.fromkeys((topic.topic, index) for topic in ask.topic_partitions for index in topic.partitions)
            )
        work = self._controller.elect_leaders(asked, ask.election_type == _UNCLEAN)
        return ElectLeadersResponse(replica_election_results=_by_topic(await within(ask.timeout_ms, work)))

    async def list(self, call: Call[ListPartitionReassignmentsRequest]) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments: what is moving now; null asks about all topics."""
        image = self._controller.image
        if call.request.topics is None:
            asked = {name: range(len(topic.partitions)) for name, topic in image.topics_by_name.items()}
            return ListPartitionReassignmentsResponse(topics=_moving(image, asked.items()))
        named = {topic.name: dict.fromkeys(topic.partition_indexes) for topic in call.request.topics}
        return ListPartitionReassignmentsResponse(topics=_moving(image, named.items()))

    async def alter(self, call: Call[AlterPartitionReassignmentsRequest]) -> AlterPartitionReassignmentsResponse:
        """AlterPartitionReassignments: replicas can stay where they are, which is all that one node can do."""
        response = AlterPartitionReassignmentsResponse()
        image = self._controller.image
        for topic in call.request.topics:
            answer = ReassignableTopicResponse(topic.name)
            for one in topic.partitions:
                result = ReassignablePartitionResponse(one.partition_index)
                answer.partitions.append(result)
                with answering(result):
                    entry = image.partition(topic.name, one.partition_index)
                    if entry is None:
                        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
                    _check_reassignment(image, entry, one.replicas)
            response.responses.append(answer)
        return response


def _check_reassignment(image: ClusterImage, entry: PartitionImage, replicas: list[int] | None) -> None:
    if replicas is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition's replicas are not moving")
    unknown = [replica for replica in replicas if replica not in image.brokers]
    if not replicas or unknown or len(set(replicas)) != len(replicas):
        why = (
            f"broker {unknown[0]} is not registered" if unknown else "the replicas must be different, and at least one"
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    if tuple(replicas) != entry.replicas:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replicas cannot be moved between nodes yet")


def _by_topic(elections: Iterable[LeaderElection]) -> list[ReplicaElectionResult]:
    results: dict[str, ReplicaElectionResult] = {}
    for election in elections:
        result = results.setdefault(election.topic, ReplicaElectionResult(election.topic))
        result.partition_result.append(PartitionResult(election.partition, int(election.error), election.why))
    return list(results.values())


def _moving(image: ClusterImage, asked: Iterable[tuple[str, Iterable[int]]]) -> list[OngoingTopicReassignment]:
    answers: list[OngoingTopicReassignment] = []
    for name, indexes in asked:
        entries = (image.partition(name, index) for index in indexes)
        moving = [
            OngoingPartitionReassignment(entry.index, list(entry.replicas), list(entry.adding), list(entry.removing))
            for entry in entries
            if entry is not None and (entry.adding or entry.removing)
        ]
        if moving:
            answers.append(OngoingTopicReassignment(name, moving))
    return answers
