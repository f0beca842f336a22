"""Real clients live through kills: their own retries bring every record in once, and group offsets do not go back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from .client import EARLIEST, Client
from .damage import CHECKPOINTS
from .ledger import Ledger, Stamp, sealed_value, stored_in
from .load import Load, Manner, Writer, check_partition
from .node import NodeProcess
from .test_kill import ROUNDS, SEED

TOPIC, PARTITIONS = "real", 3
KILLS = max(4, ROUNDS // 3)
FLUSH_SECONDS_MAX = 60


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch, {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"})
    node.start()
    with Client(node.port) as client:
        client.create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(1 << 20)})
    yield node
    node.discard()


class RealWriter:
    """librdkafka with idempotence, as most people run it."""

    def __init__(self, bootstrap: str, ledgers: list[Ledger]) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 0,
            "batch.num.messages": 50,
            "reconnect.backoff.max.ms": 200,
            "message.timeout.ms": FLUSH_SECONDS_MAX * 1000,
        }
        self._producer = Producer(settings)
        self._ledgers = ledgers
        self._numbers = [0] * len(ledgers)
        self.failures: list[str] = []

    def write(self, count: int) -> None:
        for at in range(count):
            partition = at % len(self._ledgers)
            stamp = Stamp(partition, self._numbers[partition])
            self._numbers[partition] += 1
            self._ledgers[partition].numbers_sent[partition] = self._numbers[partition]
            self._producer.produce(
                TOPIC, sealed_value(stamp, 900), partition=partition, on_delivery=self._noting(stamp, partition)
            )
            self._producer.poll(0)

    def _noting(self, stamp: Stamp, partition: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None or offset is None:
                self.failures.append(f"{stamp}: {error}")
            elif offset >= 0:  # librdkafka does not always know where a duplicate lies
                self._ledgers[partition].note_acked(offset, [stamp])

        return note

    def flush(self) -> None:
        assert self._producer.flush(FLUSH_SECONDS_MAX) == 0
        assert not self.failures, self.failures[:5]


@pytest.mark.timeout(120 + 20 * KILLS)
def test_an_idempotent_producer_lives_through_kills_without_loss_or_duplicate(node: NodeProcess) -> None:
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    ledgers = [Ledger(f"{TOPIC}-{partition}") for partition in range(PARTITIONS)]
    writer = RealWriter(node.bootstrap, ledgers)
    for _ in range(KILLS):
        writer.write(rng.randrange(300, 1_500))
        time.sleep(rng.random() * 0.05)
        node.kill()
        writer.write(100)
        node.start()
    writer.write(300)
    writer.flush()
    with Client(node.port) as client:
        for partition, ledger in enumerate(ledgers):
            end = check_partition(client, TOPIC, partition, ledger)
            assert end == ledger.numbers_sent[partition], "every record once"


def test_committed_offsets_of_a_group_survive_kills(node: NodeProcess) -> None:
    """A commit that was answered is what the next member begins with."""
    writer = RealWriter(node.bootstrap, [Ledger(f"{TOPIC}-{partition}") for partition in range(PARTITIONS)])
    writer.write(60 * (KILLS + 2))
    writer.flush()
    committed: dict[int, int] = {}
    for _ in range(KILLS):
        consumer = _consumer(node)
        consumer.subscribe([TOPIC])
        for message in consumer.consume(60, timeout=20):
            assert message.error() is None
        answered = consumer.commit(asynchronous=False)
        assert answered
        committed.update((one.partition, one.offset) for one in answered if one.offset >= 0)
        node.kill()
        consumer.close()
        node.start()
        assert _committed(node) == committed
    assert sum(committed.values()) >= 60


def _consumer(node: NodeProcess) -> Consumer:
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "survivors",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 1_000,
        "heartbeat.interval.ms": 300,
        "log_level": 0,
    }
    return Consumer(settings)


def _committed(node: NodeProcess) -> dict[int, int]:
    consumer = _consumer(node)
    asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found = {one.partition: one.offset for one in consumer.committed(asked, timeout=20) if one.offset >= 0}
    consumer.close()
    return found


def test_segments_that_are_full_are_synced_and_not_read_again_after_a_kill(scratch: Path) -> None:
    """So the time that a recovery takes does not grow with the log."""
    node = NodeProcess(
        scratch / "rolled", {"log.flush.offset.checkpoint.interval.ms": "50", "log.initial.task.delay.ms": "1"}
    )
    node.start()
    try:
        with Client(node.port) as client:
            client.create_topic(TOPIC, 1, {"segment.bytes": str(1 << 20)})
        load = Load(node, [Writer(0, TOPIC, 0, Ledger(f"{TOPIC}-0"), Manner(window=3, value_bytes_max=20_000), SEED)])
        with load.running():
            load.wait_for_progress(80)
        first, *_, last = sorted((node.data_dir / f"{TOPIC}-0").glob("*.log"))
        _wait_for_recovery_point(node, int(last.stem))
        node.kill()
        before = first.with_suffix(".index").stat().st_mtime_ns
        node.start()
        assert first.with_suffix(".index").stat().st_mtime_ns == before
        with Client(node.port) as client:
            assert stored_in(client.batches(TOPIC, 0, client.list_offset(TOPIC, 0, EARLIEST)))
    finally:
        node.discard()


def _wait_for_recovery_point(node: NodeProcess, offset: int) -> None:
    path, deadline = node.data_dir / CHECKPOINTS[0], time.monotonic() + 20
    while True:
        lines = path.read_text().splitlines() if path.exists() else []
        if any(line.startswith(f"{TOPIC} 0 ") and int(line.split()[2]) >= offset for line in lines):
            return
        assert time.monotonic() < deadline, lines
        time.sleep(0.02)
