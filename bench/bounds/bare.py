"""What a broker must do at least, without being one: each function runs in a process of its own and does only that."""

import asyncio
import os
import socket
import tempfile
from pathlib import Path

import uvloop
from crc32c import crc32c

from bench.race.apart import Load, Stopwatch

BUFFER_BYTES = 1 << 20
_KEPT_BYTES = 256 << 20
"""The file is begun anew after so much, so that the disk need not keep up."""


def _accepted(port: int) -> socket.socket:
    with socket.create_server(("127.0.0.1", port)) as listening:
        line, _ = listening.accept()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def receive(port: int, directory: str) -> Load:
    """Until the peer closes: from the socket into a buffer, through the CRC, into the page cache."""
    buffer = memoryview(bytearray(BUFFER_BYTES))
    with _accepted(port) as line, tempfile.TemporaryFile(dir=directory) as file:
        watch, total, place = Stopwatch(), 0, 0
        while count := line.recv_into(buffer, BUFFER_BYTES, socket.MSG_WAITALL):
            crc32c(buffer[:count])
            os.pwrite(file.fileno(), buffer[:count], place)
            total += count
            place = (place + count) % _KEPT_BYTES
        return watch.load(total)


def send_file(port: int, path: str, times: int) -> Load:
    """The file from the page cache to the socket, again and again."""
    with _accepted(port) as line, Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        watch = Stopwatch()
        for _ in range(times):
            place = 0
            while place < size:
                place += os.sendfile(line.fileno(), file.fileno(), place, min(size - place, BUFFER_BYTES))
        load = watch.load(size * times)
        line.shutdown(socket.SHUT_WR)
        line.recv(1)
        return load


class _Echo:
    """Requests of one size in, each written to the page cache, answers of one size out; on the loop that Ottla uses."""

    def __init__(self, request_bytes: int, answer_bytes: int, descriptor: int) -> None:
        self._request_bytes = request_bytes
        self._descriptor = descriptor
        self._place = 0
        self._answer = bytes(answer_bytes)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._parts: dict[socket.socket, int] = {}

    def take(self, line: socket.socket) -> None:
        line.setblocking(False)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parts[line] = 0
        asyncio.get_running_loop().add_reader(line, self._read, line)

    def _read(self, line: socket.socket) -> None:
        count = line.recv_into(self._buffer)
        if not count:
            asyncio.get_running_loop().remove_reader(line)
            line.close()
            return
        whole, self._parts[line] = divmod(self._parts[line] + count, self._request_bytes)
        for _ in range(whole):
            os.pwrite(self._descriptor, self._buffer[: self._request_bytes], self._place)
            self._place += self._request_bytes
        if whole:
            line.send(self._answer * whole)


def echo(port: int, directory: str, request_bytes: int, answer_bytes: int) -> None:
    """Until it is killed."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        with (
            tempfile.TemporaryFile(dir=directory) as file,
            socket.create_server(("127.0.0.1", port), backlog=256) as listening,
        ):
            server = _Echo(request_bytes, answer_bytes, file.fileno())
            listening.setblocking(False)
            while True:
                line, _ = await loop.sock_accept(listening)
                server.take(line)

    uvloop.run(serve())
