"""Where the microseconds of a request go: samples of where the processor was, by kind of work.

The samples are those of `bench.one_request --profile`; a system call counts for the function that makes it.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from struct import Struct

from bench.one_request import connect, fetch_frame, sampled
from bench.rawclient import produce_frame
from ottla.net.connection import Connection
from ottla.testing import AsyncBroker

OTHERS = "everything else"
THE_OTHER_END = "the client in the same process"
PLACES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (THE_OTHER_END, ("bench/", "bounds/")),
    ("`send`", ("net/outbox.py Outbox.flush", "net/outbox.py Outbox._send")),
    ("`recv`", ("net/inbox.py Inbox.receive",)),
    ("`pwrite`, `pread`", ("storage/files.py", "net/outbox.py Outbox._read", "net/outbox.py _Pending")),
    ("frame, header and body into objects", ("net/inbox.py", "wire/frame.py decode", "wire/frame.py RequestHeader")),
    ("objects into bytes", ("wire/frame.py", "wire/primitives.py")),
    ("finding the partition, building the answer", ("api/", "runtime/replicas.py")),
    ("checks, producers, log, indexes, high watermark", (
        "wire/produced.py", "wire/batch_header.py", "core/", "producers/", "replication/", "storage/",
        "runtime/partition.py", "runtime/watermark.py",
    )),
    ("connection, router, queue of answers", ("net/", "broker/")),
)  # fmt: skip
"""Kinds of work, and the beginnings of functions' names that belong to them; the first that fits counts."""
WINDOWS = (1, 16)
KINDS = ("produce", "fetch")
_SIZE = Struct(">i")
Parts = dict[str, dict[str, float]]


def kind_of(function: str) -> str:
    if function.startswith("messages/"):
        is_reading = "._read" in function or " _read" in function or function.endswith(".decode")
        return "frame, header and body into objects" if is_reading else "objects into bytes"
    for kind, beginnings in PLACES:
        if function.startswith(beginnings):
            return kind
    return OTHERS


def shared_out(found: Counter[str], microseconds: float) -> dict[str, float]:
    """Microseconds by kind; the client's own are left out."""
    total = sum(found.values())
    kinds: Counter[str] = Counter()
    for function, times in found.items():
        kinds[kind_of(function)] += times
    return {kind: times / total * microseconds for kind, times in kinds.items() if kind != THE_OTHER_END}


def windows_of(connection: Connection, client: socket.socket, frame: bytes, window: int) -> Callable[[int], None]:
    """So many requests arrive together; all answers have the same size."""
    client.send(frame)
    connection._on_readable()
    (size,) = _SIZE.unpack(client.recv(4, socket.MSG_WAITALL))
    client.recv(size, socket.MSG_WAITALL)
    asked, answered = frame * window, (size + 4) * window

    def turn(count: int) -> None:
        for _ in range(count // window):
            client.send(asked)
            connection._on_readable()
            client.recv(answered, socket.MSG_WAITALL)

    return turn


async def _parts(count: int) -> Parts:
    found: Parts = {}
    async with AsyncBroker({"single": 1}) as broker:
        connection, client = connect(broker._running())
        produce = produce_frame("single", b"x" * 100, int(time.time() * 1000))
        windows_of(connection, client, produce, 1)(100)
        # The fetches come first: they are to find one record, the last.
        for kind in reversed(KINDS):
            frame = produce if kind == "produce" else fetch_frame("single", 99)
            for window in WINDOWS:
                turn = windows_of(connection, client, frame, window)
                turn(window * 20)
                found[f"{kind} {window}"] = shared_out(*sampled(turn, count))
        connection.close()
        client.close()
    return found


def parts(count: int = 64_000) -> Parts:
    return asyncio.run(_parts(count))
