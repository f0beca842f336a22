"""The bounds themselves, on this machine: what a bare process reaches that does what a broker cannot leave out.

Together about half a minute. The peers are on loopback, as the race's clients are.
"""

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from bench.bounds import bare
from bench.node import free_port
from bench.race import raw_load
from bench.race.apart import Apart, Load
from bench.race.watch import cpu_seconds
from bench.rawclient import produce_frame

GIGABYTES = 0.25
_ROUNDS = 5
_ANSWER_BYTES = 67
"""Of an answer to a Produce of one partition, near enough."""
_SECONDS = 0.5
_FILE_BYTES = 128 << 20
_FILES = 1_000
_PATIENCE_SECONDS = 10.0
Figures = dict[str, float]


def _connected(port: int) -> socket.socket:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            line = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line


def _rates(name: str, load: Load) -> Figures:
    gigabytes = load.records / 1e9
    return {f"{name}_mb_per_s": gigabytes * 1000 / load.seconds, f"{name}_s_per_gb": load.cpu_seconds / gigabytes}


def receiving(directory: Path, gigabytes: float = GIGABYTES) -> Figures:
    port = free_port()
    with Apart(bare.receive, port, str(directory)) as running:
        data = os.urandom(bare.BUFFER_BYTES)
        with _connected(port) as line:
            for _ in range(int(gigabytes * 1e9 / len(data))):
                line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            load: Load = running.result()
    return _rates("receive", load)


def sending(directory: Path, gigabytes: float = GIGABYTES) -> Figures:
    """From the page cache; and the same file read and checked, as a restart does."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        size = min(_FILE_BYTES, int(gigabytes * 1e9))
        for _ in range(size // bare.BUFFER_BYTES + 1):
            file.write(os.urandom(bare.BUFFER_BYTES))
        file.flush()
        size = file.tell()
        found = _checked(file.fileno(), size)
        port = free_port()
        times = max(int(gigabytes * 1e9 / size), 1)
        with Apart(bare.send_file, port, file.name, times) as running:
            buffer = memoryview(bytearray(bare.BUFFER_BYTES))
            with _connected(port) as line:
                while line.recv_into(buffer):
                    pass
            load: Load = running.result()
    return found | _rates("sendfile", load)


def _checked(descriptor: int, size: int) -> Figures:
    buffer = bytearray(bare.BUFFER_BYTES)
    begun = time.monotonic()
    for place in range(0, size, len(buffer)):
        os.preadv(descriptor, [buffer], place)
        crc32c(buffer)
    return {"check_s_per_gb": (time.monotonic() - begun) / size * 1e9}


@contextmanager
def _echoing(directory: Path, request_bytes: int) -> Iterator[tuple[int, int]]:
    port = free_port()
    with Apart(bare.echo, port, str(directory), request_bytes, _ANSWER_BYTES) as running:
        _connected(port).close()
        yield port, running.pid


def asking(directory: Path, seconds: float = _SECONDS) -> Figures:
    """Requests of one record, answered by somebody who keeps them and does not read them."""
    frame = produce_frame("single", b"x" * 100, int(time.time() * 1000))
    found: Figures = {}
    with _echoing(directory, len(frame)) as (port, pid):
        for connections, window in ((1, 1), (1, 16), (50, 1)):
            before = cpu_seconds(pid)
            rate, answered = _driven(port, frame, connections, window, seconds)
            found[f"echo_{connections}_{window}_per_s"] = rate
            found[f"echo_{connections}_{window}_us"] = (cpu_seconds(pid) - before) / answered * 1e6
        found |= _round_trips(port, frame, seconds)
    return found


def _driven(port: int, frame: bytes, connections: int, window: int, seconds: float) -> tuple[float, int]:
    lines = [raw_load._Line(port, frame, window) for _ in range(connections)]
    with selectors.DefaultSelector() as selector:
        for line in lines:
            line.answer_bytes = _ANSWER_BYTES
            selector.register(line.sock, selectors.EVENT_READ, line)
        begun = time.monotonic()
        answered = raw_load._keep_going(selector, lines, window, seconds)
        took = time.monotonic() - begun
    for line in lines:
        line.sock.close()
    return answered / took, answered


def _round_trips(port: int, frame: bytes, seconds: float) -> Figures:
    """A thousand a second, from the moment each was due: two hops, as from a producer to a consumer."""
    took: list[float] = []
    with _connected(port) as line:
        begun = time.monotonic()
        for number in range(int(seconds * 1_000)):
            due = begun + number / 1_000
            time.sleep(max(due - time.monotonic(), 0))
            line.send(frame)
            line.recv(_ANSWER_BYTES, socket.MSG_WAITALL)
            took.append((time.monotonic() - due) * 1e3)
    took.sort()
    return {"round_trip_p50_ms": took[len(took) // 2], "round_trip_p99_ms": took[len(took) * 99 // 100]}


def forcing(directory: Path, seconds: float = _SECONDS) -> Figures:
    """A small record appended and forced to the disk, one after the other."""
    record = bytes(200)
    with tempfile.TemporaryFile(dir=directory) as file:
        begun, count = time.monotonic(), 0
        while time.monotonic() - begun < seconds:
            os.pwrite(file.fileno(), record, count * len(record))
            os.fsync(file.fileno())
            count += 1
        return {"fsyncs_per_s": count / (time.monotonic() - begun)}


def opening(directory: Path, files: int = _FILES) -> Figures:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        paths = [f"{folder}/{number}" for number in range(files)]
        for path in paths:
            Path(path).touch()
        begun = time.monotonic()
        for path in paths:
            descriptor = os.open(path, os.O_RDWR)
            os.fstat(descriptor)
            os.close(descriptor)
        return {"open_us": (time.monotonic() - begun) / files * 1e6}


def starting() -> Figures:
    """Python with the event loop that Ottla uses, and nothing of Ottla."""
    told = "import asyncio, uvloop; print(*[l.split()[1] for l in open('/proc/self/status') if l.startswith('VmRSS')])"
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {"bare_start_s": time.monotonic() - begun, "bare_memory_mb": int(done.stdout) / 1024}


def once(directory: Path) -> Figures:
    return (
        starting()
        | receiving(directory)
        | sending(directory)
        | asking(directory)
        | forcing(directory)
        | opening(directory)
    )


def best(rounds: Sequence[Figures]) -> Figures:
    """A bound is what the machine can do at its best: the highest rate, the lowest cost."""
    return {name: (max if name.endswith("_per_s") else min)(found[name] for found in rounds) for name in rounds[0]}


def everything(directory: Path) -> Figures:
    return best([once(directory) for _ in range(_ROUNDS)])
