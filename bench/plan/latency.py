"""How long acks=all takes under load: producers, leaders, followers and their long polls, event by event.

The leader's own view of its followers is the real one, `core.replication.leader`. Every node leads an equal share and
follows every other node with one fetcher; a fetcher has one request under way, as Kafka's has.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.plan.costs import Costs
from bench.plan.world import Server, World
from ottla.base.types import BrokerId, Epoch, Offset
from ottla.core.replication.leader import Leader, Leadership

HOP_SECONDS = 100e-6
"""One way between two machines, the kernels on both ends included: an assumption."""
BATCHES = 4_000
"""That are timed, per run: the tail of the tail is not what this model is for."""
_SEED = 7


@dataclass(frozen=True)
class Load:
    nodes: int = 3
    factor: int = 3
    batch_bytes: int = 16_384
    partitions_per_pair: int = 1
    """So many partitions a follower names in every fetch to one leader: fetch sessions are declined (ADR 6)."""
    batches_per_s: float = 1_000.0
    """Per leading node."""
    readers: int = 1


@dataclass(frozen=True)
class Prices:
    """Seconds of a loop."""

    produce: float
    fetch_half: float
    """Reading what a fetch asks for, or making its answer: each looks at every partition that it names."""
    fetch_byte: float
    follow_fixed: float
    follow_batch: float
    read: float

    @classmethod
    def of(cls, costs: Costs, load: Load) -> "Prices":
        per_byte = costs["produce_s_per_gb"] / 1e9
        sent = costs["consume_s_per_gb"] / 1e9
        many = load.partitions_per_pair - 1
        return cls(
            produce=costs["single_us"] / 1e6 + load.batch_bytes * per_byte,
            fetch_half=(costs["fetch_us"] / 2 + many * costs["fetch_partition_us"]) / 1e6,
            fetch_byte=sent,
            follow_fixed=(costs["fetch_us"] + many * costs["follow_partition_us"]) / 1e6,
            follow_batch=costs["follower_batch_us"] / 1e6 + load.batch_bytes * per_byte,
            read=costs["fetch_us"] / 1e6 + load.batch_bytes * sent,
        )


class _Line:
    """One leader's partitions, seen as one log, and the followers that pull from it."""

    def __init__(self, cluster: "Cluster", me: int) -> None:
        self.cluster = cluster
        self.me = me
        load = cluster.load
        others = [(me + step) % load.nodes for step in range(1, load.factor)]
        ids = tuple(BrokerId(node) for node in (me, *others))
        term = Leadership(ids[0], Epoch(1), ids, frozenset(ids), min(2, load.factor))
        self.leader = Leader(term, Offset(0), Offset(0), 0)
        self.followers = others
        self.parked: dict[int, Offset] = {}
        self.waiting: deque[tuple[int, float]] = deque()

    def begin(self) -> None:
        for follower in self.followers:
            self.parked[follower] = Offset(0)

    def produce(self) -> None:
        asked = self.cluster.world.now - HOP_SECONDS
        self.cluster.loops[self.me].do(self.cluster.prices.produce, lambda: self._append(asked))

    def _append(self, asked: float) -> None:
        end = Offset(self.leader.end + 1)
        self.waiting.append((end, asked))
        self.leader.on_append(end)
        for follower, offset in list(self.parked.items()):
            del self.parked[follower]
            self._answer(follower, offset)
        self._acknowledge()
        for _ in range(self.cluster.load.readers):
            self.cluster.loops[self.me].do(self.cluster.prices.read, _nothing)

    def _answer(self, follower: int, offset: Offset) -> None:
        prices, load = self.cluster.prices, self.cluster.load
        bytes_sent = (self.leader.end - offset) * load.batch_bytes
        cost = prices.fetch_half + bytes_sent * prices.fetch_byte

        def leave() -> None:
            # What has come in while the answer was made leaves with the next one.
            self.cluster.world.at(HOP_SECONDS, lambda: self._follow(follower, offset, end))

        end = self.leader.end
        self.cluster.loops[self.me].do(cost, leave)

    def _follow(self, follower: int, offset: Offset, end: Offset) -> None:
        prices = self.cluster.prices
        cost = prices.follow_fixed + (end - offset) * prices.follow_batch
        ask: Callable[[], None] = lambda: self.cluster.world.at(HOP_SECONDS, lambda: self._asked(follower, end))  # noqa: E731
        self.cluster.loops[follower].do(cost, ask)

    def _asked(self, follower: int, offset: Offset) -> None:
        self.cluster.loops[self.me].do(self.cluster.prices.fetch_half, lambda: self._fetched(follower, offset))

    def _fetched(self, follower: int, offset: Offset) -> None:
        self.leader.on_follower_fetch(BrokerId(follower), offset, int(self.cluster.world.now * 1000))
        self._acknowledge()
        if offset < self.leader.end:
            self._answer(follower, offset)
        else:
            self.parked[follower] = offset

    def _acknowledge(self) -> None:
        while self.waiting and self.waiting[0][0] <= self.leader.high_watermark:
            _, asked = self.waiting.popleft()
            self.cluster.took.append(self.cluster.world.now + HOP_SECONDS - asked)


def _nothing() -> None:
    """Work whose end nobody waits for."""


class Cluster:
    def __init__(self, costs: Costs, load: Load) -> None:
        self.load = load
        self.prices = Prices.of(costs, load)
        self.world = World()
        self.loops = [Server(self.world) for _ in range(load.nodes)]
        self.took: list[float] = []

    def run(self) -> None:
        random = Random(_SEED)
        for me in range(self.load.nodes):
            line = _Line(self, me)
            line.begin()
            due = 0.0
            for _ in range(BATCHES // self.load.nodes):
                due += random.expovariate(self.load.batches_per_s)
                self.world.at(due + HOP_SECONDS, line.produce)
        self.world.run()


@dataclass(frozen=True)
class Latency:
    p50_ms: float
    p99_ms: float
    used: float
    """Share of the time in which the busiest loop was at work."""


def acks_all(costs: Costs, load: Load) -> Latency:
    cluster = Cluster(costs, load)
    cluster.run()
    took = sorted(cluster.took)
    assert len(took) == BATCHES // load.nodes * load.nodes, "every batch is acknowledged"
    busiest = max(loop.busy_seconds for loop in cluster.loops) / cluster.world.now
    return Latency(took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3, busiest)
