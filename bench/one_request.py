"""`python -m bench.one_request`: a single Produce or Fetch inside one process, again and again, without an event loop.

The node is a real one; its connection is one of loopback and is told by hand that something has arrived. So what is
measured is the way from the frame to the answer (and the other end's send and recv). `--profile` says which function it
goes to. On a noisy machine, count instructions instead of time; they repeat to a thousandth:

    valgrind --tool=cachegrind --cache-sim=no python -m bench.one_request produce 1200

once more with 200, and the difference by 7,000 is what one request takes.
"""

import argparse
import asyncio
import logging
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from struct import Struct
from types import FrameType, SimpleNamespace
from typing import Any

import structlog

from bench.rawclient import produce_frame, request_frame
from ottla.broker.server import Node
from ottla.net.connection import Connection, Peer
from ottla.testing import AsyncBroker
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.index import ApiKey

_FETCH_VERSION = 12
_SIZE = Struct(">i")
_ROUNDS = 7


def fetch_frame(topic: str, offset: int) -> bytes:
    """One partition, answered at once."""
    place = FetchPartition(0, -1, offset, -1, -1, 1 << 20)
    ask = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[place])])
    return request_frame(ApiKey.FETCH, _FETCH_VERSION, ask, True)


def connect(node: Node) -> tuple[Connection, socket.socket]:
    """A connection whose loop calls nobody: whoever holds the other end says when there is something to read."""
    line = node._listeners[0]._line
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    theirs.setblocking(False)
    loop: Any = SimpleNamespace(time=line.loop.time, add_reader=lambda *_: None, remove_reader=lambda *_: None)
    quiet: Any = type(line)(loop, line.serve, line.buffer, line.frame_bytes_max, line.sendfile, lambda _: None)
    return Connection(theirs, Peer("127.0.0.1", 1, "PLAINTEXT", "127.0.0.1"), quiet), ours


def turner(connection: Connection, client: socket.socket, frame: bytes) -> Callable[[int], None]:
    """All answers have the same size, so that one `recv` takes one answer, in however many pieces it was sent."""
    client.send(frame)
    connection._on_readable()
    (size,) = _SIZE.unpack(client.recv(4, socket.MSG_WAITALL))
    client.recv(size, socket.MSG_WAITALL)

    def turn(count: int) -> None:
        on_readable = connection._on_readable
        send, receive = client.send, client.recv
        for _ in range(count):
            send(frame)
            on_readable()
            receive(size + 4, socket.MSG_WAITALL)

    return turn


def sampled(turn: Callable[[int], None], count: int) -> tuple[Counter[str], float]:
    """In which function the processor was found, every millisecond of its time; microseconds per request.

    A tracing profiler would add to every call, and so make small functions look large. A system call counts for the
    function that makes it.
    """
    found: Counter[str] = Counter()

    def note(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            path = Path(frame.f_code.co_filename)
            found[f"{path.parent.name}/{path.name} {frame.f_code.co_qualname}"] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    begun = time.process_time()
    try:
        turn(count)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return found, (time.process_time() - begun) / count * 1e6


def show(found: Counter[str], microseconds: float) -> None:
    total = sum(found.values())
    for where, times in found.most_common(40):
        print(f"{times / total:6.1%} {times / total * microseconds:6.2f} us  {where}")


async def measure(what: str, count: int, is_profiled: bool) -> None:
    async with AsyncBroker({"single": 1}) as broker:
        node = broker._running()
        connection, client = connect(node)
        produce = produce_frame("single", b"x" * 100, int(time.time() * 1000))
        turner(connection, client, produce)(100)
        frame = produce if what == "produce" else fetch_frame("single", 99)
        turn = turner(connection, client, frame)
        turn(100)
        if is_profiled:
            show(*sampled(turn, count))
        else:
            times = []
            for _ in range(_ROUNDS):
                begun = time.process_time()
                turn(count)
                times.append((time.process_time() - begun) / count * 1e6)
            print(f"{what}: {median(times):.2f} us of processor time (least {min(times):.2f}, most {max(times):.2f})")
        connection.close()
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.one_request", description=__doc__)
    parser.add_argument("what", choices=("produce", "fetch"))
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--profile", action="store_true", help="which function it goes to, by samples")
    given = parser.parse_args()
    # A node whose loop is kept from turning has much to say about it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(measure(given.what, given.count, given.profile))


if __name__ == "__main__":
    main()
