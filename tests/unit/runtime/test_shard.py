"""The driver of a coordinator: what is answered when, and what is done when time is up."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.types import TopicName, TopicPartition
from ottla.core.groups.asks import Decision, JoinReply, Reply, Waiting
from ottla.runtime.disk import Disk
from ottla.runtime.loop import run
from ottla.runtime.shard import Driver, Shard
from ottla.wire.batch import decode_records, encode_batch, iter_headers, new_records

KEY = TopicPartition(TopicName("__consumer_offsets"), 0)


class FakeSlices(tuple[int, ...]):
    data: bytes

    def read(self) -> bytes:
        return self.data


class FakeLog:
    """Some batches, which are read in one go."""

    def __init__(self, data: bytes) -> None:
        self.start_offset = 0
        self.end_offset = max((header.next_offset for _, header in iter_headers(memoryview(data))), default=0)
        self._slices = FakeSlices((0,))
        self._slices.data = data

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> FakeSlices:
        return self._slices


@dataclass
class FakePartition:
    """Commits when it is told to."""

    log: Any
    key: TopicPartition = KEY
    waiting: list["asyncio.Future[None]"] = field(default_factory=list)
    batches: list[list[bytes]] = field(default_factory=list)
    commits_at_once: bool = False
    refusal: Refused | None = None

    def append_own(self, data: bytearray, now_ms: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append([record.value or b"" for record in decode_records(memoryview(data))])
        self.log.end_offset += len(self.batches[-1])

    def acknowledged(self, end_offset: int, acks: int) -> "asyncio.Future[None] | None":
        if self.commits_at_once:
            return None
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def commit(self) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_result(None)


class FakeCore:
    def __init__(self) -> None:
        self.applied: list[Any] = []
        self.loaded_pairs: list[tuple[bytes, bytes | None]] = []
        self.deadline_ms: int | None = None
        self.times: list[int] = []

    def load(self, key: bytes, value: bytes | None, written_ms: int, producer_id: int = -1) -> None:
        self.loaded_pairs.append((key, value))

    def end_transaction(self, producer_id: int, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Decision:
        return Decision()

    def apply(self, record: Any, now_ms: int) -> None:
        self.applied.append(record)

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def on_time(self, now_ms: int) -> Decision:
        self.times.append(now_ms)
        self.deadline_ms = None
        return Decision()

    def resign(self) -> tuple[Reply, ...]:
        return (Reply(1, JoinReply(error=ErrorCode.NOT_COORDINATOR)),)


@dataclass
class Scene:
    shard: Any
    core: FakeCore
    partition: FakePartition
    clock: list[int]

    def ask(self, decision: Decision) -> "asyncio.Task[Any]":
        return asyncio.ensure_future(self.shard.ask(lambda core, now_ms: decision))


def play(scenario: Callable[[Scene], Awaitable[None]], data: bytes = b"", **partition: Any) -> None:
    async def main() -> None:
        clock, disk = [0], Disk()
        core, held = FakeCore(), FakePartition(FakeLog(data), **partition)
        driver = Driver(
            lambda record: (b"k", str(record).encode()), lambda: clock[0], lambda: 1_000, disk, 200, batch_bytes_max=200
        )
        shard: Any = Shard(core, held, driver)  # type: ignore[type-var, arg-type]
        await shard.loaded()
        held.commit()
        await scenario(Scene(shard, core, held, clock))
        shard.resign()
        disk.close()

    run(main())


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_answer_waits_until_the_records_are_committed() -> None:
    async def scenario(scene: Scene) -> None:
        asked = scene.ask(Decision(("a",), "done"))
        await turns()
        assert scene.partition.batches == [[b"a"]] and scene.core.applied == ["a"]
        assert not asked.done()
        scene.partition.commit()
        assert await asked == "done"

    play(scenario)


def test_answer_without_records_waits_for_what_it_may_have_seen() -> None:
    async def scenario(scene: Scene) -> None:
        scene.ask(Decision(("a",)))
        asked = scene.ask(Decision(reply="seen"))
        await turns()
        assert not asked.done()
        scene.partition.commit()
        assert await asked == "seen"

    play(scenario)


def test_who_waits_is_answered_when_another_decision_is_committed() -> None:
    async def scenario(scene: Scene) -> None:
        waiting = scene.ask(Decision(reply=Waiting(1)))
        await turns()
        scene.partition.commit()
        await turns()
        assert not waiting.done()
        scene.ask(Decision(("a",), None, (Reply(1, JoinReply(member_id="me")),)))
        await turns()
        assert not waiting.done()
        scene.partition.commit()
        assert (await waiting).member_id == "me"

    play(scenario)


def test_answer_to_oneself_reaches_the_asker() -> None:
    async def scenario(scene: Scene) -> None:
        reply = await scene.ask(Decision((), Waiting(7), (Reply(7, JoinReply(member_id="me")),)))
        assert reply.member_id == "me"

    play(scenario, commits_at_once=True)


def test_refused_append_applies_nothing_and_hands_out_only_errors() -> None:
    async def scenario(scene: Scene) -> None:
        good, bad = scene.ask(Decision(reply=Waiting(1))), scene.ask(Decision(reply=Waiting(2)))
        await turns()
        scene.partition.refusal = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
        effects = (Reply(1, JoinReply()), Reply(2, JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID)))
        with pytest.raises(Refused) as refused:
            await scene.ask(Decision(("a",), None, effects))
        assert refused.value.code == ErrorCode.NOT_COORDINATOR
        assert scene.core.applied == []
        assert (await bad).error == ErrorCode.UNKNOWN_MEMBER_ID
        assert not good.done()
        good.cancel()

    play(scenario, commits_at_once=True)


def test_commit_that_takes_too_long_is_an_error_that_clients_try_again_after() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(Refused) as refused:
            await scene.ask(Decision(("a",), "done"))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_many_records_become_batches_that_keep_their_order() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.ask(Decision(tuple(range(20))))
        assert len(scene.partition.batches) > 1
        assert [int(value) for batch in scene.partition.batches for value in batch] == list(range(20))
        assert scene.core.applied == list(range(20))

    play(scenario, commits_at_once=True)


def test_nobody_is_asked_before_the_log_is_loaded() -> None:
    data = encode_batch(new_records([(b"a", b"1"), (b"b", None)], 5))

    async def scenario(scene: Scene) -> None:
        assert scene.core.loaded_pairs == [(b"a", b"1"), (b"b", None)]
        scene.shard.is_loaded = False
        with pytest.raises(Refused) as refused:
            await scene.ask(Decision())
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario, data, commits_at_once=True)


def test_log_that_cannot_be_decoded_leaves_the_coordinator_unloaded() -> None:
    data = bytearray(encode_batch(new_records([(b"a", b"1")], 5)))
    data[61] = 0x7F

    async def scenario(scene: Scene) -> None:
        assert not scene.shard.is_loaded

    play(scenario, bytes(data), commits_at_once=True)


def test_who_waits_is_told_when_the_coordinator_resigns() -> None:
    async def scenario(scene: Scene) -> None:
        known, unknown = scene.ask(Decision(reply=Waiting(1))), scene.ask(Decision(reply=Waiting(2)))
        await turns()
        scene.shard.resign()
        assert (await known).error == ErrorCode.NOT_COORDINATOR
        with pytest.raises(Refused) as refused:
            await unknown
        assert refused.value.code == ErrorCode.NOT_COORDINATOR

    play(scenario, commits_at_once=True)


def test_deadline_is_carried_out_when_it_is_reached() -> None:
    async def scenario(scene: Scene) -> None:
        scene.core.deadline_ms = 0
        await scene.ask(Decision())
        await until(lambda: bool(scene.core.times))

    play(scenario, commits_at_once=True)


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never comes to pass")
