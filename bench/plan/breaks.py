"""Where it breaks first: for each bound, the size at which it is reached, and what would be changed then."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.plan.costs import Costs
from bench.plan.failover import CLIENT_RETRY_SECONDS, partitions_until_it_breaks
from bench.plan.latency import Load, Prices, acks_all
from bench.plan.metadata import FACTOR, weigh
from bench.plan.throughput import Flow, capacity
from ottla.cli.start import DESCRIPTORS_WANTED
from ottla.storage.files import _FDS_MAX

NODES = 12
_MEMORY_MB = 4_000
_STALL_MS = 100.0
"""So long a loop may stand still before clients see it in their p99."""
_ACKS_ALL_MS = 10.0


@dataclass(frozen=True)
class Break:
    what: str
    when: str
    reached: float
    unit: str
    then: str


def least(is_too_much: Callable[[int], bool], most: int = 100_000_000) -> int:
    """The smallest number, to three digits, at which it is too much."""
    low, high = 0, most
    while high - low > max(low // 500, 1):
        middle = (low + high) // 2
        if is_too_much(middle):
            high = middle
        else:
            low = middle
    return high


def breaks(costs: Costs, nodes: int = NODES) -> list[Break]:
    """Those that are counted in partitions come first, and in the order in which they are reached."""
    fetches = [_named_in_fetches(costs, nodes), _idle_fetches(costs, nodes)]
    by_partitions = [*fetches, *_stalls(costs, nodes), *_room(costs, nodes), _restart(costs, nodes)]
    return [*sorted(by_partitions, key=lambda one: one.reached), *_others(costs, nodes)]


def _named_in_fetches(costs: Costs, nodes: int) -> Break:
    """How many partitions two nodes may share before a follower's fetches are too slow for those who wait for them."""
    quiet = Load(nodes=3, batches_per_s=1 / (20 * Prices.of(costs, Load()).produce))

    def is_too_much(count: int) -> bool:
        return acks_all(costs, replace(quiet, partitions_per_pair=count)).p99_ms > _ACKS_ALL_MS

    shared = least(is_too_much, 10_000)
    return Break(
        "acks=all, because a follower's fetch names all partitions that it shares with a leader",
        f"a p99 of {_ACKS_ALL_MS:.0f} ms with loops that have little else to do",
        shared * nodes * (nodes - 1) / (FACTOR - 1),
        "partitions",
        "fetch sessions between nodes (KIP-227; declined by ADR 6), so that a fetch costs what has changed",
    )


def _idle_fetches(costs: Costs, nodes: int) -> Break:
    return Break(
        "fetches between followers that find nothing",
        "a quarter of every loop",
        least(lambda count: weigh(costs, count, nodes).idle_share > 0.25),
        "partitions",
        "fetch sessions between nodes, as above; an idle fetch that waits longer",
    )


def _stalls(costs: Costs, nodes: int) -> list[Break]:
    def node_stall_ms(count: int) -> float:
        touched = count * FACTOR / nodes
        return touched * (costs["follow_change_us"] + (FACTOR - 1) / (nodes - 1) * costs["lead_us"]) / 1e3

    return [
        Break(
            "metadata of all topics for one client",
            f"a stall of {_STALL_MS:.0f} ms",
            least(lambda count: weigh(costs, count, nodes).answer_ms > _STALL_MS),
            "partitions",
            "keep the encoded answer of a topic until the topic changes; encode long answers in pieces",
        ),
        Break(
            "the copy of the image for a snapshot",
            f"a stall of {_STALL_MS:.0f} ms",
            least(lambda count: weigh(costs, count, nodes).copy_ms > _STALL_MS),
            "partitions",
            "an image of immutable parts, so that a snapshot shares what it stands for",
        ),
        Break(
            "a fail-over, on every node: changes read and taken up",
            "a stall of 1 s",
            least(lambda count: node_stall_ms(count) > 1_000),
            "partitions",
            "take up changes in slices between requests; send each node the changes that concern it first",
        ),
        Break(
            "a fail-over, on the controller: one decision for all partitions",
            "the quorum's patience, 2 s: another controller is elected and decides as long",
            partitions_until_it_breaks(costs, nodes),
            "partitions",
            "decide in slices of some thousand partitions, each committed by itself; an index of partitions by broker",
        ),
    ]


def _room(costs: Costs, nodes: int) -> list[Break]:
    return [
        Break(
            "memory",
            f"{_MEMORY_MB:,} MB on a node",
            least(lambda count: weigh(costs, count, nodes).node_mb > _MEMORY_MB),
            "partitions",
            "more nodes; partitions at rest as their directory's name and nothing else",
        ),
    ]


def _restart(costs: Costs, nodes: int) -> Break:
    return Break(
        "the start of a node after a clean stop",
        "a minute",
        least(lambda count: weigh(costs, count, nodes).open_s + weigh(costs, count, nodes).load_s > 60),
        "partitions",
        "open a log when it is first asked for; serve what is open while the rest is being opened",
    )


def _others(costs: Costs, nodes: int) -> list[Break]:
    flow = Flow()
    full = capacity(costs, flow, nodes)
    small = Flow(batch_bytes=1_000, fetch_bytes=64_000)
    clients = 1e6 / costs["single_us"] * CLIENT_RETRY_SECONDS
    return [
        Break(
            "throughput, large batches",
            f"bound by the {full.bound}",
            full.mb_per_s / nodes,
            "MB/s per node",
            "a faster line; readers sent to a follower near them (KIP-392); several nodes on a machine only then",
        ),
        Break(
            "throughput, one record of 1 kB per batch",
            "bound by Python per request",
            capacity(costs, small, nodes).mb_per_s / nodes,
            "MB/s per node",
            "linger at the producers; several nodes on a machine",
        ),
        Break(
            "clients of one node that all look for a leader",
            "a loop full of requests for metadata, one each second",
            clients,
            "clients per node",
            "the topic's encoded answer kept, as above; clients' own backoff grows",
        ),
        Break(
            "connections: every client has one to every node",
            f"{DESCRIPTORS_WANTED:,} descriptors, without those kept for logs",
            DESCRIPTORS_WANTED - _FDS_MAX,
            "clients",
            "a higher limit; the memory of a connection at rest would allow it",
        ),
    ]
