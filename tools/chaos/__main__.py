"""`python -m tools.chaos`: break a node for a while, and judge what its clients saw.

Exit code 1: a promise was broken.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tools.chaos.checker import Promises, check
from tools.chaos.history import read_lines
from tools.chaos.nemesis import FAULTS
from tools.chaos.report import lines
from tools.chaos.run import Outcome, Plan, run


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.judge:
        with options.judge.open() as file:
            verdict = check(read_lines(file), Promises(is_idempotent=not options.unsafe))
        outcome = Outcome(Plan(seed=-1, seconds=0, clients=0, transactors=0, is_safe=not options.unsafe), verdict)
    else:
        directory = options.directory or Path(tempfile.mkdtemp(prefix="ottla-chaos-"))
        directory.mkdir(parents=True, exist_ok=True)
        plan = _plan(options)
        print(f"seed {plan.seed}, history in {directory / 'history.jsonl'}", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without taking the node and the clients along
        outcome = run(plan, directory)
    print("\n".join(lines(outcome)))
    return 0 if outcome.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the workload and the faults (drawn if not given)")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="before all is healed")
    parser.add_argument("--clients", type=int, default=Plan.clients, help="without transactions")
    parser.add_argument("--transactors", type=int, default=Plan.transactors, help="clients with transactions")
    parser.add_argument("--rate", type=float, default=Plan.ops_per_second, help="operations a second, of all clients")
    parser.add_argument("--partitions", type=int, default=Plan.partitions, help="of each topic")
    parser.add_argument("--every", type=float, default=Plan.fault_every_seconds, help="seconds between faults")
    parser.add_argument("--faults", default=",".join(FAULTS), help="some of these, by commas; or 'none'")
    parser.add_argument("--unsafe", action="store_true", help="acks=1 without idempotence: duplicates are legal")
    parser.add_argument("--directory", type=Path, help="for the history and the node's data")
    parser.add_argument("--judge", type=Path, metavar="HISTORY", help="run nothing, judge a stored history")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    names = tuple(name for name in options.faults.split(",") if name and name != "none")
    if unknown := set(names) - FAULTS.keys():
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}")
    return Plan(
        seed=SystemRandom().randrange(1 << 32) if options.seed is None else options.seed,
        seconds=options.seconds,
        clients=options.clients,
        transactors=options.transactors,
        ops_per_second=options.rate,
        partitions=options.partitions,
        faults=names,
        fault_every_seconds=options.every,
        is_safe=not options.unsafe,
    )


if __name__ == "__main__":
    sys.exit(main())
