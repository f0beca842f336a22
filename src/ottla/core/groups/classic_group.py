"""A group of the classic protocol: its members, its generation, and who waits for what.

Only the generation is in the log, as of the last division of work. All else (sessions, members that are joining, who
waits for an answer) dies with the coordinator, and the members, told that nobody knows them, come back by themselves.
So it is changed on the spot; a generation becomes stable only when its record is applied.
"""

from enum import Enum

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import Client, Join, JoinedMember, JoinReply, Protocol, SyncReply
from ottla.core.groups.consumer_protocol import subscribed_topics
from ottla.core.groups.records import Generation, GenerationMember

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicMember:
    __slots__ = (
        "assignment",
        "client",
        "group_instance_id",
        "has_synced",
        "id",
        "is_new",
        "join_ticket",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(self, member_id: str, instance_id: str | None, client: Client) -> None:
        self.id = member_id
        self.group_instance_id = instance_id
        self.client = client
        self.protocols: tuple[Protocol, ...] = ()
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.assignment = b""
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None
        self.is_new = False
        """Has never been told its member id by a finished join, so it cannot send heartbeats yet."""
        self.has_synced = False

    def take(self, ask: Join) -> None:
        self.protocols = ask.protocols
        self.rebalance_timeout_ms = ask.rebalance_timeout_ms
        self.session_timeout_ms = ask.session_timeout_ms
        self.client = ask.client

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((own.metadata for own in self.protocols if own.name == protocol), b"")


class ClassicGroup:
    __slots__ = (
        "_has_joiners_since_delay",
        "delay_end_ms",
        "generation_id",
        "generations_skipped",
        "id",
        "is_initial_rebalance",
        "is_persisted",
        "is_replayed",
        "leader_id",
        "members",
        "needs_rebalance",
        "pending",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_ids",
        "subscribed",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.id = group_id
        self.state = ClassicState.EMPTY
        self.state_since_ms = now_ms
        self.generation_id = 0
        self.generations_skipped = 0
        """Numbers that the coordinator before this one may have given to generations that did not reach the log."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        self.pending: set[str] = set()
        """Member ids that were handed out and have not come back with a second JoinGroup (KIP-394)."""
        self.subscribed: frozenset[str] | None = None
        """The topics of a consumer generation; None while unknown, which counts as all."""
        self.is_initial_rebalance = False
        self.delay_end_ms = 0
        """When the delay of an initial rebalance ends at the latest."""
        self._has_joiners_since_delay = False
        self.is_persisted = False
        self.is_replayed = False
        """Built from the log and not yet taken up by a coordinator: the next record of it replaces it."""
        self.needs_rebalance = False
        """Its last record names no leader: it was a consumer group, and its work must be divided anew."""

    # What it is

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of the topic are in use. Only a stable consumer group is known to be without a topic."""
        if self.is_empty:
            return False
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.state is not ClassicState.STABLE:
            return True
        return self.subscribed is None or topic in self.subscribed

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        if not protocols:
            return False
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols()
        return common is None or any(protocol.name in common for protocol in protocols)

    def _common_protocols(self) -> set[str] | None:
        """What every member can do; None without members."""
        common: set[str] | None = None
        for member in self.members.values():
            names = {protocol.name for protocol in member.protocols}
            common = names if common is None else common & names
        return common

    def select_protocol(self) -> str:
        """Each member votes for its first protocol among those that all can do."""
        common = self._common_protocols()
        assert common
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(protocol.name for protocol in member.protocols if protocol.name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member, or a refusal: a static member whose place another has taken is fenced (KIP-345)."""
        if instance_id is not None:
            owner = self.static_ids.get(instance_id)
            if owner is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)

    # What happens to it

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.discard(member.id)
        self.members[member.id] = member
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id
        self._has_joiners_since_delay = True

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.id]
        if member.group_instance_id is not None and self.static_ids.get(member.group_instance_id) == member.id:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member.id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """A static member came back under a new id; the old id is fenced from now on."""
        assert member.group_instance_id is not None
        renamed = {(member_id if key == member.id else key): value for key, value in self.members.items()}
        if self.leader_id == member.id:
            self.leader_id = member_id
        member.id = member_id
        self.members = renamed
        self.static_ids[member.group_instance_id] = member_id

    def take_joiners_since_delay(self) -> bool:
        """Whether anybody joined since this was last asked."""
        had, self._has_joiners_since_delay = self._has_joiners_since_delay, False
        return had

    def elect_joined_leader(self) -> bool:
        """The leader must be a member that waits for this generation; False if nobody does."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.join_ticket is None:
            joined = next((member.id for member in self.members.values() if member.join_ticket is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def start_generation(self, now_ms: int) -> None:
        following = self.generation_id + 1 + self.generations_skipped
        self.generation_id = following if following < 2**31 else 1
        self.generations_skipped = 0
        self.is_initial_rebalance = False
        for member in self.members.values():
            member.has_synced = False
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed = self._subscribed_topics()
            self.move_to(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.subscribed = frozenset()
            self.move_to(ClassicState.EMPTY, now_ms)

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            own = subscribed_topics(member.metadata_for(self.protocol_name))
            if own is None:
                return None
            topics |= own
        return frozenset(topics)

    # What it says

    def join_reply(self, member: ClassicMember) -> JoinReply:
        is_leader = member.id == self.leader_id
        return JoinReply(
            member_id=member.id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            members=self.joined_members() if is_leader else (),
        )

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.id, member.group_instance_id, member.metadata_for(self.protocol_name))
            for member in self.members.values()
        )

    def sync_reply(self, assignment: bytes) -> SyncReply:
        return SyncReply(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=assignment)

    # The log

    def generation(self, assignments: dict[str, bytes], now_ms: int) -> Generation:
        members = tuple(
            GenerationMember(
                member.id,
                member.group_instance_id,
                member.client,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata_for(self.protocol_name),
                assignments.get(member.id, b""),
            )
            for member in self.members.values()
        )
        return Generation(
            self.protocol_type or "", self.generation_id, self.protocol_name, self.leader_id, now_ms, members
        )

    def install(self, generation: Generation, now_ms: int) -> None:
        """A division of work that this coordinator decided is in the log."""
        self.is_persisted = True
        if self.state is not ClassicState.COMPLETING_REBALANCE or self.generation_id != generation.generation_id:
            return
        for row in generation.members:
            member = self.members[row.member_id]
            member.assignment = row.assignment
            if member.sync_ticket is not None or member.id == self.leader_id:
                member.has_synced = True
                member.sync_ticket = None
        self.move_to(ClassicState.STABLE, now_ms)

    @classmethod
    def loaded(cls, group_id: str, generation: Generation) -> "ClassicGroup":
        group = cls(group_id, max(generation.state_timestamp_ms, 0))
        group.is_persisted = group.is_replayed = True
        group.protocol_type = generation.protocol_type or None
        group.generation_id = generation.generation_id
        group.protocol_name = generation.protocol
        for row in generation.members:
            member = ClassicMember(row.member_id, row.group_instance_id, row.client)
            member.rebalance_timeout_ms = row.rebalance_timeout_ms
            member.session_timeout_ms = row.session_timeout_ms
            member.protocols = (Protocol(generation.protocol or "", row.subscription),)
            member.assignment = row.assignment
            member.has_synced = True
            group.add(member, generation.protocol_type)
        if group.members:
            group.leader_id = generation.leader if generation.leader in group.members else group.leader_id
            group.needs_rebalance = generation.leader is None
            group.state = ClassicState.STABLE
            group.subscribed = group._subscribed_topics()
        return group
