"""What leaves, in which order and in how many pieces; a socket of our own at the other end."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.net.outbox import _HELD_BYTES_MAX, _READ_BYTES_MAX, Outbox
from ottla.wire.primitives import Buffer

CONTENT = bytes(range(256)) * 400
SMALL, LARGE = _READ_BYTES_MAX, _READ_BYTES_MAX + 1


@dataclass
class Opened:
    fd: int


@dataclass
class Piece:
    file: Opened
    position: int
    size: int


class Pieces(list[Piece]):
    @property
    def size(self) -> int:
        return sum(piece.size for piece in self)


class Counting:
    """A socket that counts how often it is asked to send from memory."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.calls = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, data: bytes, flags: int = 0) -> int:
        self.calls += 1
        return self._sock.send(data, flags)

    def sendmsg(self, pieces: list[bytes]) -> int:
        self.calls += 1
        return self._sock.sendmsg(pieces)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDONLY)
    yield Opened(descriptor)
    os.close(descriptor)


def answer(before: bytes, pieces: list[Piece], after: bytes) -> Buffer:
    buffer = Buffer()
    buffer += before
    buffer.holes.append((len(buffer), Pieces(pieces)))
    buffer += after
    return buffer


def sent(*answers: Buffer, sendfile: bool = True) -> tuple[bytes, int]:
    """What arrives, and how many sends from memory it took."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        counting = Counting(ours)
        outbox = Outbox(counting, sendfile)  # type: ignore[arg-type]
        for one in answers:
            outbox.put(one)
        arrived, is_empty = bytearray(), False
        while not is_empty:
            is_empty = outbox.flush()
            arrived += _all_there_is(theirs)
        assert outbox.unsent_bytes == 0
        return bytes(arrived), counting.calls


def _all_there_is(sock: socket.socket) -> bytes:
    found = bytearray()
    while True:
        try:
            found += sock.recv(1 << 20)
        except BlockingIOError:
            return bytes(found)


def test_a_small_slice_leaves_together_with_what_is_around_it(opened: Opened) -> None:
    assert sent(answer(b"head", [Piece(opened, 3, 100)], b"tail")) == (b"head" + CONTENT[3:103] + b"tail", 1)


def test_answers_with_small_slices_share_a_send(opened: Opened) -> None:
    one = answer(b"head", [Piece(opened, 0, 10), Piece(opened, 20, 10)], b"tail")
    assert sent(one, one) == (2 * (b"head" + CONTENT[:10] + CONTENT[20:30] + b"tail"), 1)


def test_a_large_slice_is_not_read(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.net.outbox.os.pread", lambda *_: pytest.fail("it was read"))
    arrived, calls = sent(answer(b"head", [Piece(opened, 0, LARGE)], b"tail"))
    assert (arrived, calls) == (b"head" + CONTENT[:LARGE] + b"tail", 2)


def test_slices_for_a_peer_that_takes_nothing_stay_in_their_file(opened: Opened) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(ours, sendfile=True)
        for _ in range(1000):
            outbox.put(answer(b"", [Piece(opened, 0, SMALL)], b""))
        assert outbox.unsent_bytes <= _HELD_BYTES_MAX + SMALL


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.sampled_from([0, 1, 7, SMALL - 1, SMALL, LARGE, 60_000])), max_size=6),
    st.booleans(),
)
def test_everything_arrives_in_its_place(opened: Opened, places: list[tuple[int, int]], sendfile: bool) -> None:
    pieces = [Piece(opened, position, size) for position, size in places]
    expected = b"head" + b"".join(CONTENT[position : position + size] for position, size in places) + b"tail"
    assert sent(answer(b"head", pieces, b"tail"), sendfile=sendfile)[0] == expected


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_slice_that_the_file_does_not_have_costs_the_connection(opened: Opened, size: int) -> None:
    with pytest.raises(BrokenPipeError):
        sent(answer(b"head", [Piece(opened, len(CONTENT), size)], b"tail"))


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_file_that_cannot_be_read_is_found_out_when_sending(size: int, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(CONTENT)
    unreadable = os.open(tmp_path / "log", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            sent(answer(b"head", [Piece(Opened(unreadable), 0, size)], b"tail"))
    finally:
        os.close(unreadable)
