"""A quorum in one thread: virtual time, a network that loses, repeats and delays, disks that forget what was not
flushed. One seed is one history; the laws are checked after every event."""

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from random import Random

from ottla.core.quorum import effects as fx
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.log_shape import EMPTY, LogShape
from ottla.core.quorum.machine import Quorum
from ottla.core.quorum.member import QuorumSetup
from ottla.core.quorum.messages import Batch, Message, SnapshotId, VoteResponse
from ottla.core.quorum.roles import Candidate, Follower, Leader, Prospective, Unattached

Entry = tuple[int, object]
"""Epoch and value; LeaderChange is a value as well."""


@dataclass(slots=True)
class Disk:
    state: ElectionState = field(default_factory=ElectionState)
    base: SnapshotId = EMPTY
    snapshot: list[Entry] = field(default_factory=list)
    """Everything below `base`."""
    entries: list[Entry] = field(default_factory=list)
    flushed: int = 0
    arriving: dict[SnapshotId, list[Entry]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.base.end_offset + len(self.entries)

    def read(self, offset: int) -> Entry:
        at = offset - self.base.end_offset
        return self.entries[at] if at >= 0 else self.snapshot[offset]

    def shape(self) -> LogShape:
        epochs: list[tuple[int, int]] = []
        for at, (epoch, _) in enumerate(self.entries):
            if not epochs or epochs[-1][0] < epoch:
                epochs.append((epoch, self.base.end_offset + at))
        return LogShape(self.base, epochs, self.end)


@dataclass(slots=True)
class Node:
    id: int
    disk: Disk = field(default_factory=Disk)
    quorum: Quorum | None = None
    incarnation: int = 0
    is_flushing: bool = False
    highest_epoch: int = 0
    wake_ms: int = -1


class World:
    def __init__(self, seed: int, voters: int, observers: int = 0) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.now_ms = 0
        self.voters = frozenset(range(1, voters + 1))
        self.nodes = {i: Node(i) for i in range(1, voters + observers + 1)}
        self.events: list[tuple[int, int, object]] = []
        self.ticket = count()
        self.cut: set[frozenset[int]] = set()
        self.loss = self.repetition = 0.0
        self.delay_ms_max = 10
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.values = count(1)
        self.happened = 0
        self.trace: list[str] = []
        for node in self.nodes.values():
            self.boot(node)

    # what can happen

    def boot(self, node: Node) -> None:
        setup = QuorumSetup(node_id=node.id, voters=self.voters)
        node.incarnation += 1
        node.is_flushing = False
        node.quorum = Quorum(setup, node.disk.state, node.disk.shape(), Random(self.random.getrandbits(32)))
        self.do(node, node.quorum.start(self.now_ms))

    def crash(self, node: Node) -> None:
        """What was not flushed may be there or not, up to some point."""
        disk = node.disk
        kept = self.random.randint(disk.flushed, disk.end)
        del disk.entries[kept - disk.base.end_offset :]
        disk.flushed = disk.end
        disk.arriving.clear()
        node.quorum = None

    def propose(self, node: Node) -> None:
        quorum = node.quorum
        if quorum is None or not quorum.is_leader:
            return
        values = [(quorum.epoch, next(self.values)) for _ in range(self.random.randint(1, 3))]
        base = quorum.append(len(values))
        assert base == node.disk.end
        node.disk.entries += values
        self.do(node, quorum.on_appended())
        self.flush(node)

    def keep_snapshot(self, node: Node) -> None:
        quorum = node.quorum
        if quorum is None or quorum.high_watermark <= node.disk.base.end_offset:
            return
        end = self.random.randint(node.disk.base.end_offset + 1, quorum.high_watermark)
        kept = SnapshotId(end, quorum.log.epoch_at(end))
        at = end - node.disk.base.end_offset
        node.disk.snapshot = node.disk.snapshot + node.disk.entries[:at]
        del node.disk.entries[:at]
        node.disk.base = kept
        node.disk.flushed = max(node.disk.flushed, end)
        self.do(node, quorum.on_snapshot_kept(kept))

    def flush(self, node: Node) -> None:
        """An fsync in a thread: it takes a while, and covers what was there when it began."""
        if node.is_flushing or node.quorum is None or node.disk.flushed == node.disk.end:
            return
        node.is_flushing = True
        target, generation, incarnation = node.disk.end, node.quorum.log.generation, node.incarnation
        self.later(self.random.randint(0, 8), lambda: self.flushed(node, target, generation, incarnation))

    def flushed(self, node: Node, target: int, generation: int, incarnation: int) -> None:
        if node.quorum is None or node.incarnation != incarnation:
            return
        node.is_flushing = False
        if generation == node.quorum.log.generation:
            node.disk.flushed = max(node.disk.flushed, target)
        self.do(node, node.quorum.on_flushed(target, generation, self.now_ms))
        self.flush(node)

    def deliver(self, message: Message) -> None:
        node = self.nodes[message.target]
        if node.quorum is not None and frozenset((message.source, message.target)) not in self.cut:
            self.do(node, node.quorum.receive(message, self.now_ms))

    def wake(self, node: Node, incarnation: int) -> None:
        if node.quorum is None or node.incarnation != incarnation:
            return
        node.wake_ms = -1
        self.do(node, node.quorum.on_time(self.now_ms))

    # the machinery

    def later(self, delay_ms: int, action: object) -> None:
        heappush(self.events, (self.now_ms + delay_ms, next(self.ticket), action))

    def post(self, message: Message) -> None:
        if frozenset((message.source, message.target)) in self.cut or self.random.random() < self.loss:
            return
        copies = 2 if self.random.random() < self.repetition else 1
        for _ in range(copies):
            self.later(self.random.randint(1, self.delay_ms_max), lambda: self.deliver(message))

    def run(self, until_ms: int, events_max: int = 1_000_000) -> None:
        while self.events and self.events[0][0] <= until_ms and events_max:
            self.now_ms, _, action = heappop(self.events)
            action()  # type: ignore[operator]
            self.happened += 1
            events_max -= 1
            self.check()
        self.now_ms = max(self.now_ms, until_ms) if events_max else self.now_ms

    def do(self, node: Node, effects: list[fx.Effect]) -> None:
        assert node.quorum is not None
        for effect in effects:
            self.one(node, node.quorum, effect)
        self.arm(node)

    def arm(self, node: Node) -> None:
        assert node.quorum is not None
        deadline = node.quorum.next_deadline_ms()
        if deadline is None:
            return
        deadline_ms = max(deadline, self.now_ms)
        if not self.now_ms <= node.wake_ms <= deadline_ms:
            node.wake_ms = deadline_ms
            incarnation = node.incarnation
            self.later(deadline_ms - self.now_ms, lambda: self.wake(node, incarnation))

    def one(self, node: Node, quorum: Quorum, effect: fx.Effect) -> None:
        disk = node.disk
        match effect:
            case fx.Persist(state):
                assert state.epoch >= disk.state.epoch, "Q5: an epoch went back"
                if state.epoch == disk.state.epoch:
                    assert disk.state.voted_for in (None, state.voted_for), "Q5: a vote changed within an epoch"
                disk.state = state
            case fx.Send(message):
                self.check_send(node, message)
                self.post(message)
            case fx.AnswerFetch(response):
                self.post(replace(response, batches=self.read(disk, response.fetch_offset)))
            case fx.AnswerSnapshot(response):
                whole = disk.snapshot
                piece = whole[response.position : response.position + 3]
                self.post(replace(response, size=len(whole), data=tuple(piece), data_bytes=len(piece)))
            case fx.AppendLeaderChange(epoch, base, _):
                assert base == disk.end
                self.check_new_leader(node, epoch)
                disk.entries.append((epoch, f"leader {node.id}"))
                self.flush(node)
            case fx.Append(batches):
                for batch in batches:
                    assert batch.base_offset == disk.end
                    disk.entries += batch.data  # type: ignore[arg-type]
                self.flush(node)
            case fx.Truncate(end):
                assert end >= quorum.high_watermark, "Q2: committed entries were truncated"
                del disk.entries[end - disk.base.end_offset :]
                disk.flushed = min(disk.flushed, end)
            case fx.StoreSnapshot(snapshot, position, data):
                kept = disk.arriving.setdefault(snapshot, [])
                del kept[position:]
                kept += data  # type: ignore[arg-type]
            case fx.LoadSnapshot(snapshot):
                assert not quorum.is_leader, "Q9: a leader loaded a snapshot"
                disk.snapshot, disk.base, disk.entries = disk.arriving.pop(snapshot), snapshot, []
                assert len(disk.snapshot) == snapshot.end_offset
                disk.flushed = disk.end
                assert disk.snapshot == self.committed[: disk.end], "Q2: a snapshot that differs"
            case fx.Committed(high_watermark):
                self.check_committed(node, high_watermark)
            case fx.LeaderChanged():
                pass

    def read(self, disk: Disk, offset: int) -> tuple[Batch, ...]:
        """At most three batches, each of one epoch."""
        batches: list[Batch] = []
        while offset < disk.end and len(batches) < 3:
            epoch = disk.read(offset)[0]
            end = offset
            while end < disk.end and disk.read(end)[0] == epoch and end - offset < 4:
                end += 1
            batches.append(Batch(offset, end, epoch, tuple(disk.read(at) for at in range(offset, end))))
            offset = end
        return tuple(batches)

    # the laws

    def check_send(self, node: Node, message: Message) -> None:
        assert message.epoch <= node.disk.state.epoch, "Q5: an epoch was told before it was persisted"
        if isinstance(message, VoteResponse) and message.is_granted and not message.is_pre_vote:
            assert node.disk.state.epoch == message.epoch, "Q5"
            assert node.disk.state.voted_for == message.target, "Q5: a vote was told before it was persisted"

    def check_new_leader(self, node: Node, epoch: int) -> None:
        assert self.leaders.setdefault(epoch, node.id) == node.id, f"Q1: two leaders in epoch {epoch}"
        assert node.id in self.voters, "Q7: an observer leads"
        assert node.disk.end >= len(self.committed), "Q3: a leader lacks a committed entry"
        have = [node.disk.read(at) for at in range(len(self.committed))]
        assert have == self.committed, "Q3: a leader differs below the high watermark"

    def check_committed(self, node: Node, high_watermark: int) -> None:
        disk = node.disk
        known = len(self.committed)
        for at in range(disk.base.end_offset, min(known, high_watermark)):
            assert disk.read(at) == self.committed[at], f"Q2: nodes differ at {at}"
        if high_watermark > known:
            assert node.quorum is not None and node.quorum.is_leader, "Q6: a follower committed first"
            self.committed += [disk.read(at) for at in range(known, high_watermark)]

    def check(self) -> None:
        end = len(self.committed)
        if end:
            last = self.committed[-1]
            holders = sum(
                node.disk.flushed >= end and node.disk.read(end - 1) == last
                for node in self.nodes.values()
                if node.id in self.voters
            )
            assert holders > len(self.voters) // 2, "Q4, Q6: a committed entry is not on a majority of the disks"
        for node in self.nodes.values():
            quorum = node.quorum
            if quorum is None:
                continue
            assert quorum.epoch >= node.highest_epoch, "Q5: an epoch went back"
            node.highest_epoch = quorum.epoch
            assert quorum.log.end_offset == node.disk.end, "the shape is not that of the log"
            assert quorum.log.start == node.disk.base, "Q8"
            assert quorum.high_watermark <= end, "Q6"
            self.check_role(node, quorum)

    def check_role(self, node: Node, quorum: Quorum) -> None:
        role = quorum.role
        if node.id not in self.voters:
            assert isinstance(role, Unattached | Follower), "Q7: an observer stands for election"
        if isinstance(role, Leader):
            assert self.leaders[quorum.epoch] == node.id, "Q1"
        elif isinstance(role, Candidate):
            assert quorum.voted_for == node.id, "Q7"
        elif isinstance(role, Unattached | Prospective):
            assert quorum.leader_id is None, "Q7"

    # what a test asks

    @property
    def leader(self) -> Node | None:
        led = [n for n in self.nodes.values() if n.quorum is not None and n.quorum.is_leader]
        return max(led, key=lambda n: n.quorum.epoch if n.quorum else -1, default=None)

    def heal(self) -> None:
        self.cut.clear()
        self.loss = self.repetition = 0.0
        self.delay_ms_max = 10
        for node in self.nodes.values():
            if node.quorum is None:
                self.boot(node)
