"""What follows when a node is gone: noticed, decided, committed, applied, led anew, found again by the clients.

And when it goes in order: a controlled shutdown is the same without the wait until somebody notices.
"""

from dataclasses import dataclass, fields
from typing import Any

from bench.plan.costs import Costs
from bench.plan.latency import HOP_SECONDS
from bench.plan.world import Server, World
from ottla.runtime.controller import BROKER_SESSION_MS, ControllerPlace
from ottla.runtime.quorum import FETCH_BYTES_MAX

HEARTBEAT_SECONDS = 2.0
SESSION_SECONDS = BROKER_SESSION_MS / 1000
_QUORUM: dict[str, Any] = {each.name: each.default for each in fields(ControllerPlace)}
FETCH_TIMEOUT_SECONDS = _QUORUM["fetch_timeout_ms"] / 1000
CLIENT_RETRY_SECONDS = 1.0
"""A client that knows no leader asks for metadata again so often (`retry.backoff.max.ms`, both client libraries)."""
CLIENTS = 600
"""That are simulated; each stands for its share of the real ones."""
FACTOR = 3
COPY_S_PER_BYTE = 1e-9
"""From the metadata log to a follower's socket: cheap beside everything else."""


@dataclass(frozen=True)
class Crash:
    nodes: int = 12
    partitions: int = 30_000
    clients: int = 600
    partitions_per_client: int = 50
    is_orderly: bool = False


@dataclass(frozen=True)
class Course:
    """Seconds after the node has gone."""

    noticed: float
    decided: float
    committed: float
    led: float
    """The last node leads what it has got."""
    median_client: float
    last_client: float
    controller_stall: float
    node_stall: float

    @property
    def breaks(self) -> bool:
        """The other voters take a controller that stands still so long for dead, and elect another."""
        return self.controller_stall >= FETCH_TIMEOUT_SECONDS


class FailOver:
    def __init__(self, costs: Costs, crash: Crash) -> None:
        self.costs = costs
        self.crash = crash
        self.world = World()
        self.controller = Server(self.world)
        self.loops = [Server(self.world) for _ in range(crash.nodes - 1)]
        self.has_new = [False] * len(self.loops)
        self.served: list[float] = []
        self.marks: dict[str, float] = {}
        self.touched = crash.partitions * FACTOR / crash.nodes
        self.led = crash.partitions / crash.nodes

    def run(self) -> Course:
        # The last heartbeat came, on average, half an interval before the end.
        wait = 0.0 if self.crash.is_orderly else SESSION_SECONDS - HEARTBEAT_SECONDS / 2
        self.world.at(wait, self._notice)
        for number in range(CLIENTS):
            self.world.at(CLIENT_RETRY_SECONDS * number / CLIENTS, lambda number=number: self._ask(number))  # type: ignore[misc]
        self.world.run()
        self.served.sort()
        decided = self.marks["decided"]
        return Course(
            noticed=wait,
            decided=decided,
            committed=self.marks["committed"],
            led=self.marks["led"],
            median_client=self.served[len(self.served) // 2],
            last_client=self.served[-1],
            controller_stall=decided - wait,
            node_stall=self._node_seconds(),
        )

    def _notice(self) -> None:
        """One decision for everything: the controller does nothing else meanwhile."""
        costs = self.costs
        records_us = costs["decide_us"] + costs["encode_us"] + costs["apply_us"]
        seconds = (self.crash.partitions * costs["scan_us"] + self.touched * records_us) / 1e6
        self.controller.do(seconds, self._decided)

    def _decided(self) -> None:
        self.marks["decided"] = self.world.now
        # A follower of the quorum fetches it piece by piece, and forces it to the disk; then its next fetch says so.
        size = self.touched * self.costs["change_bytes"]
        pieces = int(size // FETCH_BYTES_MAX) + 1
        fsync = 1 / self.costs["fsynced_per_s"]
        each = self.costs["fetch_us"] / 1e6 + size / pieces * COPY_S_PER_BYTE
        seconds = pieces * (2 * HOP_SECONDS + each + fsync)
        self.controller.do(pieces * each, lambda: self.world.at(seconds, self._committed))

    def _committed(self) -> None:
        self.marks["committed"] = self.world.now
        size = self.touched * self.costs["change_bytes"]
        for number, loop in enumerate(self.loops):
            cost = self.costs["fetch_us"] / 1e6 + size * COPY_S_PER_BYTE
            arrive = lambda number=number, loop=loop: loop.do(  # noqa: E731
                self._node_seconds(), lambda: self._lead(number)
            )
            self.controller.do(cost, lambda arrive=arrive: self.world.at(HOP_SECONDS, arrive))  # type: ignore[misc]

    def _node_seconds(self) -> float:
        """Every node reads every change; it takes up what it hosts itself."""
        hosted = self.touched * (FACTOR - 1) / (self.crash.nodes - 1)
        return (self.touched * self.costs["follow_change_us"] + hosted * self.costs["lead_us"]) / 1e6

    def _lead(self, number: int) -> None:
        self.has_new[number] = True
        self.marks["led"] = self.world.now

    def _ask(self, number: int) -> None:
        """A client asks some node for metadata, and is served as soon as that node knows the new leaders."""
        node = (number * 7 + int(self.world.now)) % len(self.loops)
        each = self.costs["single_us"] + self.crash.partitions_per_client * self.costs["metadata_partition_us"]
        share = max(self.crash.clients / CLIENTS, 1.0)

        def answered() -> None:
            if self.has_new[node]:
                self.served.append(self.world.now + 3 * HOP_SECONDS)
            else:
                self.world.at(CLIENT_RETRY_SECONDS, lambda: self._ask(number))

        self.world.at(HOP_SECONDS, lambda: self.loops[node].do(each * share / 1e6, answered))


def course(costs: Costs, crash: Crash) -> Course:
    return FailOver(costs, crash).run()


def partitions_until_it_breaks(costs: Costs, nodes: int) -> int:
    """How many partitions the cluster may have before one decision takes as long as the quorum's patience."""
    per_partition = costs["scan_us"] + FACTOR / nodes * (costs["decide_us"] + costs["encode_us"] + costs["apply_us"])
    return int(FETCH_TIMEOUT_SECONDS * 1e6 / per_partition)
