"""The plan held against what was measured on one node: a model that is wrong there is not believed elsewhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.plan import measuring_node
from bench.plan.costs import Costs
from bench.plan.rebalance import Group
from bench.plan.throughput import Flow, capacity
from bench.plan.world import Server, World


@dataclass(frozen=True)
class Check:
    what: str
    unit: str
    predicted: float
    measured: float
    remark: str

    @property
    def off(self) -> float:
        """How many times the prediction is what was measured."""
        return self.predicted / self.measured


_RACED = 10_000


def grown(costs: Costs, first: str, slope: str, partitions: int = measuring_node.MANY) -> float:
    """From one partition on, by the slope (a thousandth of the unit) that was found up to the few."""
    return costs[first] + costs[slope] / 1e3 * (partitions - 1)


def shared_fsyncs_per_s(costs: Costs, producers: int, seconds: float = 2.0) -> float:
    """Producers that send the next record when the last one is on the disk; those who ask meanwhile share an fsync."""
    world = World()
    loop = Server(world)
    fsync = 1 / costs["fsynced_per_s"] - costs["single_us"] / 1e6
    asking: list[int] = []
    state = {"flushing": False, "done": 0}

    def arrive() -> None:
        loop.do(costs["single_us"] / 1e6, appended)

    def appended() -> None:
        asking.append(1)
        flush()

    def flush() -> None:
        if asking and not state["flushing"]:
            state["flushing"] = True
            sharing = len(asking)
            asking.clear()
            world.at(fsync, lambda: flushed(sharing))

    def flushed(sharing: int) -> None:
        state["flushing"] = False
        state["done"] += sharing
        for _ in range(sharing):
            world.at(0, arrive)
        flush()

    for _ in range(producers):
        arrive()
    world.run(seconds)
    return state["done"] / seconds


def checks(costs: Costs) -> list[Check]:
    return [*_partitions(costs), *_requests(costs), *_groups(costs)]


def _partitions(costs: Costs) -> Iterator[Check]:
    many = f"{measuring_node.MANY:,} partitions"
    told = f"extrapolated from {measuring_node.FEW:,}"
    yield Check(
        f"restart, {many}",
        "s",
        grown(costs, "restart_s", "restart_partition_ms"),
        costs["many_restart_s"],
        f"processor time; {told}",
    )
    yield Check(
        f"stop, {many}", "s", grown(costs, "stop_s", "stop_partition_ms"), costs["many_stop_s"], f"{told}; the disk"
    )
    yield Check(f"memory, {many}", "MB", grown(costs, "one_mb", "partition_kb"), costs["many_mb"], told)
    files = min(costs["partition_files"] * measuring_node.MANY, costs["files_max"])
    yield Check(f"open files, {many}", "", files, costs["many_files"], "no more than half of what the process may open")
    raced = (
        ("raced_restart_s", "restart", "s", "restart_s", "restart_partition_ms", f"{told}; processor and wall"),
        ("raced_stop_s", "stop", "s", "stop_s", "stop_partition_ms", f"{told}; each with the disk of its day"),
        ("raced_mb", "memory", "MB", "one_mb", "partition_kb", told),
    )
    for name, what, unit, first, slope, remark in raced:
        if name in costs:
            predicted = grown(costs, first, slope, _RACED)
            yield Check(f"{what}, {_RACED:,} partitions, in the race", unit, predicted, costs[name], remark)


def _requests(costs: Costs) -> Iterator[Check]:
    alone = capacity(costs, Flow(factor=1, readers=0), 1, float("inf")).mb_per_s
    yield Check(
        "produce, one client", "MB/s", alone, costs["produced_mb_per_s"], "the client is at its limit, not the node"
    )
    rate = 1e6 / costs["pipelined_us"]
    yield Check(
        "one-record requests, 16 under way", "1/s", rate, costs["pipelined_per_s"], "waits for the client a little"
    )
    shared = shared_fsyncs_per_s(costs, 50)
    is_raced = "race.json" in costs.source("fsynced_50_per_s")
    remark = "" if is_raced else "50 threads of one Python client; `make race` has a leaner one"
    yield Check("fsync per ack, 50 producers", "1/s", shared, costs["fsynced_50_per_s"], remark)


def _groups(costs: Costs) -> Iterator[Check]:
    # 10,000 groups with ten offsets each, as `bench/group_load.py` has them.
    loaded = 100_000 * costs["group_load_us"] / 1e6
    yield Check(
        "load 10,000 groups", "s", loaded, costs["groups_loaded_s"], "the measured one asks for all offsets too"
    )
    step = Group(costs, "classic", 200, delay_ms=1_000).all_come()
    yield Check(
        "200 classic members come", "s", step.seconds, costs["joined_200_s"], "initial delay of 1 s, as measured"
    )
    yield Check(
        "200 classic members come: processor",
        "s",
        step.coordinator_seconds,
        costs["joined_200_cpu_s"],
        "connections too",
    )
    for name, protocol in (("joined_classic_s", "classic"), ("joined_consumer_s", "consumer")):
        if name in costs:
            come: Callable[[], float] = lambda protocol=protocol: Group(costs, protocol, 50).all_come().seconds  # type: ignore[misc]  # noqa: E731
            yield Check(
                f"50 {protocol} members come, in the race", "s", come(), costs[name], "librdkafka's own waits besides"
            )
