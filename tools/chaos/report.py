"""A run in a few lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.chaos.run import Outcome

CASES_MAX = 5


def lines(outcome: Outcome) -> Iterator[str]:
    plan, figures = outcome.plan, outcome.verdict.figures
    manner = "safe" if plan.is_safe else "unsafe"
    clients = f"{plan.clients} clients with {manner} settings, {plan.transactors} with transactions"
    yield f"seed {plan.seed}, {plan.seconds:g} s, {clients}"
    yield "faults      " + (", ".join(f"{name} {count}" for name, count in outcome.faults.items()) or "none")
    for f, counts in sorted(figures.outcomes.items()):
        yield f"{f:<11} " + ", ".join(f"{name} {counts[name]}" for name in ("ok", "fail", "info"))
    yield f"records     sent {figures.sent}, acknowledged {figures.acked}, read {figures.read}"
    yield f"stalls      acknowledgements {figures.ack_stall_seconds:.1f} s, reads {figures.read_stall_seconds:.1f} s"
    yield f"lag         {figures.lag_seconds:.1f} s at worst"
    yield f"clients     died {outcome.crashes} times, gave up {outcome.replacements} times"
    yield f"            {figures.read_again} values given again to a subscriber"
    for name, cases in sorted(outcome.verdict.anomalies.items()):
        mark = "legal" if name in outcome.verdict.legal else "ILLEGAL"
        yield f"{mark:<11} {name}: {len(cases)}"
        if mark == "ILLEGAL":
            yield from (f"            {json.dumps(case)}" for case in cases[:CASES_MAX])
    yield from (f"TROUBLE     {trouble}" for trouble in outcome.troubles)
    yield "good" if outcome.is_good else "NOT GOOD"
