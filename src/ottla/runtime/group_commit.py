"""The ways between the coordinator of a group commit, those of its members and those of its source offsets.

Each errand is run once and may be lost: whoever wants it run asks again until it has been reported.
"""

from functools import partial
from typing import Any, Protocol

from ottla.base.errors import ErrorCode, Refused
from ottla.core.groups.asks import Decision as GroupDecision
from ottla.core.groups.asks import OffsetCommit, OffsetCommitReply, OffsetFetch, OffsetFetchReply, OffsetToCommit
from ottla.core.groups.shard import GroupShard
from ottla.core.transactions.asks import (
    AskVerdict,
    CommitOffsets,
    EndMember,
    EndPinned,
    GroupDone,
    PinMember,
)
from ottla.core.transactions.group_commit import is_outdated, offset_metadata
from ottla.core.transactions.placement import commit_key
from ottla.core.transactions.records import GroupOffset, Pin
from ottla.runtime.group_coordinator import GroupCoordinator


class Asking(Protocol):
    """Where coordinators are asked."""

    async def ask(self, key: str, decide: Any) -> Any: ...
    async def ask_with_id(self, key: str, decide: Any) -> Any: ...


class GroupCommitErrands:
    def __init__(self, transactions: Asking, groups: GroupCoordinator) -> None:
        self._transactions = transactions
        self._groups = groups

    async def run(self, effect: PinMember | EndMember | CommitOffsets | AskVerdict) -> None:
        match effect:
            case PinMember():
                await self._pin(effect)
            case EndMember():
                await self._end(effect.transactional_id, effect.pin, effect.committed)
            case CommitOffsets():
                await self._commit_offsets(effect)
            case AskVerdict():
                await self._ask_verdict(effect)

    async def _pin(self, effect: PinMember) -> None:
        name, pin = effect.transactional_id, effect.pin
        error = ErrorCode.NONE
        try:
            await self._transactions.ask(name, lambda core, now_ms: core.pin(name, pin, now_ms))
        except Refused as refusal:
            error = refusal.code
        await self._transactions.ask(
            commit_key(pin.sink, pin.query), lambda core, now_ms: core.on_pinned(name, pin, error, now_ms)
        )

    async def _end(self, transactional_id: str, pin: Pin, committed: bool) -> None:
        def decide(core: Any, now_ms: int, new_producer_id: int) -> Any:
            ask = EndPinned(
                transactional_id=transactional_id, pin=pin, committed=committed, new_producer_id=new_producer_id
            )
            return core.end_pinned(ask, now_ms)

        await self._transactions.ask_with_id(transactional_id, decide)
        if committed:
            await self._report(GroupDone(pin.sink, pin.query, pin.batch, members=frozenset({transactional_id})))

    async def _ask_verdict(self, effect: AskVerdict) -> None:
        pin = effect.pin
        verdict = await self._transactions.ask(
            commit_key(pin.sink, pin.query), lambda core, now_ms: core.verdict(pin, now_ms)
        )
        if verdict is not None:
            await self._end(effect.transactional_id, pin, verdict)

    async def _commit_offsets(self, effect: CommitOffsets) -> None:
        groups: dict[str, list[GroupOffset]] = {}
        for offset in effect.offsets:
            groups.setdefault(offset.group_id, []).append(offset)
        for group_id, offsets in groups.items():
            await self._groups.node_of(group_id)
            decide = partial(_commit, effect=effect, offsets=tuple(offsets))
            reply: OffsetCommitReply | None = await self._groups.ask(group_id, decide)
            refused = [error for error in reply.errors if error] if reply is not None else ()
            if refused:
                raise Refused(refused[0], f"offsets of {group_id} are not committed")
        await self._report(GroupDone(effect.sink, effect.query, effect.batch, has_offsets=True))

    async def _report(self, done: GroupDone) -> None:
        await self._transactions.ask(
            commit_key(done.sink, done.query), lambda core, now_ms: core.on_group_done(done, now_ms)
        )


def _commit(core: GroupShard, now_ms: int, *, effect: CommitOffsets, offsets: tuple[GroupOffset, ...]) -> GroupDecision:
    """Those that this batch, or a later one, has not been written over. All of one group."""
    group_id = offsets[0].group_id
    places = tuple((offset.topic, (offset.partition,)) for offset in offsets)
    there: OffsetFetchReply = core.fetch_offsets(OffsetFetch(group_id=group_id, topics=places), now_ms).reply  # type: ignore[assignment]
    metadata = offset_metadata(effect)
    fresh = tuple(
        OffsetToCommit(offset.topic, offset.partition, offset.offset, metadata=metadata)
        for offset, (_, (found,)) in zip(offsets, there.topics, strict=True)
        if not is_outdated(effect, found.metadata)
    )
    if not fresh:
        return GroupDecision()
    return core.commit_offsets(OffsetCommit(group_id=group_id, offsets=fresh, is_decided=True), now_ms)
