"""Finding coordinators, and looking after groups: list, describe, delete."""

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.broker.endpoints import Endpoints
from ottla.broker.operations import ALL_ON_GROUP, NOT_ASKED
from ottla.broker.route import Call, Route, refuse, versions
from ottla.core.groups import asks
from ottla.net.connection import Peer
from ottla.runtime.controller import Controller
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.runtime.transaction_coordinator import TransactionCoordinator
from ottla.wire.messages import consumer_group_describe as consumer_describe
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BATCHED_FIND = 4
_TELLS_NOT_FOUND = 6
_DEAD = "Dead"


class GroupAdminApi:
    def __init__(
        self,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        controller: Controller,
        config: BrokerConfig,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._controller = controller
        self._endpoints = Endpoints(config)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.FIND_COORDINATOR, versions(0, 6), self.find_coordinator),
            Route(ApiKey.LIST_GROUPS, versions(0, 5), self.list_groups),
            Route(ApiKey.DESCRIBE_GROUPS, versions(0, 6), self.describe_groups),
            Route(ApiKey.CONSUMER_GROUP_DESCRIBE, versions(0, 1), self.describe_consumer_groups),
            Route(ApiKey.DELETE_GROUPS, versions(0, 2), self.delete_groups),
        )

    async def find_coordinator(self, call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
        """FindCoordinator. v1 asks for groups or transactions, v4 for several keys at once."""
        ask = call.request
        if call.version >= _BATCHED_FIND:
            found = [await self._find(key, ask.key_type, call.peer) for key in ask.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        one = await self._find(ask.key, ask.key_type, call.peer)
        return FindCoordinatorResponse(0, one.error_code, one.error_message, one.node_id, one.host, one.port)

    async def _find(self, key: str, key_type: int, peer: Peer) -> Coordinator:
        answer = Coordinator(key, -1, "", -1)
        try:
            node_id = await self._node_of(key, key_type)
            for broker in self._endpoints.brokers(self._controller.image, peer):
                if broker.id == node_id:
                    answer.node_id, answer.host, answer.port = broker.id, broker.host, broker.port
                    return answer
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {node_id} is not on this listener")
        except Refused as refusal:
            refuse(answer, refusal)
        return answer

    async def _node_of(self, key: str, key_type: int) -> int:
        if key_type == _GROUP:
            return await self._groups.node_of(key)
        if key_type == _TRANSACTION:
            return await self._transactions.node_of(key)
        if key_type == _SHARE:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, "share groups are not served by this node")
        raise Refused(ErrorCode.INVALID_REQUEST, f"coordinator type {key_type} is unknown")

    async def list_groups(self, call: Call[ListGroupsRequest]) -> ListGroupsResponse:
        """ListGroups. v4 filters by state, v5 by type."""
        states, types = set(call.request.states_filter), set(call.request.types_filter)
        listed = await self._groups.ask_all(lambda core, now_ms: core.list_groups(states, types, now_ms))
        groups = [
            ListedGroup(one.group_id, one.protocol_type, one.state, one.type) for shard in listed for one in shard
        ]
        return ListGroupsResponse(groups=groups)

    async def describe_groups(self, call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
        """DescribeGroups. Before v6 a group that is not there is described as dead."""
        operations = ALL_ON_GROUP if call.request.include_authorized_operations else NOT_ASKED
        groups = [await self._describe(group_id, call.version, operations) for group_id in call.request.groups]
        return DescribeGroupsResponse(groups=groups)

    async def _describe(self, group_id: str, version: int, operations: int) -> DescribedGroup:
        answer = DescribedGroup(group_id=group_id, authorized_operations=operations)
        try:
            found: asks.DescribedGroup = await self._groups.ask(
                group_id, lambda core, now_ms: core.describe_group(group_id, now_ms)
            )
        except Refused as refusal:
            if refusal.code == ErrorCode.GROUP_ID_NOT_FOUND:
                answer.group_state = _DEAD
            if refusal.code != ErrorCode.GROUP_ID_NOT_FOUND or version >= _TELLS_NOT_FOUND:
                refuse(answer, refusal)
            return answer
        answer.group_state = found.state
        answer.protocol_type = found.protocol_type
        answer.protocol_data = found.protocol
        answer.members = [
            DescribedGroupMember(
                one.member_id, one.group_instance_id, one.client.id, one.client.host, one.metadata, one.assignment
            )
            for one in found.members
        ]
        return answer

    async def describe_consumer_groups(
        self, call: Call[consumer_describe.ConsumerGroupDescribeRequest]
    ) -> consumer_describe.ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe (KIP-848). v1 tells of each member which protocol it speaks."""
        operations = ALL_ON_GROUP if call.request.include_authorized_operations else NOT_ASKED
        groups = [await self._describe_consumers(group_id, operations) for group_id in call.request.group_ids]
        return consumer_describe.ConsumerGroupDescribeResponse(groups=groups)

    async def _describe_consumers(self, group_id: str, operations: int) -> consumer_describe.DescribedGroup:
        answer = consumer_describe.DescribedGroup(group_id=group_id, authorized_operations=operations)
        try:
            found: asks.DescribedConsumerGroup = await self._groups.ask(
                group_id, lambda core, now_ms: core.describe_consumer_group(group_id, now_ms)
            )
        except Refused as refusal:
            refuse(answer, refusal)
            return answer
        answer.group_state = found.state
        answer.group_epoch = found.group_epoch
        answer.assignment_epoch = found.assignment_epoch
        answer.assignor_name = found.assignor_name
        answer.members = [self._consumer(one) for one in found.members]
        return answer

    def _consumer(self, member: asks.DescribedConsumer) -> consumer_describe.Member:
        return consumer_describe.Member(
            member.member_id,
            member.instance_id,
            member.rack_id,
            member.member_epoch,
            member.client.id,
            member.client.host,
            list(member.subscribed_topic_names),
            member.subscribed_topic_regex or "",
            self._assignment(member.assignment),
            self._assignment(member.target_assignment),
            member.member_type,
        )

    def _assignment(self, partitions: asks.TopicIdPartitions) -> consumer_describe.Assignment:
        topics = self._controller.image.topics_by_id
        return consumer_describe.Assignment(
            [
                consumer_describe.TopicPartitions(topic_id, topics[topic_id].name, list(indexes))
                for topic_id, indexes in partitions
                if topic_id in topics
            ]
        )

    async def delete_groups(self, call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
        response = DeleteGroupsResponse()
        for group_id in dict.fromkeys(call.request.groups_names):
            result = DeletableGroupResult(group_id)
            response.results.append(result)
            try:
                await self._groups.ask(group_id, lambda core, now_ms, name=group_id: core.delete_group(name, now_ms))  # type: ignore[misc]
            except Refused as refusal:
                refuse(result, refusal)
        return response
