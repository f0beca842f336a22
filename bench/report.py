"""`python -m bench.report`: put what was measured last into the documentation, as tables and as pictures.

The race's result (`bench/race.json`) and the bounds beside it (`bench/bounds.json`) into `docs/performance.md`; and the
plan past one machine, which reckons with both, into `docs/scaling.md`. What has not been measured is left as it is.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.bounds.__main__ import BOUNDS
from bench.bounds.__main__ import read as read_bounds
from bench.bounds.split import split_table
from bench.bounds.table import beside, parts_table
from bench.page import NoPlace, markers, put_between
from bench.plan.costs import COSTS
from bench.plan.costs import read as read_costs
from bench.plan.publish import PAGE as PLAN
from bench.plan.publish import publish
from bench.race.chart import draw
from bench.race.result import RESULT, Result, load
from bench.race.table import markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = markers("race")

__all__ = ["BEGIN", "END", "NoPlace", "put_between"]


def told(result: Result) -> str:
    """Machine and settings first: a figure without them means nothing."""
    facts = result.facts
    machine = ", ".join(f"{key} {value}" for key, value in facts["machine"].items())
    options = ", ".join(f"{key} {value}" for key, value in facts["options"].items() if value not in ("", False))
    clients = ", ".join(f"{key} {value}" for key, value in facts["clients"].items())
    head = [
        f"Measured on {facts['finished']}. Machine: {machine}. {options}.",
        f"Clients: {clients}, and the perf-test tools of the same Apache Kafka.",
        "",
        *(f"- {_contestant(name, about)}" for name, about in facts["contestants"].items()),
        "",
        "![how many times better or worse, by workload](race.svg)",
        "",
        "Medians (least–most of all runs); ratios are Ottla / Apache Kafka, in parentheses those of neighbouring runs.",
        "",
    ]
    return "\n".join(head) + markdown(result)


def _contestant(name: str, about: dict[str, Any]) -> str:
    settings = about["settings"]
    listed = settings if isinstance(settings, str) else ", ".join(f"`{line}`" for line in settings)
    more = "".join(f"; {key}: {about[key]}" for key in ("logging", "not counted") if key in about)
    return f"**{name}** {about['version']}, {about['runtime']}: `{about['command']}`; settings: {listed}{more}"


def with_bounds(page: str, bounds: dict[str, Any], race: Result | None) -> str:
    """Where the time of a request goes, and how near each workload comes to its bound."""
    machine = ", ".join(f"{key} {value}" for key, value in bounds["machine"].items())
    head = f"Bounds measured on {bounds['measured']}; machine: {machine}.\n\n"
    page = put_between(page, head + beside(bounds["bounds"], race), "bounds")
    page = put_between(page, split_table(bounds["split"]), "split")
    return put_between(page, parts_table(bounds["parts"]), "parts")


def _renew_plan(docs: Path, race: Result | None) -> None:
    """What the plan reckons with may have been measured anew."""
    costs = read_costs().with_published(race=race)
    if docs == DOCS:
        COSTS.write_text(costs.to_json(), encoding="utf-8")
    publish(costs, docs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.report", description=__doc__)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--bounds", type=Path, default=BOUNDS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    given = parser.parse_args()
    result, bounds = load(given.result), read_bounds(given.bounds)
    if result is None:
        print(f"There is no {given.result} yet; `make race` makes one.", file=sys.stderr)
    place = given.docs / "performance.md"
    if result is not None or bounds is not None:
        page = place.read_text(encoding="utf-8")
        page = page if result is None else put_between(page, told(result))
        place.write_text(page if bounds is None else with_bounds(page, bounds, result), encoding="utf-8")
    if result is not None:
        (given.docs / "race.svg").write_text(draw(result), encoding="utf-8")
    if (given.docs / PLAN).exists():
        _renew_plan(given.docs, result)
    return 0 if result is not None else 2


if __name__ == "__main__":
    sys.exit(main())
