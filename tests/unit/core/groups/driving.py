"""A shard and the simplest driver: everything is committed at once, and a restart reads the log's own bytes."""

from random import Random
from typing import Any

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups import codec
from ottla.core.groups.asks import (
    Client,
    ConsumerHeartbeat,
    Decision,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    Protocol,
    Sync,
    Topic,
    TopicIdPartitions,
    Waiting,
)
from ottla.core.groups.records import Record
from ottla.core.groups.settings import ConsumerTimes, GroupSettings
from ottla.core.groups.shard import GroupShard
from ottla.wire.primitives import Buffer
from ottla.wire.state.consumer_protocol import ConsumerProtocolSubscription

GROUP = "orders"
T = b"t" * 16
U = b"u" * 16
TOPICS = {"t": Topic(T, 4), "u": Topic(U, 2)}
START_MS = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 20_000


class Group:
    """One group of one shard, seen by its clients."""

    def __init__(
        self,
        settings: GroupSettings | None = None,
        topics: dict[str, Topic] | None = None,
        own_times: dict[str, ConsumerTimes] | None = None,
    ) -> None:
        self.own_times = own_times
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
        self.topics = TOPICS if topics is None else topics
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None, int]] = []
        self.replies: dict[int, Any] = {}
        self.shard = self._new_shard()

    def _new_shard(self) -> GroupShard:
        shard = GroupShard(self.settings, Random(len(self.log)), self.own_times)
        shard.on_topics(self.topics, self.now_ms)
        for row in self.log:
            shard.load(*row)
        self.shard = shard
        self.carry_out(shard.loaded(self.now_ms))
        return shard

    def restart(self) -> None:
        self.replies.clear()
        self._new_shard()

    def carry_out(self, decision: Decision) -> Any:
        for record in decision.records:
            self.apply(record)  # type: ignore[arg-type]
        for effect in decision.effects:
            assert effect.ticket not in self.replies, "answered twice"
            self.replies[effect.ticket] = effect.reply
        return decision.reply

    def apply(self, record: Record) -> None:
        self.log.append((*codec.encode(record), self.now_ms))
        self.shard.apply(record, self.now_ms)

    def ask(self, method: str, question: object) -> Any:
        """The reply, or the ticket of one that comes later."""
        reply = self.carry_out(getattr(self.shard, method)(question, self.now_ms))
        return reply.ticket if isinstance(reply, Waiting) else reply

    def error(self, method: str, question: object) -> ErrorCode:
        try:
            reply = self.ask(method, question)
        except Refused as refusal:
            return refusal.code
        raise AssertionError(f"not refused: {reply}")

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.carry_out(self.shard.on_time(self.now_ms))
        self.now_ms = end_ms

    # The classic protocol

    def join(self, member_id: str = "", instance_id: str | None = None, **more: Any) -> Any:
        """Joins, and takes the second step when asked to; the reply, or a ticket."""
        reply = self.ask("join", join_of(member_id, instance_id, **more))
        if isinstance(reply, JoinReply) and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            reply = self.ask("join", join_of(reply.member_id, instance_id, **more))
        return self.replies.get(reply, reply) if isinstance(reply, int) else reply

    def sync(self, joined: JoinReply, assignments: dict[str, bytes] | None = None, **more: Any) -> Any:
        reply = self.ask(
            "sync",
            Sync(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=assignments or {},
                **more,
            ),
        )
        return self.replies.get(reply, reply) if isinstance(reply, int) else reply

    def stable_pair(self) -> tuple[JoinReply, JoinReply]:
        """Two members of a stable generation, the leader first; they have b"one" and b"two"."""
        first = self.join()
        self.sync(first, {first.member_id: b"one"})
        second = self.join()
        leader = self.replies[self.ask("join", join_of(first.member_id))]
        other = self.replies[second]
        self.sync(other)
        self.sync(leader, {leader.member_id: b"one", other.member_id: b"two"})
        return leader, other

    def state(self) -> str:
        listed = self.shard.list_groups((), (), self.now_ms).reply
        assert isinstance(listed, tuple)
        return next((row.state for row in listed if row.group_id == GROUP), "none")


def join_of(member_id: str = "", instance_id: str | None = None, **more: Any) -> Join:
    values: dict[str, Any] = {
        "client": Client("client", "/127.0.0.1"),
        "protocols": (Protocol("range", subscription("t")),),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
    }
    return Join(group_id=GROUP, member_id=member_id, group_instance_id=instance_id, **{**values, **more})


def heartbeat_of(joined: JoinReply, generation_id: int | None = None, instance_id: str | None = None) -> Heartbeat:
    generation = joined.generation_id if generation_id is None else generation_id
    return Heartbeat(
        group_id=GROUP, generation_id=generation, member_id=joined.member_id, group_instance_id=instance_id
    )


def leave_of(*member_ids: str) -> Leave:
    return Leave(GROUP, tuple(LeavingMember(member_id) for member_id in member_ids))


def commit_of(offset: int, member_id: str = "", epoch: int = -1, **more: Any) -> OffsetCommit:
    offsets = more.pop("offsets", (OffsetToCommit("t", 0, offset),))
    return OffsetCommit(
        group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, offsets=offsets, **more
    )


def fetch_of(**more: Any) -> OffsetFetch:
    return OffsetFetch(group_id=GROUP, topics=(("t", (0,)),), **more)


def beat_of(member_id: str, epoch: int, owned: TopicIdPartitions | None = None, **more: Any) -> ConsumerHeartbeat:
    """A heartbeat of the consumer protocol; joining, it subscribes to t."""
    if epoch == 0:
        names = None if "subscribed_topic_regex" in more else ("t",)
        more = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": names, **more}
        owned = owned or ()
    return ConsumerHeartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=owned, **more)


def subscription(*topics: str, version: int = 1) -> bytes:
    out = Buffer()
    out += version.to_bytes(2, "big")
    ConsumerProtocolSubscription(topics=list(topics), user_data=None).encode(out, version)
    return bytes(out)
