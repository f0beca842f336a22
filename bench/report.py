"""`python -m bench.report`: put the last race's result into the documentation, as tables and as a picture."""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.race.chart import draw
from bench.race.result import RESULT, Result, load
from bench.race.table import markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"


class NoPlace(ValueError):
    """The page has no place for the result."""


def put_between(page: str, text: str) -> str:
    """Replace what stands between the markers, and nothing else."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text.strip()}\n{END}{after}"


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.report", description=__doc__)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--docs", type=Path, default=DOCS)
    given = parser.parse_args()
    result = load(given.result)
    if result is None:
        print(f"There is no {given.result} yet; `make race` makes one.", file=sys.stderr)
        return 2
    page = given.docs / "performance.md"
    page.write_text(put_between(page.read_text(encoding="utf-8"), told(result)), encoding="utf-8")
    (given.docs / "race.svg").write_text(draw(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
