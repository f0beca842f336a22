"""Membership of consumer groups: the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and the new one
(ConsumerGroupHeartbeat, KIP-848). From the wire's words into the core's, and back.
"""

from ottla.base.errors import ErrorCode, Refused
from ottla.broker.route import Call, Route, versions
from ottla.core.groups import asks
from ottla.net.connection import Peer
from ottla.runtime.group_coordinator import GroupCoordinator
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_HAS_REBALANCE_TIMEOUT = 1
_REQUIRES_MEMBER_ID = 4
_SKIPS_ASSIGNMENT = 9
_LEAVES_IN_BATCHES = 3
_NAMES_PROTOCOL = 5


class GroupMembershipApi:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.JOIN_GROUP, versions(0, 9), self.join),
            Route(ApiKey.SYNC_GROUP, versions(0, 5), self.sync),
            Route(ApiKey.HEARTBEAT, versions(0, 4), self.heartbeat),
            Route(ApiKey.LEAVE_GROUP, versions(0, 5), self.leave),
            Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions(0, 1), self.consumer_heartbeat),
        )

    async def join(self, call: Call[JoinGroupRequest]) -> JoinGroupResponse:
        """JoinGroup. v4 hands out the member id first (KIP-394), v5 knows static members, v9 may skip assignment."""
        ask = call.request
        has_own = call.version >= _HAS_REBALANCE_TIMEOUT
        join = asks.Join(
            group_id=ask.group_id,
            member_id=ask.member_id,
            group_instance_id=ask.group_instance_id,
            client=_client(call.client_id, call.peer),
            protocol_type=ask.protocol_type,
            protocols=tuple(asks.Protocol(one.name, one.metadata) for one in ask.protocols),
            session_timeout_ms=ask.session_timeout_ms,
            rebalance_timeout_ms=ask.rebalance_timeout_ms if has_own else ask.session_timeout_ms,
            requires_known_member_id=call.version >= _REQUIRES_MEMBER_ID,
            supports_skipping_assignment=call.version >= _SKIPS_ASSIGNMENT,
        )
        try:
            reply: asks.JoinReply = await self._groups.ask(ask.group_id, lambda core, now_ms: core.join(join, now_ms))
        except Refused as refusal:
            return JoinGroupResponse(0, int(refusal.code), member_id=ask.member_id)
        return JoinGroupResponse(
            0,
            int(reply.error),
            reply.generation_id,
            reply.protocol_type,
            reply.protocol_name,
            reply.leader,
            reply.skip_assignment,
            reply.member_id,
            [JoinGroupResponseMember(one.member_id, one.group_instance_id, one.metadata) for one in reply.members],
        )

    async def sync(self, call: Call[SyncGroupRequest]) -> SyncGroupResponse:
        """SyncGroup. From v5 on a member says which protocol it takes the group's to be (KIP-559)."""
        ask = call.request
        if call.version >= _NAMES_PROTOCOL and (ask.protocol_type is None or ask.protocol_name is None):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocol's type or name is missing")
        sync = asks.Sync(
            group_id=ask.group_id,
            generation_id=ask.generation_id,
            member_id=ask.member_id,
            group_instance_id=ask.group_instance_id,
            protocol_type=ask.protocol_type,
            protocol_name=ask.protocol_name,
            assignments={one.member_id: one.assignment for one in ask.assignments},
        )
        reply: asks.SyncReply = await self._groups.ask(ask.group_id, lambda core, now_ms: core.sync(sync, now_ms))
        return SyncGroupResponse(0, int(reply.error), reply.protocol_type, reply.protocol_name, reply.assignment)

    async def heartbeat(self, call: Call[HeartbeatRequest]) -> HeartbeatResponse:
        ask = call.request
        beat = asks.Heartbeat(
            group_id=ask.group_id,
            generation_id=ask.generation_id,
            member_id=ask.member_id,
            group_instance_id=ask.group_instance_id,
        )
        await self._groups.ask(ask.group_id, lambda core, now_ms: core.heartbeat(beat, now_ms))
        return HeartbeatResponse()

    async def leave(self, call: Call[LeaveGroupRequest]) -> LeaveGroupResponse:
        """LeaveGroup. v3 takes several members, so that an operator can remove static ones."""
        ask = call.request
        is_batch = call.version >= _LEAVES_IN_BATCHES
        members = (
            tuple(asks.LeavingMember(one.member_id, one.group_instance_id) for one in ask.members)
            if is_batch
            else (asks.LeavingMember(ask.member_id),)
        )
        leave = asks.Leave(ask.group_id, members)
        reply: asks.LeaveReply = await self._groups.ask(ask.group_id, lambda core, now_ms: core.leave(leave, now_ms))
        if not is_batch:
            return LeaveGroupResponse(0, int(reply.members[0].error))
        answers = [MemberResponse(one.member_id, one.group_instance_id, int(one.error)) for one in reply.members]
        return LeaveGroupResponse(0, 0, answers)

    async def consumer_heartbeat(self, call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat. In v1 the client makes up its member id and may subscribe by pattern (KIP-1082)."""
        ask = call.request
        owned, names = ask.topic_partitions, ask.subscribed_topic_names
        beat = asks.ConsumerHeartbeat(
            group_id=ask.group_id,
            member_id=ask.member_id,
            member_epoch=ask.member_epoch,
            instance_id=ask.instance_id,
            rack_id=ask.rack_id,
            rebalance_timeout_ms=ask.rebalance_timeout_ms,
            subscribed_topic_names=None if names is None else tuple(dict.fromkeys(names)),
            subscribed_topic_regex=ask.subscribed_topic_regex,
            server_assignor=ask.server_assignor,
            topic_partitions=None if owned is None else tuple((one.topic_id, tuple(one.partitions)) for one in owned),
            client=_client(call.client_id, call.peer),
            api_version=call.version,
        )
        reply: asks.ConsumerHeartbeatReply = await self._groups.ask(
            ask.group_id, lambda core, now_ms: core.consumer_heartbeat(beat, now_ms)
        )
        assignment = None
        if reply.assignment is not None:
            assignment = Assignment([TopicPartitions(topic, list(indexes)) for topic, indexes in reply.assignment])
        return ConsumerGroupHeartbeatResponse(
            member_id=reply.member_id,
            member_epoch=reply.member_epoch,
            heartbeat_interval_ms=reply.heartbeat_interval_ms,
            assignment=assignment,
        )


def _client(client_id: str | None, peer: Peer) -> asks.Client:
    return asks.Client(client_id or "", f"/{peer.host}")
