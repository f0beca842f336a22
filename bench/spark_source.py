"""`python -m bench.spark_source`: Ottla's data source beside Spark's own Kafka connector, from the same brokers.

Reads topics in batches, and copies one topic to another in a stream: exactly once by Ottla's sink, at least once by the
connector. Takes turns (A B A B …), each in a fresh process that has done the same work unmeasured before. Needs Java
and Maven, and fetches the connector and Apache Kafka by itself. Apart from the node's workloads, since it needs what
the extra `spark` installs.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.race.apart import apart
from bench.race.arena import Arena, create
from bench.race.contestants import Contestant, prepare_peer
from bench.race.spread import Spread, paired_ratios, ratio
from bench.race.table import number
from bench.spark_work import (
    COPYING,
    FORMATS,
    PARTITIONS,
    READINGS,
    THROWN_AWAY,
    Pass,
    Reading,
    copying,
    fill,
    medians,
    reading,
)
from tests.compat.java import Missing, connector_jars, connector_version

RATIO_GOAL = 1.5
LEAST = {THROWN_AWAY.name: 2e6, COPYING: 3e5}
"""Rows per second of Ottla's source from Ottla's node."""
_ROWS = {100: 1_000_000, 1000: 300_000}
_REPEATS = 3
"""Measured within a turn; their median is the turn's figure."""
_WAYS = (*READINGS, THROWN_AWAY)

Runs = dict[tuple[str, str, str], dict[str, list[float]]]
"""By broker, way and figure, then by format."""


@dataclass(frozen=True)
class Options:
    runs: int = 5
    scale: float = 1.0
    only: str = ""
    brokers: tuple[str, ...] = ("ottla", "kafka")
    formats: tuple[str, ...] = FORMATS
    repeats: int = _REPEATS

    def count(self, size: int) -> int:
        return max(1000, int(_ROWS[size] * self.scale))

    @property
    def ways(self) -> list[tuple[Reading, int]]:
        return [(way, self.count(way.size)) for way in _WAYS if self.only in way.name]


def parse(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="bench.spark_source", description=__doc__)
    parser.add_argument("--runs", type=int, help="turns of each contender (5; with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, for a first look")
    parser.add_argument("--only", default="", help="part of the name of what is done")
    parser.add_argument("--broker", choices=("ottla", "kafka"), help="one broker; otherwise both")
    parser.add_argument("--alone", action="store_true", help="Ottla's source alone, without the connector")
    parser.add_argument("--write", type=Path, help="where the result goes, as JSON")
    given = parser.parse_args(arguments)
    options = Options(
        runs=given.runs or (2 if given.quick else 5),
        scale=0.1 if given.quick else 1.0,
        only=given.only,
        brokers=(given.broker,) if given.broker else ("ottla", "kafka"),
        formats=("ottla",) if given.alone else FORMATS,
    )
    return options, given


def measure(options: Options, directory: Path) -> Runs:
    """Every turn of every contender."""
    runs: Runs = defaultdict(lambda: defaultdict(list))
    with ExitStack() as ends:
        brokers = [ends.enter_context(Arena(name, directory).running(is_warm=False)) for name in options.brokers]
        for broker in brokers:
            _prepare(broker, options)
        for run in range(options.runs):
            for broker in brokers:
                for kind in options.formats:
                    for name, passes in _turn(broker, kind, options, run):
                        for figure, value in medians(passes).items():
                            runs[broker.name, name, figure][kind].append(value)
                    print(f"run {run + 1}/{options.runs}: {kind} from {broker.name}", flush=True)
    return runs


def _prepare(broker: Contestant, options: Options) -> None:
    sizes = {way.size for way, _ in options.ways} | ({100} if options.only in COPYING else set())
    for size in sorted(sizes):
        create(broker, f"spark-{size}", PARTITIONS)
        apart(fill, broker.bootstrap, f"spark-{size}", options.count(size), size)


def _turn(broker: Contestant, kind: str, options: Options, run: int) -> Iterator[tuple[str, list[Pass]]]:
    if options.ways:
        yield from apart(reading, kind, broker.bootstrap, options.ways, options.repeats).items()
    if options.only in COPYING:
        target = f"copy-{kind}-{run}"
        create(broker, target, PARTITIONS)
        yield COPYING, apart(copying, kind, broker.bootstrap, target, options.count(100), options.repeats)


def told(runs: Mapping[tuple[str, str, str], Mapping[str, list[float]]]) -> list[dict[str, Any]]:
    """Medians with their spread, ratios with that of neighbouring turns, and what was aimed at."""
    lines = []
    for (broker, name, figure), rates in runs.items():
        ours, theirs = (Spread.of(rates[kind]) if rates.get(kind) else None for kind in FORMATS)
        pairs, share = paired_ratios(ours, theirs), ratio(ours, theirs)
        line: dict[str, Any] = {"broker": broker, "what": name, "figure": figure}
        for kind, spread in zip(FORMATS, (ours, theirs), strict=True):
            if spread is not None:
                line[kind] = {"median": _short(spread.median), "runs": [_short(one) for one in spread.runs]}
        if share is not None and pairs is not None:
            line |= {"ratio": _short(share), "ratios": [_short(one) for one in pairs.runs]}
        line["missed"] = list(_missed(broker, name, ours, share)) if figure == "rows/s" else []
        lines.append(line)
    return lines


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _missed(broker: str, name: str, ours: Spread | None, share: float | None) -> Iterator[str]:
    if share is not None and name != COPYING and share < RATIO_GOAL:
        yield f"ratio ≥ {RATIO_GOAL:g}"
    if ours is not None and broker == "ottla" and ours.median < LEAST.get(name, 0):
        yield f"≥ {number(LEAST[name])} rows/s"


def show(lines: list[dict[str, Any]]) -> None:
    print(f"\n{'medians (least–most)':54} {'ottla':>34} {'kafka':>34} {'ratio':>20}")
    for line in lines:
        spreads = [_spread([float(rate) for rate in line[kind]["runs"]]) if kind in line else "–" for kind in FORMATS]
        share = f"{line['ratio']:.2f} ({min(line['ratios']):.2f}–{max(line['ratios']):.2f})" if "ratio" in line else ""
        missed = f"  missed: {', '.join(line['missed'])}" if line["missed"] else ""
        what = f"from {line['broker']}: {line['what']}, {line['figure']}"
        print(f"{what:54} {spreads[0]:>34} {spreads[1]:>34} {share:>20}{missed}")


def _spread(rates: list[float]) -> str:
    found = Spread.of(rates)
    return f"{number(found.median)} ({number(found.least)}–{number(found.most)})"


def main() -> int:
    options, given = parse()
    try:
        prepare_peer()
        connector_jars()
    except Missing as missing:
        print(f"Not everything is here that this needs: {missing}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        lines = told(measure(options, Path(directory)))
    show(lines)
    if given.write:
        result = {"connector": connector_version(), "runs": options.runs, "scale": options.scale, "figures": lines}
        given.write.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
