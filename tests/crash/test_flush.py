"""flush.messages=1: an acknowledged record is on disk, nobody reads it earlier, and many producers share a sync."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire.batch import ProducerStamp, encode_batch, new_records

from .client import LATEST, Answered, Client
from .faults import traced
from .node import NodeProcess

TOPIC = "synced"
SYNCED = {"flush.messages": "1"}
PRODUCERS, BATCHES = 12, 8
LATE = "fsync:delay_enter=30000"
"""In microseconds."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    node = NodeProcess(tmp_path, data_dirs=[tmp_path / "first", tmp_path / "second"])
    node.start()
    with Client(node.port) as client:
        client.create_topic(TOPIC, 2, SYNCED)
    yield node
    node.discard()


def log_file(node: NodeProcess, partition: int) -> Path:
    found = [path / f"{TOPIC}-{partition}" / f"{0:020d}.log" for path in node.data_dirs]
    return next(path for path in found if path.exists())


def a_batch(value: bytes = b"value", producer: ProducerStamp | None = None) -> bytes:
    records = new_records([(None, value)], time.time_ns() // 1_000_000)
    return encode_batch(records, producer=producer or ProducerStamp())


def syncs_of(lines: list[str], path: Path) -> int:
    """A call that another thread's output cuts in two has its name on both lines, and its file on the first."""
    return sum(("fsync(" in line or "fdatasync(" in line) and f"<{path}>" in line for line in lines)


def partition_in(node: NodeProcess, directory: Path) -> int:
    return next(partition for partition in (0, 1) if log_file(node, partition).is_relative_to(directory))


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_sync_is_no_acknowledgement_and_takes_its_directory_offline(node: NodeProcess, acks: int) -> None:
    doomed = partition_in(node, node.data_dirs[1])
    path = log_file(node, doomed)
    with Client(node.port) as client:
        assert client.produce(TOPIC, doomed, a_batch(b"kept"), acks) == 0
        inject = ("-e", "trace=fsync,fdatasync", "-P", str(path), "-e", "inject=fsync,fdatasync:error=EIO")
        with traced(node.pid, node.data_dirs[0].parent / "trace", *inject), pytest.raises(Answered) as refused:
            client.produce(TOPIC, doomed, a_batch(b"lost"), acks)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(2):  # the disk works again, but what it says of what it held is not to be believed
            with pytest.raises(Answered) as refused:
                client.produce(TOPIC, doomed, a_batch(b"again"), acks)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(Answered) as refused:
            client.fetch(TOPIC, doomed, 0)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce(TOPIC, 1 - doomed, a_batch(), acks) == 0
    assert node.stop() == 0
    node.start()
    with Client(node.port) as client:
        assert client.list_offset(TOPIC, doomed, LATEST) in (1, 2)
        assert client.produce(TOPIC, 1 - doomed, a_batch(), acks) == 1


def test_nobody_reads_a_record_before_it_is_on_disk(node: NodeProcess) -> None:
    with (
        Client(node.port) as producer,
        Client(node.port) as consumer,
        traced(
            node.pid, node.data_dirs[0].parent / "trace", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=1500000"
        ),
    ):
        producer.send_produce(TOPIC, 0, a_batch(), 1)
        while not log_file(node, 0).stat().st_size:
            time.sleep(0.005)
        answer = consumer.fetch(TOPIC, 0, 0)
        assert answer.high_watermark == 0 and not answer.records
        assert producer.receive_produce() == 0
        assert consumer.fetch(TOPIC, 0, 0).high_watermark == 1


def test_many_producers_share_one_sync(node: NodeProcess) -> None:
    def produce(number: int) -> None:
        with Client(node.port) as client:
            for _ in range(BATCHES):
                client.produce(TOPIC, 0, a_batch(b"%d" % number), 1)

    trace_file = node.data_dirs[0].parent / "trace"
    with traced(node.pid, trace_file, "-e", "trace=fsync,fdatasync", "-e", f"inject={LATE}") as trace:
        with ThreadPoolExecutor(PRODUCERS) as pool:
            list(pool.map(produce, range(PRODUCERS)))
        trace.end()
        syncs = syncs_of(trace.lines, log_file(node, 0))
    print(f"{PRODUCERS * BATCHES} acknowledgements, {syncs} syncs")
    assert BATCHES <= syncs <= PRODUCERS * BATCHES // 3


def test_what_a_kill_left_unsynced_is_synced_before_it_is_acknowledged_or_read(node: NodeProcess) -> None:
    """The page cache survives the process, but not the power: a duplicate must not be acknowledged from there."""
    trace_file = node.data_dirs[0].parent / "trace"
    with Client(node.port) as client:
        producer = ProducerStamp(client.new_producer_id(), 0, 0)
        with traced(node.pid, trace_file, "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=3000000"):
            client.send_produce(TOPIC, 0, a_batch(b"unsynced", producer), -1)
            while not log_file(node, 0).stat().st_size:
                time.sleep(0.005)
            node.kill()
    node.wrapper = ("strace", "-D", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(trace_file))
    node.start()
    with Client(node.port) as client:
        if client.fetch(TOPIC, 0, 0).high_watermark:
            assert syncs_of(trace_file.read_text().splitlines(), log_file(node, 0)), "visible, and not on disk"
        assert client.produce(TOPIC, 0, a_batch(b"unsynced", producer)) == 0
        assert syncs_of(trace_file.read_text().splitlines(), log_file(node, 0)), "acknowledged, and not on disk"
