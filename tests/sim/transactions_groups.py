"""Group commits in a simulated world: several coordinators, tasks that write, drivers that die and come back, zombies.

A driver takes its batches in order. For each, tasks write in transactions of their own, and one CommitGroup ends them.
What a driver knows of its progress is the last batch it was told to be committed, so it replays.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.core.groups.placement import partition_for
from ottla.core.transactions.asks import (
    AskVerdict,
    CommitGroup,
    CommitOffsets,
    EndMember,
    EndPinned,
    GroupCommitReply,
    GroupDone,
    PinMember,
    ProducerIdNeeded,
)
from ottla.core.transactions.group_commit import is_outdated, offset_metadata
from ottla.core.transactions.placement import commit_key
from ottla.core.transactions.records import GroupOffset, Member, Pin
from tests.sim.transactions_laws import Txn
from tests.sim.transactions_producer import Producer
from tests.sim.transactions_world import Coordinator, Failed, Line, World

SINK, QUERY = "lake", "orders"
_attempts = count()
Batch = tuple[int, list[Txn]]


class GroupWorld(World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.coordinators = [GroupCoordinator(self, str(index)) for index in range(3)]
        self.attempts: list[Batch] = []
        """Every set of transactions that was written for a batch."""
        self.acknowledged: set[int] = set()
        self.offsets: list[int] = []
        self.offset_metadata = ""

    def coordinator_of(self, transactional_id: str) -> Coordinator:
        return self.coordinators[sum(transactional_id.encode()) % len(self.coordinators)]

    def coordinator_of_group(self) -> Coordinator:
        return self.coordinators[partition_for(commit_key(SINK, QUERY), len(self.coordinators))]

    def check_groups(self) -> None:
        """Every acknowledged batch is visible once and whole; no batch is visible in part, or twice."""
        fates = self.laws.fates
        committed: dict[int, int] = {}
        for batch, txns in self.attempts:
            ends = {fates.get(txn, False) for txn in txns if txn.acked}
            assert len(ends) <= 1, f"batch {batch} is torn"
            if ends == {True}:
                committed[batch] = committed.get(batch, 0) + 1
        doubled = [batch for batch, times in committed.items() if times > 1]
        assert not doubled, f"batches {doubled} are there more than once"
        lost = self.acknowledged - committed.keys()
        assert not lost, f"batches {lost} were acknowledged and are not there"
        assert self.offsets == sorted(self.offsets), "source offsets went back"
        assert not committed or self.offsets[-1] == max(committed), "source offsets are not those of the output"


class GroupCoordinator(Coordinator):
    """Carries out what goes from one coordinator to another, over a network that may lose it."""

    world: GroupWorld

    def tell(self, effect: Any) -> None:
        if isinstance(effect, PinMember):
            self._send(lambda: self._pin(effect))
        elif isinstance(effect, EndMember):
            self._send(lambda: self._end(effect.transactional_id, effect.pin, effect.committed))
        elif isinstance(effect, CommitOffsets):
            self._send(lambda: self._commit_offsets(effect))
        else:
            assert isinstance(effect, AskVerdict)
            self._send(lambda: self._ask_verdict(effect))

    def _send(self, action: Callable[[], None]) -> None:
        world = self.world
        if not world.chance(world.faults.lost):
            world.at(world.delay(), action)
        if world.chance(world.faults.doubled):
            world.at(world.random.uniform(0, 4_000), action)

    def _pin(self, effect: PinMember) -> None:
        def report(reply: Any) -> None:
            code = reply.code if isinstance(reply, Failed) else ErrorCode.NONE
            home = self.world.coordinator_of_group()
            self._send(lambda: home.call(lambda s, now: s.on_pinned(effect.transactional_id, effect.pin, code, now)))

        member = self.world.coordinator_of(effect.transactional_id)
        member.call(lambda shard, now: shard.pin(effect.transactional_id, effect.pin, now), report)

    def _end(self, transactional_id: str, pin: Pin, committed: bool, new_producer_id: int = -1) -> None:
        ask = EndPinned(
            transactional_id=transactional_id, pin=pin, committed=committed, new_producer_id=new_producer_id
        )

        def report(reply: Any) -> None:
            if isinstance(reply, ProducerIdNeeded):
                self._end(transactional_id, pin, committed, next(self.world.producer_ids))
            elif reply is None and committed:
                done = GroupDone(pin.sink, pin.query, pin.batch, members=frozenset({transactional_id}))
                self._send(lambda: self.world.coordinator_of_group().serve("on_group_done", done, lambda reply: None))

        self.world.coordinator_of(transactional_id).serve("end_pinned", ask, report)

    def _commit_offsets(self, effect: CommitOffsets) -> None:
        (offset,) = effect.offsets
        if not is_outdated(effect, self.world.offset_metadata):
            self.world.offsets.append(offset.offset)
            self.world.offset_metadata = offset_metadata(effect)
        done = GroupDone(effect.sink, effect.query, effect.batch, has_offsets=True)
        self._send(lambda: self.world.coordinator_of_group().serve("on_group_done", done, lambda reply: None))

    def _ask_verdict(self, effect: AskVerdict) -> None:
        def told(reply: Any) -> None:
            if isinstance(reply, bool):
                self._send(lambda: self._end(effect.transactional_id, effect.pin, reply))

        self.world.coordinator_of_group().call(lambda shard, now: shard.verdict(effect.pin, now), told)


class Task(Producer):
    """Writes its part of a batch in one transaction and leaves it open."""

    def __init__(self, world: GroupWorld, transactional_id: str, done: Callable[["Task", bool], None]) -> None:
        super().__init__(world, f"{transactional_id} {next(_attempts)}", transactional_id, is_bumping=True)
        self._done = done

    @property
    def member(self) -> Member:
        return Member(self.transactional_id, self.producer_id, self.epoch)

    @property
    def txn(self) -> Txn:
        return self._txn

    def end(self, committed: bool) -> None:
        if not self._txn.acked:
            self._left = 1
            self._write_next()
            return
        self._finish(committed=True)

    def _fail(self) -> None:
        self._finish(committed=False)

    def _finish(self, committed: bool) -> None:
        if not self.is_over:
            self.is_over = True
            self._done(self, committed)


class Driver:
    """One run of the query's driver, from what its checkpoint says on."""

    def __init__(self, world: GroupWorld, batch: int) -> None:
        self.world = world
        self.batch = batch
        self.is_dead = False
        self._line = Line(world, is_orderly=False)
        self._ready: list[Task] = []
        self._tasks: list[Task] = []

    def run_batch(self) -> None:
        if self.is_dead:
            return
        self._ready = []
        self._tasks = [Task(self.world, f"task-{self.batch % 2}-{index}", self._on_task) for index in range(3)]
        for task in self._tasks:
            task.init()

    def _on_task(self, task: Task, is_written: bool) -> None:
        if self.is_dead or task not in self._tasks:
            return
        if not is_written:
            self._again()
            return
        self._ready.append(task)
        if len(self._ready) == len(self._tasks):
            txns = [ready.txn for ready in self._ready]
            for txn in txns:
                txn.may_commit = True
            self.world.attempts.append((self.batch, txns))
            self._commit()

    def _commit(self) -> None:
        if self.is_dead:
            return
        ask = CommitGroup(
            sink=SINK,
            query=QUERY,
            batch=self.batch,
            members=tuple(task.member for task in self._ready),
            offsets=(GroupOffset("g", "source", 0, self.batch),),
            digest=b"offsets of %d" % self.batch,
        )
        self._line.call(
            lambda respond: self.world.coordinator_of_group().serve("commit_group", ask, respond),
            self._on_answer,
            4_000,
        )

    def _on_answer(self, reply: Any) -> None:
        if self.is_dead:
            return
        if isinstance(reply, Failed):
            self.world.at(100, self._commit)
            return
        assert isinstance(reply, GroupCommitReply)
        if reply.error is ErrorCode.NONE:
            self.world.acknowledged.add(self.batch)
            self.batch += 1
            self.world.at(self.world.random.choice((0, 50, 500)), self.run_batch)
        elif reply.error is ErrorCode.INVALID_REQUEST:
            self.is_dead = True  # another driver has gone further
        else:
            self._again()

    def _again(self) -> None:
        for task in self._tasks:
            task.is_over = True
        self.world.at(200, self.run_batch)


