"""How much a cluster of nodes takes: the processor time of every copy of a byte, shared out over the nodes.

A byte that is produced is received, checked and written once by its leader, sent to every follower, received and
written there, and sent to every consumer that reads it.
"""

from dataclasses import dataclass

from bench.plan.costs import Costs

LINE_BYTES_PER_S = 1.25e9
"""Ten gigabits a second, each way."""


@dataclass(frozen=True)
class Flow:
    """What is asked of the cluster."""

    factor: int = 3
    readers: int = 1
    batch_bytes: int = 1_000_000
    fetch_bytes: int = 1_000_000


def loop_seconds_per_gb(costs: Costs, flow: Flow) -> float:
    """Of all nodes together, for one GB that is produced."""
    batches, fetches = 1e9 / flow.batch_bytes, 1e9 / min(flow.fetch_bytes, 1e9)
    produce = costs["produce_s_per_gb"] + batches * costs["pipelined_us"] / 1e6
    read = costs["consume_s_per_gb"] + fetches * costs["fetch_us"] / 1e6
    # A follower does with what it fetches what a leader does with what it is sent; batches come many at a time.
    follow = read + costs["produce_s_per_gb"] + batches * costs["follower_batch_us"] / 1e6
    return produce + (flow.factor - 1) * follow + flow.readers * read


def line_bytes_per_byte(flow: Flow) -> tuple[int, int]:
    """Into and out of all nodes together, for one byte that is produced."""
    return flow.factor, flow.factor - 1 + flow.readers


@dataclass(frozen=True)
class Capacity:
    mb_per_s: float
    bound: str


def capacity(costs: Costs, flow: Flow, nodes: int, line_bytes_per_s: float = LINE_BYTES_PER_S) -> Capacity:
    """What the cluster can take at its very most: every loop and every line full, the load spread evenly."""
    loops = nodes / loop_seconds_per_gb(costs, flow) * 1000
    lines = nodes * line_bytes_per_s / max(line_bytes_per_byte(flow)) / 1e6
    return Capacity(loops, "event loops") if loops <= lines else Capacity(lines, "network")


def capacity_on_machines(costs: Costs, flow: Flow, machines: int, nodes_each: int) -> Capacity:
    """Several nodes share a machine's line, each has a core."""
    return capacity(costs, flow, machines * nodes_each, LINE_BYTES_PER_S / nodes_each)
