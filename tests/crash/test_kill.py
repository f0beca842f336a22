"""SIGKILL at any moment, under load, again and again: what was acknowledged is there, once, in order, and nothing else.

`OTTLA_CRASH_ROUNDS` makes the hunt longer, `OTTLA_CRASH_SEED` repeats one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client
from .ledger import Ledger
from .load import Load, Manner, Reader, Writer, check_partition
from .node import NodeProcess

ROUNDS = int(os.environ.get("OTTLA_CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("OTTLA_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
SEGMENT_BYTES = str(1 << 20)

TOPICS = {
    "quick": {"segment.bytes": SEGMENT_BYTES},
    "safe": {"segment.bytes": SEGMENT_BYTES},
    "synced": {"segment.bytes": SEGMENT_BYTES, "flush.messages": "1"},
    "latest": {"segment.bytes": SEGMENT_BYTES, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "recent": {"segment.bytes": SEGMENT_BYTES, "retention.bytes": "2500000", "file.delete.delay.ms": "100"},
}
PARTITIONS = 2
NODE_SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "150",
    "log.initial.task.delay.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
MANNERS = {
    "quick": Manner(acks=1, is_idempotent=False, window=4, value_bytes_max=6_000),
    "safe": Manner(window=5, value_bytes_max=6_000),
    "synced": Manner(window=2),
    "latest": Manner(window=3, keys=60, value_bytes_max=6_000),
    "recent": Manner(acks=1, window=2, value_bytes_max=12_000),
}


class Scene:
    """A node, its topics, what writes to them and reads from them, and what may be expected of them."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.rng = rng
        self.node = NodeProcess(root, NODE_SETTINGS, [root / "first", root / "second"])
        self.ledgers: dict[tuple[str, int], Ledger] = {}
        self.jobs: list[Writer | Reader] = []
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                self._add(topic, partition)
        self.load = Load(self.node, self.jobs)

    def _add(self, topic: str, partition: int) -> None:
        ledger = Ledger(f"{topic}-{partition}", is_compacted=topic == "latest")
        self.ledgers[topic, partition] = ledger
        number = len(self.jobs)
        self.jobs.append(Writer(number, topic, partition, ledger, MANNERS[topic], self.rng.randrange(1 << 32)))
        if partition == 0:
            self.jobs.append(Reader(topic, partition, ledger))

    def begin(self) -> None:
        self.node.start()
        with Client(self.node.port) as client:
            for topic, configs in TOPICS.items():
                client.create_topic(topic, PARTITIONS, configs)

    def check(self) -> None:
        with Client(self.node.port) as client:
            for (topic, partition), ledger in self.ledgers.items():
                check_partition(client, topic, partition, ledger)

    def kill_under_load(self) -> None:
        self.load.begin()
        self.load.wait_for_progress(self.rng.randrange(1, 40))
        time.sleep(self.rng.random() * 0.4)
        self.node.kill()
        self.load.end()

    def kill_at_start(self) -> None:
        """While it recovers, or elects itself, or opens its logs."""
        self.node.launch()
        time.sleep(self.rng.random() * 0.8)
        self.node.kill()


@pytest.fixture
def scene(scratch: Path) -> Iterator[Scene]:
    print(f"OTTLA_CRASH_SEED={SEED}")
    scene = Scene(scratch, random.Random(SEED))
    try:
        yield scene
    finally:
        scene.load.close()
        scene.node.discard()


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_what_was_acknowledged_survives_every_kill(scene: Scene) -> None:
    scene.begin()
    for _ in range(ROUNDS):
        scene.kill_under_load()
        while scene.rng.random() < 0.3:
            scene.kill_at_start()
        scene.node.start()
        scene.check()
    with scene.load.running():
        scene.load.wait_for_progress(len(scene.jobs))
    scene.check()
    assert scene.node.stop() == 0
    scene.node.start()
    scene.check()
    writers = [job for job in scene.jobs if isinstance(job, Writer)]
    assert all(writer.batches_acked for writer in writers)
    assert not any(writer.too_old for writer in writers), "a batch that was sent again is not known any more"
    print(f"{scene.load.acked()} batches, {sum(writer.resends for writer in writers)} sent again")