def run_groups(seed: int) -> GroupWorld:
    world = GroupWorld(seed)
    for coordinator in world.coordinators:
        coordinator.start()
    drivers = [Driver(world, 0)]
    drivers[0].run_batch()

    def replace() -> None:
        """The driver dies, or is thought to be dead and goes on; its successor reads the checkpoint."""
        if world.is_healed:
            return
        drivers[-1].is_dead = world.chance(0.6)
        checkpoint = max(world.acknowledged, default=-1) + world.random.choice((0, 1))
        drivers.append(Driver(world, max(checkpoint, 0)))
        drivers[-1].run_batch()
        world.at(world.random.uniform(1_000, 8_000), replace)

    world.at(world.random.uniform(1_000, 8_000), replace)
    for coordinator in world.coordinators:
        world.at(world.random.uniform(0, 15_000), coordinator.crash)
    world.run_for(15_000)
    world.faults.heal()
    world.is_healed = True
    for driver in drivers[:-1]:
        driver.is_dead = True
    count_before = len(world.acknowledged)
    world.run_for(40_000)
    assert drivers[-1].is_dead or len(world.acknowledged) > count_before, "no batch goes through any more"
    drivers[-1].is_dead = True
    world.run_for(40_000)
    world.laws.check_end([], [partition.visible for partition in world.partitions])
    world.check_groups()
    return world
