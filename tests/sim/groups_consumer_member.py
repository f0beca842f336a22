"""A client of the consumer protocol (KIP-848): one heartbeat at a time, revoke before it takes."""

from typing import Any

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_GENERATION,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    TopicIdPartitions,
)
from ottla.core.groups.records import by_topic
from tests.sim.groups_members import RETRY_MS, UNREACHABLE, Member, Place
from tests.sim.groups_world import World

REBALANCE_TIMEOUT_MS = 6_000


class ConsumerMember(Member):
    def __init__(
        self, world: World, group_id: str, name: str, instance_id: str | None, topics: tuple[str, ...]
    ) -> None:
        super().__init__(world, group_id, name, instance_id)
        self.topics: tuple[str, ...] | None = topics
        self.regex: str | None = None
        self.assignor: str | None = None
        self.member_id = f"{name}-{world.random.getrandbits(32):08x}"
        self._target: set[Place] = set()
        self._is_reconciling = False
        self._says_all = True
        self._says_owned = False
        self._beat = 0

    def start(self) -> None:
        super().start()
        self._rejoin()

    def _rejoin(self) -> None:
        self.life += 1
        self.drop(set(self.owned))
        self.epoch = JOIN_EPOCH
        self._target = set()
        self._is_reconciling = False
        self._says_all = True
        self._send()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._says_all = True

    # Heartbeats

    def _send(self) -> None:
        self._beat += 1
        is_full = self._says_all or self.epoch == JOIN_EPOCH
        says_owned = is_full or self._says_owned
        self._says_owned = False
        ask = ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
            subscribed_topic_names=self.topics if is_full else None,
            subscribed_topic_regex=self.regex if is_full else None,
            server_assignor=self.assignor if is_full else None,
            topic_partitions=self._owned_by_topic() if says_owned else None,
            client=self.client,
        )
        beat = self._beat
        self.call("consumer_heartbeat", ask, lambda reply: self._on_reply(reply, beat))

    def _send_in(self, delay_ms: float) -> None:
        beat = self._beat
        self.after(delay_ms, lambda: self._send() if beat == self._beat else None)

    def _on_reply(self, reply: Any, beat: int) -> None:
        if beat != self._beat:
            return
        if isinstance(reply, ConsumerHeartbeatReply):
            assert reply.member_epoch >= self.epoch, f"{self.member_id} falls to epoch {reply.member_epoch}"
            assert reply.member_epoch > 0
            self.epoch = reply.member_epoch
            self._says_all = False
            self.world.laws.is_dirty = True
            self._send_in(reply.heartbeat_interval_ms)
            if reply.assignment is not None:
                self._target = self._places(reply.assignment)
                self._reconcile()
        elif reply.code in UNREACHABLE:
            self._says_all = True
            self._send_in(RETRY_MS)
        elif reply.code is ErrorCode.FENCED_INSTANCE_ID:
            self.stop()
        elif reply.code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self._send_in(1_000)
        else:
            assert reply.code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), reply
            self.life += 1
            self.drop(set(self.owned))
            self.epoch = NO_GENERATION
            self.after(RETRY_MS, self._rejoin)

    # Revoke, then take

    def _reconcile(self) -> None:
        target = set(self._target)
        if self._is_reconciling or target == set(self.owned):
            return
        self._is_reconciling = True
        revoked = set(self.owned) - target

        def finish() -> None:
            self._is_reconciling = False
            self.drop(revoked)
            self.take(target)
            self._says_owned = True
            self._send_in(0)
            self._reconcile()

        if revoked:
            is_slow = not self.world.is_healed and self.world.chance(0.1)
            delay_ms = self.world.random.uniform(0, 9_000 if is_slow else 800)
            self.commit(lambda: self.after(delay_ms, finish))
        else:
            finish()

    def leave(self) -> None:
        self.commit(self._say_goodbye)

    def _say_goodbye(self) -> None:
        is_static = self.instance_id is not None and self.world.chance(0.7)
        self.life += 1
        self.drop(set(self.owned))
        ask = ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self.instance_id,
        )
        self.call("consumer_heartbeat", ask, lambda reply: None)
        self.stop()

    # Names and ids

    def _owned_by_topic(self) -> TopicIdPartitions:
        return by_topic(frozenset((self.world.topics[topic].id, partition) for topic, partition in self.owned))

    def _places(self, assignment: TopicIdPartitions) -> set[Place]:
        names = {topic.id: name for name, topic in self.world.topics.items()}
        return {(names[topic_id], partition) for topic_id, numbers in assignment for partition in numbers}
