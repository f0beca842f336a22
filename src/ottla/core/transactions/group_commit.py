"""Commits of many transactions as one, at the coordinator of (sink, query).

Every member first promises to do as it is told (`Pin`, in the log of its own coordinator). When all have, one
`DecisionRecord` commits the batch; from then on members and offsets are told until they have heard. An attempt lives in
memory alone: if it is lost, no decision names it, and the members that ask are told to abort.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.deadlines import Deadlines
from ottla.core.transactions.asks import (
    CommitGroup,
    CommitOffsets,
    DescribedGroup,
    DescribeGroup,
    EndMember,
    GroupCommitReply,
    GroupDone,
    PinMember,
    Reply,
    Waiting,
)
from ottla.core.transactions.outcome import GROUP, Due, Outcome
from ottla.core.transactions.records import DecisionRecord, GroupDecision, Member, Pin

GROUP_MEMBERS_MAX = 10_000
NAME_BYTES_MAX = 1_024
"""Of a sink or a query: they stand in the metadata of every offset."""
DECISION_BYTES_MAX = 512 * 1024
"""A decision is one record, and a record that the log refuses would be decided for ever."""
VOTES_WAIT_MS = 30_000
REPEAT_MS = 1_000
_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_ROW_BYTES = 24
"""What a member or an offset takes besides its names."""
Key = tuple[str, str]


@dataclass(slots=True)
class Attempt:
    """A commit whose members are being asked."""

    ask: CommitGroup
    id: int
    until_ms: int
    tickets: list[int]
    pinned: set[str] = field(default_factory=set)

    @property
    def is_unanimous(self) -> bool:
        return len(self.pinned) == len(self.ask.members)

    def decision(self) -> GroupDecision:
        return GroupDecision(self.ask.batch, self.ask.digest, self.id, self.ask.members, self.ask.offsets)


class GroupCommits:
    __slots__ = ("_attempts", "_deadlines", "_decisions", "_done", "_random")

    def __init__(self, deadlines: Deadlines[Due], random: Random) -> None:
        self._deadlines = deadlines
        self._random = random
        self._decisions: dict[Key, GroupDecision] = {}
        self._attempts: dict[Key, Attempt] = {}
        self._done: dict[Key, tuple[set[str], bool]] = {}
        """Who has heard of the decision, and whether the offsets are committed."""

    # Decide

    def commit(self, ask: CommitGroup, ticket: int, out: Outcome) -> Waiting | GroupCommitReply:
        _check_shape(ask)
        key = (ask.sink, ask.query)
        last = self._decisions.get(key)
        if last is not None and ask.batch <= last.batch:
            out.effects += _aborts(ask, 0)
            return _answer_replay(ask, last)
        attempt = self._attempts.get(key)
        if attempt is not None:
            if attempt.ask != ask:
                raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "another commit of this query is under way")
            attempt.tickets.append(ticket)
            return Waiting(ticket)
        if last is not None and (last.members or last.offsets):
            raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the batch before is not yet everywhere")
        attempt = Attempt(ask, self._random.getrandbits(62) + 1, out.now_ms + VOTES_WAIT_MS, [ticket])
        self._attempts[key] = attempt
        self._deadlines.set(_due(key), out.now_ms + REPEAT_MS)
        self._go_on(key, attempt, out)
        return Waiting(ticket)

    def on_pinned(self, transactional_id: str, pin: Pin, error: ErrorCode, out: Outcome) -> None:
        key = (pin.sink, pin.query)
        attempt = self._attempts.get(key)
        if attempt is None or attempt.id != pin.attempt or error in _RETRIABLE:
            return
        if error is not ErrorCode.NONE:
            self._give_up(key, ErrorCode.INVALID_TXN_STATE, f"{transactional_id} cannot commit: {error.name}", out)
            return
        attempt.pinned.add(transactional_id)
        if attempt.is_unanimous:
            self._go_on(key, attempt, out)

    def verdict(self, pin: Pin) -> bool | None:
        """Whether the pinned member commits; None while nobody can know.

        A member that is still pinned has not been counted as done, and no batch follows before all are. So a decision
        that is not about this attempt means that this attempt was lost, and as it is lost it will never be decided.
        """
        key = (pin.sink, pin.query)
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.id == pin.attempt:
            return None
        decision = self._decisions.get(key)
        return decision is not None and decision.attempt == pin.attempt

    def describe(self, ask: DescribeGroup) -> DescribedGroup:
        """What a task needs to know before it writes a batch that may have been committed before it was repeated."""
        decision = self._decisions.get((ask.sink, ask.query))
        if decision is None:
            return DescribedGroup()
        return DescribedGroup(decision.batch, decision.digest, not (decision.members or decision.offsets))

    def on_done(self, done: GroupDone, out: Outcome) -> None:
        key = (done.sink, done.query)
        decision = self._decisions.get(key)
        if decision is None or decision.batch != done.batch or not (decision.members or decision.offsets):
            return
        members, has_offsets = self._done.get(key, (set(), False))
        members |= done.members
        has_offsets |= done.has_offsets
        self._done[key] = members, has_offsets
        if all(m.transactional_id in members for m in decision.members) and (has_offsets or not decision.offsets):
            out.records.append(DecisionRecord(*key, decision._replace(members=(), offsets=())))

    def on_due(self, key: Key, out: Outcome) -> None:
        """Ask again whoever has not answered."""
        attempt, decision = self._attempts.get(key), self._decisions.get(key)
        if attempt is not None:
            self._deadlines.set(_due(key), out.now_ms + REPEAT_MS)
            if out.now_ms >= attempt.until_ms and not attempt.is_unanimous:
                self._give_up(key, ErrorCode.REQUEST_TIMED_OUT, "not all members have answered", out)
            else:
                self._go_on(key, attempt, out)
        elif decision is not None and (decision.members or decision.offsets):
            self._deadlines.set(_due(key), out.now_ms + REPEAT_MS)
            self._announce(key, decision, out)
            self.on_done(GroupDone(*key, decision.batch), out)

    def _go_on(self, key: Key, attempt: Attempt, out: Outcome) -> None:
        if not attempt.is_unanimous:
            out.effects += [
                PinMember(member.transactional_id, _pin(key, attempt.ask.batch, attempt.id, member))
                for member in attempt.ask.members
                if member.transactional_id not in attempt.pinned
            ]
            return
        decision = attempt.decision()
        out.records.append(DecisionRecord(*key, decision))
        out.effects += [Reply(ticket, GroupCommitReply()) for ticket in attempt.tickets]
        self._announce(key, decision, out)

    def _announce(self, key: Key, decision: GroupDecision, out: Outcome) -> None:
        members, has_offsets = self._done.get(key, (set(), False))
        out.effects += [
            EndMember(member.transactional_id, _pin(key, decision.batch, decision.attempt, member), True)
            for member in decision.members
            if member.transactional_id not in members
        ]
        if decision.offsets and not has_offsets:
            out.effects.append(CommitOffsets(*key, decision.batch, decision.offsets))

    def _give_up(self, key: Key, code: ErrorCode, why: str, out: Outcome) -> None:
        attempt = self._attempts.pop(key)
        reply = GroupCommitReply(error=code, why=why)
        out.effects += [Reply(ticket, reply) for ticket in attempt.tickets]
        out.effects += _aborts(attempt.ask, attempt.id)

    # The log

    def store(self, record: DecisionRecord) -> None:
        key = (record.sink, record.query)
        self._done.pop(key, None)
        if record.value is None:
            self._decisions.pop(key, None)
            return
        self._decisions[key] = record.value
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.id == record.value.attempt:
            del self._attempts[key]

    def arm_one(self, key: Key, now_ms: int) -> None:
        """Be reminded of those who may not have heard of the decision."""
        self._deadlines.set(_due(key), now_ms + REPEAT_MS)

    def arm(self, now_ms: int) -> None:
        """Whoever has not heard of a decision is told by this coordinator, from now on."""
        for key, decision in self._decisions.items():
            if decision.members or decision.offsets:
                self._deadlines.set(_due(key), now_ms)

    def resign(self) -> Iterator[Reply]:
        reply = GroupCommitReply(error=ErrorCode.NOT_COORDINATOR)
        for attempt in self._attempts.values():
            for ticket in attempt.tickets:
                yield Reply(ticket, reply)


def offset_metadata(effect: CommitOffsets) -> str:
    """Stands beside each offset in its group, so that a commit which was long on its way finds out that it is late."""
    return f"batch {effect.batch} of {effect.query} to {effect.sink}"


def is_outdated(effect: CommitOffsets, metadata: str) -> bool:
    """Whether `metadata` of the offset in place says that this batch, or one after it, has been here."""
    batch, of, rest = metadata.removeprefix("batch ").partition(" of ")
    is_ours = bool(of) and rest == f"{effect.query} to {effect.sink}" and batch.isdecimal()
    return is_ours and int(batch) >= effect.batch


def _check_shape(ask: CommitGroup) -> None:
    if not ask.sink or not ask.query or ask.batch < 0:
        raise Refused(ErrorCode.INVALID_REQUEST, "a group commit needs a sink, a query and a batch")
    if max(len(ask.sink.encode()), len(ask.query.encode()), len(ask.digest)) > NAME_BYTES_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, f"sink, query and digest have up to {NAME_BYTES_MAX} bytes each")
    names = {member.transactional_id for member in ask.members}
    if len(names) != len(ask.members) or "" in names or len(names) > GROUP_MEMBERS_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, "members of a group commit need transactional ids of their own")
    size = sum(len(member.transactional_id.encode()) + _ROW_BYTES for member in ask.members)
    size += sum(len(offset.group_id.encode()) + len(offset.topic.encode()) + _ROW_BYTES for offset in ask.offsets)
    if size > DECISION_BYTES_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, f"a group commit of {size} bytes, {DECISION_BYTES_MAX} are possible")


def _answer_replay(ask: CommitGroup, last: GroupDecision) -> GroupCommitReply:
    if ask.batch == last.batch and ask.digest == last.digest:
        return GroupCommitReply(is_replay=True)
    if ask.batch == last.batch:
        why = f"batch {ask.batch} is committed with other contents: the checkpoint is not the one that wrote it"
    else:
        why = f"batch {ask.batch} is older than {last.batch}, which is committed: the checkpoint has been set back"
    return GroupCommitReply(error=ErrorCode.INVALID_REQUEST, why=why)


def _aborts(ask: CommitGroup, attempt: int) -> list[EndMember]:
    key = (ask.sink, ask.query)
    return [EndMember(m.transactional_id, _pin(key, ask.batch, attempt, m), False) for m in ask.members]


def _pin(key: Key, batch: int, attempt: int, member: Member) -> Pin:
    return Pin(*key, batch, attempt, member.producer_id, member.epoch)


def _due(key: Key) -> Due:
    return Due(GROUP, *key)
