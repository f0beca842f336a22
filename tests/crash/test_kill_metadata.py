"""SIGKILL while topics come, change and go: what was answered holds, and nothing stays half done."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .churn import Churn
from .client import Client
from .load import Load
from .node import NodeProcess
from .test_kill import ROUNDS, SEED


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch, {"log.segment.delete.delay.ms": "50"})
    yield node
    node.discard()


def partitions_on_disk(node: NodeProcess) -> set[str]:
    names = {path.name for path in node.data_dir.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert not [name for name in names if name.endswith("-stray")], "a partition that nobody created"
    return {name for name in names if not name.endswith("-delete")}


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_answered_changes_of_topics_survive_every_kill(node: NodeProcess) -> None:
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    churn = Churn(rng.randrange(1 << 32))
    load = Load(node, [churn])
    node.start()
    for _ in range(ROUNDS):
        load.begin()
        time.sleep(rng.random() * 0.5)
        node.kill()
        load.end()
        if rng.random() < 0.2:
            node.launch()
            time.sleep(rng.random() * 0.8)
            node.kill()
        node.start()
        with Client(node.port) as client:
            churn.check(client, partitions_on_disk(node))
    assert churn.answers > ROUNDS
    print("answers", churn.answers)
