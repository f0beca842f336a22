"""A client of the classic protocol, with an eager or a cooperative assignor; it may find itself leading its group."""

from typing import Any

from ottla.base.errors import ErrorCode
from ottla.core.groups import asks
from ottla.core.groups.asks import Heartbeat, Join, JoinReply, Leave, LeavingMember, Protocol, Sync, SyncReply, Topic
from ottla.core.groups.consumer_protocol import read_assignment, read_subscription
from ottla.wire.primitives import Buffer
from ottla.wire.state.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.sim.groups_members import RETRY_MS, UNREACHABLE, Member, Place
from tests.sim.groups_world import World

SESSION_TIMEOUT_MS = 8_000
REBALANCE_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 2_500
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class ClassicMember(Member):
    def __init__(
        self,
        world: World,
        group_id: str,
        name: str,
        instance_id: str | None,
        topics: tuple[str, ...],
        protocol: str,
    ) -> None:
        super().__init__(world, group_id, name, instance_id)
        self.topics = topics
        self.protocol = protocol
        self.knows_kip_394 = world.chance(0.8)
        self._divided: dict[str, Topic] | None = None
        """As the leader: the topics at the time of the division. When they change, it asks for a new one."""

    def start(self) -> None:
        super().start()
        self._join()

    def _lose(self, error: ErrorCode | None) -> None:
        """What it had is lost; commits under the old name would be refused anyway."""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.stop()
            return
        self.drop(set(self.owned))
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.epoch = asks.NO_GENERATION
        self._start_over(RETRY_MS)

    def _start_over(self, delay_ms: float = 0) -> None:
        """Back to the join; an eager member lets go of everything first."""
        self.life += 1
        if self.protocol == EAGER and self.owned:
            slow_ms = 9_000 if not self.world.is_healed and self.world.chance(0.05) else 300
            self.commit(lambda: self.after(self.world.random.uniform(0, slow_ms), self._let_go))
        else:
            self.after(delay_ms, self._join)

    def _let_go(self) -> None:
        self.drop(set(self.owned))
        self._join()

    # Join

    def _join(self) -> None:
        ask = Join(
            group_id=self.group_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client=self.client,
            protocols=(Protocol(self.protocol, self._subscription()),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            requires_known_member_id=self.knows_kip_394,
        )
        self.call("join", ask, self._on_joined, timeout_ms=REBALANCE_TIMEOUT_MS + 5_000)

    def _on_joined(self, reply: Any) -> None:
        error = reply.error if isinstance(reply, JoinReply) else reply.code
        if error is ErrorCode.NONE:
            self.member_id = reply.member_id
            self.epoch = reply.generation_id
            self.world.laws.is_dirty = True
            self._sync(reply)
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._join()
        elif error in UNREACHABLE or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.after(RETRY_MS, self._join)
        else:
            assert error in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ), error
            self._lose(error)

    # Sync

    def _sync(self, joined: JoinReply) -> None:
        is_leader = joined.leader == self.member_id
        leads = is_leader and not joined.skip_assignment
        self._divided = self.world.topics if leads else {} if is_leader else None
        ask = Sync(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=self._divide(joined) if leads else {},
        )
        self.call("sync", ask, self._on_synced, timeout_ms=REBALANCE_TIMEOUT_MS + 5_000)

    def _on_synced(self, reply: Any) -> None:
        error = reply.error if isinstance(reply, SyncReply) else reply.code
        if error is ErrorCode.NONE:
            self._adopt(set(read_assignment(reply.assignment)))
        elif error in UNREACHABLE or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._start_over(RETRY_MS)
        else:
            self._lose(error)

    def may_commit(self) -> bool:
        """Between join and sync it does not know which of its partitions it keeps."""
        return self.synced_epoch == self.epoch

    def _adopt(self, assigned: set[Place]) -> None:
        revoked = set(self.owned) - assigned

        def finish() -> None:
            self.drop(revoked)
            self.synced_epoch = self.epoch
            self.take(assigned)
            if revoked:
                self._start_over()
            else:
                self.after(HEARTBEAT_MS, self._beat)

        if revoked:
            self.after(self.world.random.uniform(0, 500), finish)
        else:
            finish()

    # Stay

    def _beat(self) -> None:
        ask = Heartbeat(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.call("heartbeat", ask, self._on_beat)

    def _on_beat(self, reply: Any) -> None:
        if reply is None and self._divided not in (None, self.world.topics):
            self._start_over()
        elif reply is None:
            self.after(HEARTBEAT_MS, self._beat)
        elif reply.code in UNREACHABLE:
            self.after(RETRY_MS, self._beat)
        elif reply.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._start_over()
        else:
            assert reply.code in (
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
            ), reply
            self._lose(reply.code)

    def leave(self) -> None:
        def say_goodbye() -> None:
            self.life += 1
            self.drop(set(self.owned))
            gone = LeavingMember(self.member_id, self.instance_id)
            self.call("leave", Leave(self.group_id, (gone,)), lambda reply: None)
            self.stop()

        self.commit(say_goodbye)

    # What it says as a member, and as the leader

    def _subscription(self) -> bytes:
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            owned.setdefault(topic, []).append(partition)
        entries = [ConsumerProtocolSubscriptionTopicPartition(topic=t, partitions=n) for t, n in owned.items()]
        said = ConsumerProtocolSubscription(
            topics=list(self.topics), user_data=None, owned_partitions=entries, generation_id=self.synced_epoch
        )
        out = Buffer()
        out += (2).to_bytes(2, "big")
        said.encode(out, 2)
        return bytes(out)

    def _divide(self, joined: JoinReply) -> dict[str, bytes]:
        """Each partition in turn to the subscriber with the fewest; a cooperative leader never gives away what
        another member still has."""
        said = {member.member_id: read_subscription(member.metadata) for member in joined.members}
        shares: dict[str, set[Place]] = {member_id: set() for member_id in said}
        claims = sorted((s.generation_id, member_id) for member_id, s in said.items() if s is not None)
        owners = {place: member_id for _, member_id in claims for place in getattr(said[member_id], "owned", ())}
        for topic in sorted(self.world.topics):
            candidates = [member_id for member_id, s in said.items() if s is not None and topic in s.topics]
            for partition in range(self.world.topics[topic].partition_count) if candidates else ():
                chosen = min(candidates, key=lambda one: len(shares[one]))
                shares[chosen].add((topic, partition))
        if self.protocol == COOPERATIVE:
            for member_id, share in shares.items():
                share -= {place for place in share if owners.get(place, member_id) != member_id}
        return {member_id: _assignment(share) for member_id, share in shares.items()}


def _assignment(places: set[Place]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    entries = [ConsumerProtocolAssignmentTopicPartition(topic=t, partitions=n) for t, n in topics.items()]
    out = Buffer()
    out += (1).to_bytes(2, "big")
    ConsumerProtocolAssignment(assigned_partitions=entries, user_data=None).encode(out, 1)
    return bytes(out)
