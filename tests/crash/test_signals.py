"""Told to stop, paused, started twice: the node ends cleanly, and only the owner of a directory writes to it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from .client import LATEST, Client
from .ledger import Ledger
from .load import Load, Manner, Reader, Writer, check_partition
from .node import DidNotStart, NodeProcess
from .test_kill import SEED

TOPIC, PARTITIONS = "busy", 3
MARKER = ".kafka_cleanshutdown"


class Busy:
    """A node with writers and a reader on it."""

    def __init__(self, root: Path) -> None:
        self.node = NodeProcess(root)
        self.ledgers = [Ledger(f"{TOPIC}-{partition}") for partition in range(PARTITIONS)]
        writers = [
            Writer(partition, TOPIC, partition, ledger, Manner(window=5, value_bytes_max=4_000), SEED + partition)
            for partition, ledger in enumerate(self.ledgers)
        ]
        self.load = Load(self.node, [*writers, Reader(TOPIC, 0, self.ledgers[0])])
        self.node.start()
        with Client(self.node.port) as client:
            client.create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(1 << 20)})

    def check(self) -> None:
        with Client(self.node.port) as client:
            for partition, ledger in enumerate(self.ledgers):
                check_partition(client, TOPIC, partition, ledger)


@pytest.fixture
def busy(scratch: Path) -> Iterator[Busy]:
    busy = Busy(scratch)
    yield busy
    busy.load.close()
    busy.node.discard()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_busy_node_stops_cleanly(busy: Busy, how: signal.Signals) -> None:
    busy.load.begin()
    busy.load.wait_for_progress(60)
    assert busy.node.stop(how) == 0
    busy.load.end()
    assert (busy.node.data_dir / MARKER).exists()
    logs = {path: path.stat().st_mtime_ns for path in busy.node.data_dir.glob(f"{TOPIC}-*/*.*index")}
    busy.node.start()
    assert not (busy.node.data_dir / MARKER).exists()
    assert {path: path.stat().st_mtime_ns for path in logs} == logs, "indexes were made anew: it was no clean stop"
    busy.check()
    with busy.load.running():
        busy.load.wait_for_progress(20)
    busy.check()
    writers = [job for job in busy.load.jobs if isinstance(job, Writer)]
    assert not any(writer.too_old for writer in writers), "a batch that was sent again is not known any more"
    assert "Traceback" not in busy.node.log_text and '"error"' not in busy.node.log_text


def test_a_node_told_to_stop_while_it_starts_loses_nothing(busy: Busy) -> None:
    """While it recovers, too: it may not take the logs that it has not looked at for sound."""
    rng = random.Random(SEED)
    with busy.load.running():
        busy.load.wait_for_progress(200)
    busy.node.kill()
    for _ in range(5):
        busy.node.launch()
        time.sleep(rng.random() * 0.8)
        busy.node.stop()
    busy.node.start()
    busy.check()


def test_a_paused_node_goes_on_where_it_was(busy: Busy) -> None:
    with busy.load.running():
        busy.load.wait_for_progress(20)
        busy.node.send_signal(signal.SIGSTOP)
        time.sleep(1.0)  # the pause itself
        busy.node.send_signal(signal.SIGCONT)
        busy.load.wait_for_progress(40)
    busy.check()
    assert busy.node.stop() == 0


def test_a_second_node_on_the_same_directory_is_refused_in_one_line(busy: Busy, tmp_path: Path) -> None:
    second = NodeProcess(tmp_path, data_dirs=busy.node.data_dirs)
    with pytest.raises(DidNotStart):
        second.start()
    assert second.exit_code == 1
    assert len(second.log_text.strip().splitlines()) == 1
    assert str(busy.node.data_dir) in second.log_text and "in use" in second.log_text
    with busy.load.running():
        busy.load.wait_for_progress(5)
    busy.check()


def test_a_second_node_on_the_same_port_is_refused_in_one_line_and_leaves_no_trace(busy: Busy, tmp_path: Path) -> None:
    second = NodeProcess(tmp_path)
    second.port = busy.node.port
    second.launch()
    assert second.wait_exit() == 1
    assert len(second.log_text.strip().splitlines()) == 1 and "in use" in second.log_text
    assert not second.data_dir.exists()


def test_a_stop_waits_for_nobody(busy: Busy) -> None:
    """Neither for a long poll, nor for a connection that says nothing, nor for half a request."""
    with Client(busy.node.port) as waiting, Client(busy.node.port), Client(busy.node.port) as half:
        end = waiting.list_offset(TOPIC, 0, LATEST)
        half.sock.sendall(b"\x00\x00\x10\x00\x00")
        begun = time.monotonic()
        busy.load.begin()
        busy.load.wait_for_progress(1)
        waiting_from = max(end, waiting.list_offset(TOPIC, 1, LATEST))
        waiting.sock.settimeout(60)
        _send_long_poll(waiting, waiting_from)
        assert busy.node.stop() == 0
        busy.load.end()
        assert time.monotonic() - begun < 25


def _send_long_poll(client: Client, offset: int) -> None:
    wanted = FetchPartition(2, fetch_offset=offset, partition_max_bytes=1 << 30)
    client.send(FetchRequest(max_wait_ms=60_000, min_bytes=1 << 30, topics=[FetchTopic(TOPIC, partitions=[wanted])]))
