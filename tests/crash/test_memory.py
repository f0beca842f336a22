"""What strangers can make the node hold in memory is bounded by what they send, not by what they announce."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import pack

import pytest

from .client import Client
from .node import NodeProcess

IDLE, CLAIMING = 1_000, 200
CLAIMED_BYTES = 100_000_000
MB = 1 << 20


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch)
    node.start()
    yield node
    node.discard()


def connect(node: NodeProcess, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=20))


def still_serves(node: NodeProcess) -> None:
    with Client(node.port) as client:
        assert client.topics() is not None


def test_idle_connections_cost_little(node: NodeProcess) -> None:
    before = node.rss_bytes
    with ExitStack() as stack:
        for _ in range(IDLE):
            connect(node, stack)
        still_serves(node)
        grown = node.rss_bytes - before
        print(f"{grown / IDLE / 1024:.1f} kB each")
        assert grown < 30 * MB


def test_an_announced_frame_costs_what_has_come_of_it(node: NodeProcess) -> None:
    """Each claims the largest frame, and sends a hundred kilobytes of it."""
    before = node.rss_bytes
    with ExitStack() as stack:
        part = bytes(100_000)
        for _ in range(CLAIMING):
            connection = connect(node, stack)
            connection.sendall(pack(">i", CLAIMED_BYTES) + part)
        still_serves(node)
        grown = node.rss_bytes - before
        received = CLAIMING * len(part)
        print(
            f"{grown / MB:.1f} MB for {received / MB:.1f} MB received, {CLAIMING * CLAIMED_BYTES / MB:.0f} MB claimed"
        )
        assert grown < 2 * received + 30 * MB
    still_serves(node)


def test_a_client_that_does_not_read_its_answers_is_not_read_from(node: NodeProcess) -> None:
    before = node.rss_bytes
    with ExitStack() as stack:
        ask = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
        for _ in range(20):
            connection = connect(node, stack)
            connection.setblocking(False)
            _send_until_full(connection, ask * 1_000)
        still_serves(node)
        grown = node.rss_bytes - before
        print(f"{grown / MB:.1f} MB")
        assert grown < 150 * MB


def _send_until_full(connection: socket.socket, data: bytes) -> None:
    for _ in range(500):
        try:
            connection.send(data)
        except BlockingIOError:
            return
