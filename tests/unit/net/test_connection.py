"""Frames, order of answers, bounds: the connection against a plain socket, on both event loops."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.base.broker_settings import Listener as Address
from ottla.net.connection import Hangup, Peer, Serve
from ottla.net.listener import Listener, ListenerLimits
from ottla.runtime.loop import run
from ottla.wire.primitives import Buffer

LIMITS = ListenerLimits(
    frame_bytes_max=8 * 1024 * 1024, connections_max=100, connections_per_host_max=100, idle_ms_max=-1, sendfile=True
)


class OpenedFile(NamedTuple):
    fd: int


class Piece(NamedTuple):
    file: OpenedFile
    position: int
    size: int


class Pieces(tuple[Piece, ...]):
    @property
    def size(self) -> int:
        return sum(piece.size for piece in self)


def buffer(content: bytes) -> Buffer:
    out = Buffer()
    out += content
    return out


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@asynccontextmanager
async def listening(serve: Serve, limits: ListenerLimits = LIMITS) -> AsyncIterator[Listener]:
    listener = Listener(Address("PLAINTEXT", "127.0.0.1", 0), limits)
    listener.open()
    listener.start(serve)
    try:
        yield listener
    finally:
        listener.stop_accepting()
        listener.close_connections()


async def echo(request: memoryview, peer: Peer) -> Buffer | None:
    return buffer(frame(bytes(request)))


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def run_loop(request: pytest.FixtureRequest) -> Callable[..., object]:
    return lambda main: run(main, use_uvloop=request.param)


def test_frames_cut_anywhere_are_answered_in_order(run_loop: Callable[..., object]) -> None:
    async def main() -> None:
        async with listening(echo) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            bodies = [os.urandom(size) for size in (1, 3, 70_000, 2, 400_000, 5, 3_000_000, 1)]
            stream = b"".join(map(frame, bodies))
            at = 0
            for size in (1, 2, 1, 5, 100, 65_000, 10_000, 400_000, 1, 1, 1, len(stream)):
                writer.write(stream[at : at + size])
                at += size
                await asyncio.sleep(0)
            for body in bodies:
                assert await reader.readexactly(4 + len(body)) == frame(body)
            writer.close()

    run_loop(main())


def test_one_byte_at_a_time_is_as_good_as_all_at_once(run_loop: Callable[..., object]) -> None:
    async def main() -> None:
        async with listening(echo) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in frame(b"slow") + frame(b"er"):
                writer.write(bytes([byte]))
                await asyncio.sleep(0.001)
            assert await reader.readexactly(14) == frame(b"slow") + frame(b"er")
            writer.close()

    run_loop(main())


def test_a_request_that_waits_holds_back_the_answers_behind_it_but_not_their_start(
    run_loop: Callable[..., object],
) -> None:
    async def main() -> None:
        gate = asyncio.get_running_loop().create_future()
        started: list[bytes] = []
        all_started = asyncio.Event()

        async def serve(request: memoryview, peer: Peer) -> Buffer | None:
            body = bytes(request)
            started.append(body)
            if len(started) == 3:
                all_started.set()
            if body == b"waits":
                await gate
            if body == b"silent":
                return None
            return buffer(frame(body))

        async with listening(serve) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(frame(b"waits") + frame(b"silent") + frame(b"next"))
            await all_started.wait()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.02)
            gate.set_result(None)
            assert await reader.readexactly(17) == frame(b"waits") + frame(b"next")
            writer.close()

    run_loop(main())


@pytest.mark.parametrize("sendfile", [True, False])
def test_slices_of_files_arrive_in_their_places(
    tmp_path: Path, sendfile: bool, run_loop: Callable[..., object]
) -> None:
    content = os.urandom(5_000_000)
    (tmp_path / "log").write_bytes(content)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    opened = OpenedFile(descriptor)

    async def serve(request: memoryview, peer: Peer) -> Buffer | None:
        answer = buffer(b"head|middle|tail")
        answer.holes = [
            (5, Pieces([Piece(opened, 10, 4_000_000)])),
            (12, Pieces([Piece(opened, 0, 7), Piece(opened, 7, 3)])),
        ]
        return answer

    async def main() -> None:
        limits = ListenerLimits(
            frame_bytes_max=1000,
            connections_max=9,
            connections_per_host_max=9,
            idle_ms_max=-1,
            sendfile=sendfile,
        )
        async with listening(serve, limits) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(frame(b"x") * 2)
            expected = b"head|" + content[10:4_000_010] + b"middle|" + content[:10] + b"tail"
            for _ in range(2):
                assert await reader.readexactly(len(expected)) == expected
            writer.close()

    run_loop(main())
    os.close(descriptor)


@pytest.mark.parametrize(
    "nonsense",
    [
        (0).to_bytes(4, "big"),
        (-1).to_bytes(4, "big", signed=True),
        (2**31 - 1).to_bytes(4, "big"),
        (8 * 1024 * 1024 + 1).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_frame_of_absurd_size_closes_the_connection(nonsense: bytes) -> None:
    async def main() -> None:
        async with listening(echo) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(nonsense)
            assert await reader.read() == b""
            writer.close()
            assert listener.connection_count == 0

    run(main())


def test_a_hangup_closes_only_its_own_connection() -> None:
    async def serve(request: memoryview, peer: Peer) -> Buffer | None:
        if bytes(request) == b"bad now":
            raise Hangup("bad")
        if bytes(request) == b"bad later":
            await asyncio.sleep(0)
            raise Hangup("bad")
        return buffer(frame(bytes(request)))

    async def main() -> None:
        async with listening(serve) as listener:
            good_reader, good_writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for body in (b"bad now", b"bad later"):
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                writer.write(frame(body))
                assert await reader.read() == b""
                writer.close()
            good_writer.write(frame(b"fine"))
            assert await good_reader.readexactly(8) == frame(b"fine")
            good_writer.close()

    run(main())


def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    async def main() -> None:
        limits = ListenerLimits(frame_bytes_max=100, connections_max=2, connections_per_host_max=5, idle_ms_max=-1)
        async with listening(echo, limits) as listener:
            kept = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
            for reader, writer in kept:
                writer.write(frame(b"x"))
                assert await reader.readexactly(5) == frame(b"x")
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await reader.read() == b""
            writer.close()
            for _, writer in kept:
                writer.close()

    run(main())


def test_a_silent_connection_is_closed_and_a_waiting_one_is_not() -> None:
    async def main() -> None:
        gate = asyncio.get_running_loop().create_future()

        async def serve(request: memoryview, peer: Peer) -> Buffer | None:
            await gate
            return buffer(frame(b"ok"))

        limits = ListenerLimits(frame_bytes_max=100, connections_max=9, connections_per_host_max=9, idle_ms_max=200)
        async with listening(serve, limits) as listener:
            waiting_reader, waiting_writer = await asyncio.open_connection("127.0.0.1", listener.port)
            waiting_writer.write(frame(b"long poll"))
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await reader.read() == b""
            gate.set_result(None)
            assert await waiting_reader.readexactly(6) == frame(b"ok")
            writer.close()
            waiting_writer.close()

    run(main())


def test_a_peer_that_takes_no_answers_is_not_listened_to_without_end() -> None:
    async def main() -> None:
        served = 0

        async def serve(request: memoryview, peer: Peer) -> Buffer | None:
            nonlocal served
            served += 1
            return buffer(bytes(1_000_000))

        async with listening(serve) as listener:
            sock = socket.create_connection(("127.0.0.1", listener.port))
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            for _ in range(200):
                await loop.sock_sendall(sock, frame(b"more"))
                await asyncio.sleep(0)
            before = -1
            while before != served:
                before = served
                await asyncio.sleep(0.05)
            assert 60 <= served < 150
            sock.close()

    run(main())
