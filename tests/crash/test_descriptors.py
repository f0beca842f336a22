"""File descriptors are few: connections may use them up without the logs having to stop."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.batches import batch

from .client import Client
from .node import NodeProcess

DESCRIPTORS = 256
CROWD = 400
PARTITIONS = 60


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("no prlimit on this machine")
    node = NodeProcess(scratch)
    node.wrapper = (prlimit, f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    node.start()
    yield node
    node.discard()


def is_served(connection: socket.socket) -> bool:
    """Answers ApiVersions; a refused connection was closed."""
    try:
        connection.sendall(b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        return len(connection.recv(10)) == 10
    except OSError:
        return False


def test_a_crowd_of_connections_leaves_the_logs_their_descriptors(node: NodeProcess) -> None:
    with Client(node.port) as client:
        client.create_topic("before", PARTITIONS)
        with ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=20))
                for _ in range(CROWD)
            ]
            served = sum(map(is_served, crowd))
            assert 20 < served < DESCRIPTORS
            client.create_topic("meanwhile", PARTITIONS)
            for topic in ("before", "meanwhile"):
                for partition in range(PARTITIONS):
                    client.produce(topic, partition, batch(b"value"))
        assert "offline" not in node.log_text
        with Client(node.port) as late:
            assert late.topics() is not None
    assert node.stop() == 0


def test_a_node_takes_as_many_descriptors_as_it_may_have(scratch: Path) -> None:
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("no prlimit on this machine")
    node = NodeProcess(scratch)
    node.wrapper = (prlimit, "--nofile=128:4096")
    try:
        node.start()
        limits = Path(f"/proc/{node.pid}/limits").read_text()
        [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4096", "4096"]
    finally:
        node.discard()
