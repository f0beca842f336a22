"""What the plan says, as tables for the page: each function is one question and its answer."""

from collections.abc import Callable

from bench.page import table
from bench.plan.breaks import NODES, breaks
from bench.plan.checks import checks
from bench.plan.costs import MEANINGS, Costs
from bench.plan.failover import Crash, course, partitions_until_it_breaks
from bench.plan.latency import Latency, Load, Prices, acks_all
from bench.plan.metadata import group_load_seconds, weigh
from bench.plan.rebalance import Group, Step
from bench.plan.throughput import Flow, capacity, capacity_on_machines
from bench.race.table import number

CLUSTERS = ((3, 10_000), (3, 100_000), (12, 100_000), (12, 300_000), (48, 300_000), (48, 1_000_000))
"""Nodes and partitions."""
NODE_COUNTS = (1, 3, 6, 12, 24, 48)
SHARES = (0.2, 0.5, 0.8)
MEMBERS = (10, 50, 200, 600)
_CLIENTS_PER_NODE = 500
_SHARE_OF_ERRORS = 0.4


def count(value: float) -> str:
    """Two digits of a large number: the model knows no more."""
    if value < 1_000:
        return number(value)
    size = 10 ** (len(str(int(value))) - 2)
    return f"{round(value / size) * size:,}"


def inputs(costs: Costs) -> str:
    rows = [
        (meaning, f"{number(costs[name])} {unit}".strip(), f"`{costs.source(name)}`")
        for name, (unit, meaning) in MEANINGS.items()
    ]
    return table(("", "figure", "from"), rows) + f"\n\nMeasured by the plan itself: {costs.measured}."


def validation(costs: Costs) -> str:
    rows = [
        (
            one.what,
            f"{number(one.predicted)} {one.unit}",
            f"{number(one.measured)} {one.unit}",
            f"{one.off:.2f}",
            one.remark,
        )
        for one in checks(costs)
    ]
    return table(("one node", "predicted", "measured", "predicted / measured", ""), rows)


def throughput(costs: Costs) -> str:
    head = ("replicas", "batches", *(f"{nodes} nodes" for nodes in (3, 12, 48)), "bound", "12 machines, 4 nodes each")
    rows = []
    for batch_bytes, name in ((1_000_000, "1 MB"), (16_384, "16 KiB"), (1_000, "1 kB")):
        for factor in (1, 2, 3):
            flow = Flow(factor, 1, batch_bytes, max(batch_bytes, 64_000))
            found = [capacity(costs, flow, nodes) for nodes in (3, 12, 48)]
            machines = capacity_on_machines(costs, flow, 12, 4)
            cells = [count(one.mb_per_s) for one in found]
            rows.append((str(factor), name, *cells, found[0].bound, f"{count(machines.mb_per_s)} ({machines.bound})"))
    return table(head, rows)


def rate_at(costs: Costs, load: Load, share: float) -> float:
    """Batches per second and node that take this share of a loop when every batch is fetched by itself."""
    prices = Prices.of(costs, load)
    ask = 2 * prices.fetch_half + load.batch_bytes * prices.fetch_byte
    each = prices.produce + (load.factor - 1) * (ask + prices.follow_fixed + prices.follow_batch)
    return share / (each + load.readers * prices.read)


def latency_of(costs: Costs, share: float, nodes: int = 3, factor: int = 3, named: int = 1) -> Latency:
    plain = Load(nodes, factor)
    return acks_all(costs, Load(nodes, factor, partitions_per_pair=named, batches_per_s=rate_at(costs, plain, share)))


def latency(costs: Costs) -> str:
    head = ("nodes", "replicas", "partitions between two nodes", *(f"at {share:.0%}: p50 / p99 ms" for share in SHARES))
    shapes = ((3, 1, 1), (3, 2, 1), (3, 3, 1), (12, 3, 1), (3, 3, 100), (3, 3, 1_000))
    rows = []
    for nodes, factor, named in shapes:
        found = [latency_of(costs, share, nodes, factor, named) for share in SHARES]
        cells = [f"{number(one.p50_ms)} / {number(one.p99_ms)} ({one.used:.0%})" for one in found]
        rows.append((str(nodes), str(factor), f"{named:,}", *cells))
    return table(head, rows)


def metadata(costs: Costs) -> str:
    head = (
        "nodes, partitions",
        "replicas per node",
        "snapshot",
        "image",
        "loaded in",
        "logs opened in",
        "copy of the image",
        "metadata of all, encoded",
        "memory of a node",
        "fetches that find nothing",
    )
    rows = []
    for nodes, partitions in CLUSTERS:
        one = weigh(costs, partitions, nodes)
        rows.append(
            (
                f"{nodes}, {partitions:,}",
                count(one.hosted),
                f"{number(one.snapshot_mb)} MB",
                f"{number(one.image_mb)} MB",
                f"{number(one.load_s)} s",
                f"{number(one.open_s)} s",
                f"{number(one.copy_ms)} ms",
                f"{number(one.answer_mb)} MB, {number(one.answer_ms)} ms",
                f"{count(one.node_mb)} MB",
                f"{one.idle_share:.0%} of a loop",
            )
        )
    return table(head, rows)


