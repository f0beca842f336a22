"""`python -m bench.race`: Ottla and Apache Kafka side by side on this machine, in one run.

Takes turns (A B A B …), prints a table, and writes bench/race.json after a whole race, from which
`python -m bench.report` makes the page and the picture. Needs Java and Maven, and fetches Apache Kafka by itself.
"""

import argparse
import resource
import signal
import sys
from pathlib import Path

from bench.race.contestants import prepare_peer
from bench.race.plan import WORKLOADS
from bench.race.result import RESULT, load
from bench.race.run import Options, chosen, race
from bench.race.table import show
from tests.compat.java import Missing

QUICK_SCALE, QUICK_RUNS = 0.1, 2


def parse(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="bench.race", description=__doc__)
    parser.add_argument("--runs", type=int, help="turns of each contestant (5; with --quick 2)")
    parser.add_argument("--only", default="", help="part of a workload's name")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, for a first look")
    parser.add_argument("--full", action="store_true", help="every combination of how records are produced")
    parser.add_argument("--alone", action="store_true", help="Ottla alone")
    parser.add_argument(
        "--dir", type=Path, help="where the data directories are made; the system's temporary directory"
    )
    parser.add_argument("--write", type=Path, help="where the result goes; a whole race goes to bench/race.json")
    parser.add_argument("--list", action="store_true", help="say what would be run, and end")
    given = parser.parse_args(arguments)
    options = Options(
        runs=given.runs or (QUICK_RUNS if given.quick else 5),
        scale=QUICK_SCALE if given.quick else 1.0,
        only=given.only,
        is_full=given.full,
        contestants=("ottla",) if given.alone else ("ottla", "kafka"),
        directory=given.dir,
    )
    return options, given


def place_for(options: Options, asked: Path | None) -> Path | None:
    """A part of the race does not replace the result of a whole one."""
    is_whole = options.scale == 1.0 and not options.only and len(options.contestants) == 2 and options.runs >= 5
    return asked or (RESULT if is_whole else None)


def allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _on_terminated(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    options, given = parse()
    if given.list:
        for workload in chosen(WORKLOADS, options):
            print(f"{workload.name}: {workload.about}{f' (not run: {workload.absent})' if workload.absent else ''}")
        return 0
    allow_many_files()
    signal.signal(signal.SIGTERM, _on_terminated)
    if "kafka" in options.contestants:
        try:
            prepare_peer()
        except Missing as missing:
            print(f"The race needs Apache Kafka, and cannot fetch it: {missing}.", file=sys.stderr)
            print("Install Java 17 or newer and Maven, or race alone with --alone.", file=sys.stderr)
            return 2
    result = race(WORKLOADS, options, lambda text: print(text, flush=True))
    show(result, load())
    if (place := place_for(options, given.write)) and not (result.failures and place == RESULT):
        place.write_text(result.to_json(), encoding="utf-8")
        print(f"written to {place}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
