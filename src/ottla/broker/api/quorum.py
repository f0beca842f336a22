"""DescribeQuorum, UpdateFeatures, UnregisterBroker: the metadata quorum and what the cluster has agreed on."""

import asyncio

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import METADATA_TOPIC
from ottla.broker.deadline import within
from ottla.broker.route import Call, Route, answering, versions
from ottla.core.metadata.asks import FeatureUpdate
from ottla.runtime.clock import now_ms
from ottla.runtime.controller import Controller
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_UPGRADE, _SAFE_DOWNGRADE = 1, 2


class QuorumApi:
    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._me = int(config.node_id)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.DESCRIBE_QUORUM, versions(0, 2), self.describe),
            Route(ApiKey.UPDATE_FEATURES, versions(0, 2), self.update_features),
            Route(ApiKey.UNREGISTER_BROKER, versions(0, 0), self.unregister),
        )

    async def describe(self, call: Call[DescribeQuorumRequest]) -> DescribeQuorumResponse:
        """DescribeQuorum. v1 adds when each replica last fetched (KIP-836), v2 where the voters listen (KIP-853)."""
        response = DescribeQuorumResponse(error_message="")
        for topic in call.request.topics:
            answer = ResponseTopicData(topic.topic_name)
            response.topics.append(answer)
            for index in dict.fromkeys(one.partition_index for one in topic.partitions):
                result = ResponsePartitionData(index, error_message="")
                answer.partitions.append(result)
                with answering(result):
                    if topic.topic_name != METADATA_TOPIC or index != 0:
                        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the quorum is that of {METADATA_TOPIC}-0")
                    self._describe(result)
                    response.nodes = self._nodes(result)
        return response

    def _describe(self, result: ResponsePartitionData) -> None:
        status = self._controller.quorum_status()
        if not self._controller.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {status.leader_id} leads the quorum")
        result.leader_id, result.leader_epoch = status.leader_id, status.epoch
        result.high_watermark = status.high_watermark
        wall_ms, steady_ms = now_ms(), int(asyncio.get_running_loop().time() * 1000)
        for replica in status.replicas:
            state = ReplicaState(replica.id, replica.directory_id, replica.end_offset)
            if replica.id == status.leader_id:
                state.last_fetch_timestamp = state.last_caught_up_timestamp = wall_ms
            elif replica.last_fetch_ms >= 0:
                # The quorum counts on a clock that nobody can set back; a date is made of it only here.
                state.last_fetch_timestamp = wall_ms - (steady_ms - replica.last_fetch_ms)
                state.last_caught_up_timestamp = wall_ms - (steady_ms - replica.last_caught_up_ms)
            (result.current_voters if replica.is_voter else result.observers).append(state)

    def _nodes(self, result: ResponsePartitionData) -> list[Node]:
        """A node that is broker and controller in one has one set of listeners."""
        brokers = self._controller.image.brokers
        voters = [brokers[voter.replica_id] for voter in result.current_voters if voter.replica_id in brokers]
        return [Node(voter.id, [Listener(e.name, e.host, e.port) for e in voter.endpoints]) for voter in voters]

    async def update_features(self, call: Call[UpdateFeaturesRequest]) -> UpdateFeaturesResponse:
        """UpdateFeatures. v0 may allow a downgrade, v1 says of which kind, v2 has one error for all (KIP-584)."""
        ask = call.request
        updates = [_update(each, call.version) for each in ask.feature_updates]
        work = self._controller.update_features(updates, ask.validate_only)
        done = await within(ask.timeout_ms, work)
        failed = next((each for each in done if each.error != ErrorCode.NONE), None)
        if failed is not None:
            return UpdateFeaturesResponse(0, int(failed.error), failed.why)
        return UpdateFeaturesResponse(error_message="", results=[UpdatableFeatureResult(each.name) for each in done])

    async def unregister(self, call: Call[UnregisterBrokerRequest]) -> UnregisterBrokerResponse:
        """UnregisterBroker: forget a broker that will not come back."""
        broker_id = call.request.broker_id
        if broker_id == self._me:
            raise Refused(ErrorCode.INVALID_REQUEST, f"broker {broker_id} is the one that answers")
        await self._controller.unregister_broker(broker_id)
        return UnregisterBrokerResponse()


def _update(each: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type = each.upgrade_type
    if version == 0:
        upgrade_type = _SAFE_DOWNGRADE if each.allow_downgrade else _UPGRADE
    return FeatureUpdate(each.feature, each.max_version_level, upgrade_type)