def groups(costs: Costs) -> str:
    rows = []
    for amount in (1_000, 10_000, 100_000):
        cells = [f"{number(group_load_seconds(costs, amount, 10, 50, nodes))} s" for nodes in (1, 3, 12, 50)]
        rows.append((f"{amount:,}", *cells))
    return table(("groups with 10 offsets each", "1 node", "3 nodes", "12 nodes", "50 nodes and more"), rows)


def fail_over(costs: Costs) -> str:
    head = (
        "nodes, partitions",
        "noticed",
        "decided",
        "committed",
        "led anew",
        "clients: half / all",
        "controller stands still",
        "every node stands still",
        "in order: clients, half / all",
    )
    rows = []
    for nodes, partitions in CLUSTERS:
        crash = Crash(nodes, partitions, _CLIENTS_PER_NODE * nodes)
        one = course(costs, crash)
        orderly = course(costs, Crash(nodes, partitions, _CLIENTS_PER_NODE * nodes, is_orderly=True))
        broken = " **(breaks)**" if one.breaks else ""
        rows.append(
            (
                f"{nodes}, {partitions:,}",
                f"{one.noticed:.1f} s",
                f"+{number(one.decided - one.noticed)} s",
                f"+{number(one.committed - one.decided)} s",
                f"+{number(one.led - one.committed)} s",
                f"{one.median_client:.1f} / {one.last_client:.1f} s",
                f"{number(one.controller_stall)} s{broken}",
                f"{number(one.node_stall)} s",
                f"{orderly.median_client:.1f} / {orderly.last_client:.1f} s",
            )
        )
    return table(head, rows)


Steps = tuple[Step, Step, Step]


def lives(costs: Costs) -> dict[tuple[str, int], Steps]:
    """A group's life for every protocol and size."""
    found = {}
    for members in MEMBERS:
        for protocol in ("classic", "consumer"):
            group = Group(costs, protocol, members)
            found[protocol, members] = (group.all_come(), group.one_leaves(), group.one_comes())
    return found


def rebalance(lived: dict[tuple[str, int], Steps]) -> str:
    head = ("members, protocol", "all come", "one leaves", "one comes", "processor of the coordinator, all three")
    rows = []
    for (protocol, members), steps in lived.items():
        come, *later = steps
        cells = [f"{one.seconds:.1f} s; {number(one.stood_still)} s" for one in later]
        busy = sum(step.coordinator_seconds for step in steps)
        rows.append((f"{members}, {protocol}", f"{come.seconds:.1f} s", *cells, f"{number(busy)} s"))
    return table(head, rows)


def errors(costs: Costs) -> str:
    """What the plan would say if the processor's part of all costs were wrong by a factor of two."""
    rate = rate_at(costs, Load(), _SHARE_OF_ERRORS)
    crash = Crash(12, 100_000, _CLIENTS_PER_NODE * 12)
    columns = []
    for times in (0.5, 1.0, 2.0):
        other = costs.scaled(times)
        per_node = capacity(other, Flow(batch_bytes=16_384, fetch_bytes=64_000), 12)
        found = acks_all(other, Load(batches_per_s=rate))
        gone = course(other, crash)
        first = min(breaks(other, NODES), key=lambda one: one.reached if one.unit == "partitions" else float("inf"))
        columns.append(
            (
                f"{count(per_node.mb_per_s)} MB/s",
                f"{number(found.p50_ms)} / {number(found.p99_ms)} ms",
                f"{gone.median_client:.1f} s",
                f"{count(partitions_until_it_breaks(other, NODES))}",
                f"{count(first.reached)}",
            )
        )
    about = (
        "12 nodes, 3 replicas, batches of 16 KiB",
        f"acks=all on 3 nodes, {count(rate)} batches/s a node: p50 / p99",
        "fail-over, 12 nodes, 100,000 partitions: half of the clients",
        "partitions until the controller's decision breaks, 12 nodes",
        "partitions until anything breaks, 12 nodes",
    )
    rows = [(what, *cells) for what, *cells in zip(about, *columns, strict=True)]
    return table(("", "costs half as high", "as measured", "twice as high"), rows)


def limits(costs: Costs) -> str:
    rows = [(one.what, one.when, f"{count(one.reached)} {one.unit}", one.then) for one in breaks(costs, NODES)]
    return table(("", "too much is", f"reached at, with {NODES} nodes", "what would be changed then"), rows)


TABLES: dict[str, Callable[[Costs], str]] = {
    "inputs": inputs,
    "checks": validation,
    "throughput": throughput,
    "latency": latency,
    "metadata": metadata,
    "groups": groups,
    "fail-over": fail_over,
    "limits": limits,
    "errors": errors,
}
"""By the name of their place in the page; rebalances are told apart, because the picture needs them too."""
