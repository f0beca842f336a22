"""Every example runs as a user would run it, and its own assertions hold."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.broker.running import running_node

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 90


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_example_does_what_it_says(example: str, tmp_path: Path) -> None:
    with running_node(tmp_path, settings={"group.initial.rebalance.delay.ms": "0"}) as node:
        run = subprocess.run(
            [sys.executable, EXAMPLES / example, node.bootstrap],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()


def test_every_example_is_listed_with_what_it_shows() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"`{path.name}`" in listed
