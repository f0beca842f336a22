"""The four charts of the plan."""

from bench.plan.chart import Line, Panel, draw
from bench.plan.costs import Costs
from bench.plan.failover import Course, Crash, course
from bench.plan.tables import MEMBERS, NODE_COUNTS, Steps, latency_of
from bench.plan.throughput import Flow, capacity

_PARTITIONS = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.85)
_NODES = 12


def picture(costs: Costs, lived: dict[tuple[str, int], Steps]) -> str:
    panels = (_throughput(costs), _latency(costs), _fail_over(costs), _rebalance(lived))
    return draw("Past one machine: what the plan expects", panels)


def _throughput(costs: Costs) -> Panel:
    lines = tuple(
        Line(
            f"{factor}",
            tuple((float(n), capacity(costs, Flow(factor), n).mb_per_s / 1000) for n in NODE_COUNTS if n >= factor),
        )
        for factor in (1, 2, 3)
    )
    return Panel(
        "Produced, at most, batches of 1 MB", "nodes, each on a machine with 10 Gbit/s", "GB/s; replicas:", lines
    )


def _latency(costs: Costs) -> Panel:
    lines = []
    for factor in (1, 2, 3):
        found = [latency_of(costs, share, factor=factor) for share in _LOADS]
        lines.append(Line(f"{factor}", tuple((one.used * 100, one.p99_ms) for one in found)))
    title = "acks=all, 3 nodes, batches of 16 KiB"
    return Panel(title, "percent of the event loops' time", "p99, ms; replicas:", tuple(lines), False)


def _fail_over(costs: Costs) -> Panel:
    found: list[tuple[int, Course]] = []
    for partitions in _PARTITIONS:
        found.append((partitions, course(costs, Crash(_NODES, partitions, 500 * _NODES))))
    lines = (
        Line("decided", tuple((float(count), one.decided - one.noticed) for count, one in found)),
        Line("led anew", tuple((float(count), one.led - one.noticed) for count, one in found)),
        Line("last client", tuple((float(count), one.last_client - one.noticed) for count, one in found)),
    )
    title = "A node of 12 has crashed: after it was noticed"
    return Panel(title, "partitions of the cluster, 3 replicas", "seconds until:", lines)


def _rebalance(lived: dict[tuple[str, int], Steps]) -> Panel:
    lines = tuple(
        Line(protocol, tuple((float(members), lived[protocol, members][1].stood_still) for members in MEMBERS))
        for protocol in ("classic", "consumer")
    )
    return Panel("A member leaves its group", "members, two partitions each", "s a partition stands still:", lines)
