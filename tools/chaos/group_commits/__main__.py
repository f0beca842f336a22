"""`python -m tools.chaos.group_commits`: kill drivers, tasks and the node under group commits, and judge the output.

Exit code 1: something was lost, doubled, torn, or not refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

from tools.chaos.group_commits.judge import CASES_MAX
from tools.chaos.group_commits.run import Outcome, Plan, run
from tools.chaos.group_commits.setting import CRIMES, SOUND


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos.group_commits", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the fates (drawn if not given)")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="before all is healed")
    parser.add_argument("--rate", type=float, default=Plan.rows_per_second, help="rows a second")
    parser.add_argument("--every", type=float, default=Plan.node_dies_every_seconds, help="seconds between node deaths")
    parser.add_argument("--crime", default=SOUND, choices=(SOUND, *CRIMES), help="what the sink is to do wrong")
    parser.add_argument("--directory", type=Path, help="for the diary, the checkpoints and the node's data")
    options = parser.parse_args(arguments)
    directory = options.directory or Path(tempfile.mkdtemp(prefix="ottla-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    seed = SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}, diary in {directory / 'diary.jsonl'}", flush=True)
    outcome = run(Plan(seed, options.seconds, options.rate, options.every, options.crime), directory)
    print("\n".join(lines(outcome)))
    return 0 if outcome.is_good else 1


def lines(outcome: Outcome) -> Iterator[str]:
    verdict = outcome.verdict
    yield f"lives       {sum(outcome.endings.values())}: " + _counted(outcome.endings)
    yield "fates met   " + _counted(outcome.fates)
    yield f"fates unmet {', '.join(sorted(outcome.unmet)) or 'none'}"
    deaths, pauses = outcome.node_deaths_and_pauses
    yield f"node        died {deaths} times, stood still {pauses} times"
    yield "events      " + _counted(outcome.events)
    yield f"output      {verdict.source_rows} rows in {verdict.batches} batches"
    yield f"commits     {verdict.replays} replays, {verdict.refusals} refusals"
    for name, cases in sorted(verdict.anomalies.items()):
        yield f"ILLEGAL     {name}: {len(cases)}"
        yield from (f"            {case}" for case in cases[:CASES_MAX])
    yield from (f"TROUBLE     {trouble}" for trouble in outcome.troubles)
    yield "good" if outcome.is_good else "NOT GOOD"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
