"""`python -m bench.plan`: how a cluster of Ottlas would grow, reckoned from what was measured on one machine.

Prints the tables and writes them into `docs/scaling.md`, with the picture `docs/scaling.svg`. What is reckoned with is
kept in `bench/plan/costs.json`; figures that the benchmarks have published since are taken over, `--measure` measures
the rest anew (about two minutes), `--kept` takes everything as it is kept.
"""

import argparse
import platform
import time
from pathlib import Path

from bench.plan import measuring, measuring_node
from bench.plan.costs import COSTS, Costs, read, renewed
from bench.plan.publish import publish, said
from bench.race.__main__ import allow_many_files

DOCS = Path(__file__).resolve().parents[2] / "docs"


def measured(costs: Costs) -> Costs:
    allow_many_files()
    begun = Costs(dict(costs.items())).with_measured({"group_call_us": 0.0, "group_record_us": 0.0}, "")
    found = measuring.everything(begun) | measuring_node.everything()
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return costs.with_measured(found, f"{time.strftime('%Y-%m-%d', time.gmtime())}, {where}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.plan", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure anew what no benchmark publishes")
    parser.add_argument("--kept", action="store_true", help="reckon with bench/plan/costs.json as it is")
    parser.add_argument("--docs", type=Path, default=DOCS)
    given = parser.parse_args()
    costs = read() if given.kept else renewed()
    if given.measure:
        costs = measured(costs)
    if not given.kept:
        COSTS.write_text(costs.to_json(), encoding="utf-8")
    for name, text in said(costs)[0].items():
        print(f"\n{name}\n{text}")
    publish(costs, given.docs)


if __name__ == "__main__":
    main()
