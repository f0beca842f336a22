"""The bad network is bad in the way it says, and whole again when healed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tools.chaos.node import free_ports
from tools.chaos.proxy import Link, Network

SECONDS_MAX = 20.0


class Echo:
    """A server that sends back what it gets, in the pieces in which it gets it."""

    def __init__(self, port: int) -> None:
        self.pieces: list[bytes] = []
        self.ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(peer,), daemon=True).start()

    def _echo(self, peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    self.pieces.append(data)
                    peer.sendall(data)
            except OSError:
                pass
        self.ended.set()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo_and_network() -> Iterator[tuple[Echo, Network, Link]]:
    outer, inner = free_ports(2)
    echo, network = Echo(inner), Network()
    link = network.add_link(outer, inner)
    yield echo, network, link
    network.close()
    echo.close()


@contextmanager
def connected(link: Link) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", link.port), timeout=SECONDS_MAX) as client:
        yield client


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


Set = tuple[Echo, Network, Link]


def test_a_whole_link_passes_everything_on(echo_and_network: Set) -> None:
    _, _, link = echo_and_network
    message = bytes(range(256)) * 2000
    with connected(link) as client:
        threading.Thread(target=client.sendall, args=(message,), daemon=True).start()
        assert receive(client, len(message)) == message


def test_crumbs_are_the_same_bytes_one_by_one(echo_and_network: Set) -> None:
    echo, network, link = echo_and_network
    network.crumble(link)
    with connected(link) as client:
        client.sendall(b"x" * 50)
        assert receive(client, 50) == b"x" * 50
    assert len(echo.pieces) > 1


def test_what_is_held_arrives_later_even_from_a_client_that_is_gone(echo_and_network: Set) -> None:
    echo, network, link = echo_and_network
    with connected(link) as client:
        client.sendall(b"first")
        assert receive(client, 5) == b"first"
        network.hold(link)
        client.sendall(b"late")
    assert echo.pieces == [b"first"]
    network.heal(link)
    assert echo.ended.wait(SECONDS_MAX)
    assert b"".join(echo.pieces) == b"firstlate"


def test_what_is_stranded_arrives_behind_what_came_by_another_way(echo_and_network: Set) -> None:
    echo, network, link = echo_and_network
    with connected(link) as first:
        first.sendall(b"first")
        assert receive(first, 5) == b"first"
        network.strand(link)
        first.sendall(b"late")
    with connected(link) as second:
        second.sendall(b"second")
        assert receive(second, 6) == b"second"
    assert echo.pieces == [b"first", b"second"]
    network.heal(link)
    assert echo.ended.wait(SECONDS_MAX)
    wait_until(lambda: echo.pieces[2:] == [b"late"])


def test_a_cut_ends_both_sides(echo_and_network: Set) -> None:
    echo, network, link = echo_and_network
    with connected(link) as client:
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        network.cut(link)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert echo.ended.wait(SECONDS_MAX)


def test_half_closed_towards_the_node_is_its_end_of_input(echo_and_network: Set) -> None:
    echo, network, link = echo_and_network
    with connected(link) as client:
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        network.half_close(link, towards_node=True)
        assert client.recv(1) == b""
    assert echo.ended.wait(SECONDS_MAX)
