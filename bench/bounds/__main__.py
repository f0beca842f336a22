"""`python -m bench.bounds`: what this machine allows at most, and where a node's time goes; about a minute.

Writes `bench/bounds.json`, from which `python -m bench.report` makes three tables of `docs/performance.md`. Measure on
the machine that ran the race, and when nothing else runs on it: the table compares the two.
"""

import argparse
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import structlog

from bench.bounds import measuring
from bench.bounds.parts import parts
from bench.bounds.split import split_table, splits
from bench.bounds.table import beside, parts_table
from bench.race.result import load
from bench.race.run import _file_system, _processor

BOUNDS = Path(__file__).resolve().parents[1] / "bounds.json"


def read(path: Path = BOUNDS) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def measured(directory: Path) -> dict[str, Any]:
    # A node whose loop is kept from turning has much to say about it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return {
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {
            "load average before": round(os.getloadavg()[0], 1),
            "processor": _processor(),
            "file system": _file_system(directory),
        },
        "bounds": {name: _short(value) for name, value in measuring.everything(directory).items()},
        "split": {name: {part: _short(value) for part, value in found.items()} for name, found in splits().items()},
        "parts": {name: {kind: _short(value) for kind, value in found.items()} for name, found in parts().items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.bounds", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="whose file system is measured")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    found = measured(given.dir)
    for name, value in found["bounds"].items():
        print(f"{name:24} {value:>12g}")
    print(f"\n{parts_table(found['parts'])}\n\n{split_table(found['split'])}\n\n{beside(found['bounds'], load())}")
    if not given.dry:
        BOUNDS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
