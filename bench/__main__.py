"""`python -m bench`: measure the node, print a table, compare with the last committed result.

Every workload is run several times, interleaved, and the median counts: machines are noisy, and no single run means
anything. `--write` replaces the committed result, or what `--only` has measured of it.
"""

import argparse
import json
import platform
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench import group_load, transactions, workloads
from bench.workloads import Figures

RESULT = Path(__file__).with_name("result.json")
GOALS = {
    "produce cpu s/GB": 0.5,
    "consume cpu s/GB": 0.5,
    "pipelined cpu us/request": 25.0,
    "start to first ack s": 0.7,
    "idle memory MB": 80.0,
    "restart after kill s": 2.0,
    "10000 groups: load s": 3.0,
    "10000 groups: memory MB": 150.0,
    "200 members: assigned after s": 5.0,
    "200 members: rebalances": 1.0,
    "empty transaction: commit p50 ms": 3.0,
    "one record: commit p50 ms": 3.0,
}
LEAST = {"transactions of 1 s beside none": 0.9, "transactions of 100 ms beside none": 0.7}
"""Goals that are to be reached, not to be stayed below."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, for a first look")
    parser.add_argument("--only", help="part of a workload's name")
    parser.add_argument("--write", action="store_true", help="replace the committed result")
    options = parser.parse_args()
    part = 0.1 if options.quick else 1.0
    plan: dict[str, tuple[int, Callable[[], Figures]]] = {
        "throughput": (options.runs, lambda: workloads.throughput(2.0 * part)),
        "requests": (options.runs, lambda: workloads.one_record_requests(int(100_000 * part))),
        "start": (options.runs, workloads.start_and_idle),
        "fsync": (1, lambda: workloads.fsync_per_ack((1, 50))),
        "restart": (min(options.runs, 3), lambda: workloads.restart_after_kill(5.0 * part)),
        "many groups": (1, lambda: group_load.many_groups(10_000)),
        "transactions": (min(options.runs, 3), lambda: transactions.beside_none(max(int(10 * part), 2))),
        "commits": (options.runs, lambda: transactions.commits(int(1000 * part))),
        "big group": (min(options.runs, 3), lambda: group_load.big_group(200)),
    }
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for run in range(options.runs):
        for name, (times, work) in plan.items():
            if run < times and (not options.only or options.only in name):
                for figure, value in work().items():
                    measured[figure].append(value)
                print(f"run {run + 1}: {name}", flush=True)
    show(measured)
    if options.write:
        figures = json.loads(RESULT.read_text())["figures"] if RESULT.exists() else {}
        figures |= {name: {"median": median(values), "runs": values} for name, values in measured.items()}
        RESULT.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1) + "\n")


def show(measured: dict[str, list[float]]) -> None:
    before = json.loads(RESULT.read_text())["figures"] if RESULT.exists() else {}
    print(f"\n{'figure':38} {'median':>10} {'least':>10} {'most':>10} {'goal':>8} {'before':>10}")
    for name, values in measured.items():
        goal, missed = goal_of(name, median(values))
        old = before.get(name, {}).get("median")
        print(
            f"{name:38} {median(values):10.2f} {min(values):10.2f} {max(values):10.2f} "
            f"{goal:>8} {'' if old is None else f'{old:.2f}':>10}{' missed' if missed else ''}"
        )


def goal_of(name: str, value: float) -> tuple[str, bool]:
    """What was to be reached, and whether it was missed."""
    if name in LEAST:
        return f"≥ {LEAST[name]:g}", value < LEAST[name]
    return (f"≤ {GOALS[name]:g}", value > GOALS[name]) if name in GOALS else ("", False)


def machine() -> dict[str, object]:
    import os

    return {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}


if __name__ == "__main__":
    main()
