"""Spark plans every query in fresh processes, so what they import is paid for each time."""

import subprocess
import sys

PLANNED = ("ottla.spark.source.stream", "ottla.spark.source.tail", "ottla.spark.sink.batch", "ottla.spark.sink.stream")
HEAVY = {"numba", "pandas", "ottla.spark.arrow.decode", "ottla.spark.arrow.encode"}


def test_who_plans_a_query_does_not_import_what_only_tasks_need() -> None:
    code = f"import sys, {', '.join(PLANNED)}; sys.exit(' '.join(sorted({HEAVY} & sys.modules.keys())) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
