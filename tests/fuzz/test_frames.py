"""Frames that are none, halves of frames, connections that die, clients that do not read."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.compat.raw import Raw
from tests.compat.wire import KEYS, encode_header, encode_request

from .siege import ANSWERED, CLOSED, Siege

RANDOM_FRAMES = 600
SILENT_CONNECTIONS = 400
HALF_FRAMES = 100
CLAIMED_BYTES = 100 << 20
UNREAD_REQUESTS = 3000
METADATA = encode_request("metadata", 1, {"topics": None})


@contextmanager
def line_to(siege: Siege) -> Iterator[socket.socket]:
    line = siege.connect()
    try:
        yield line
    finally:
        line.close()


def die(line: socket.socket) -> None:
    """Close with a RST instead of a FIN."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def is_closed(line: socket.socket) -> bool:
    try:
        while line.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1, 104_857_601, 1, 7, 8])
def test_claimed_size_alone_closes_or_waits_but_never_allocates(siege: Siege, size: int) -> None:
    with line_to(siege) as line:
        line.sendall(struct.pack(">i", size))
        line.shutdown(socket.SHUT_WR)
        assert is_closed(line)
    siege.check()


def test_bytes_of_other_protocols_close_the_connection(siege: Siege) -> None:
    for greeting in (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
        b"SSH-2.0-x\r\n",
        b"\x00\x00\x00\x00" * 100,
        b"\xff" * 5000,
        b"*1\r\n$4\r\nPING\r\n",
    ):
        with line_to(siege) as line:
            line.sendall(greeting)
            assert is_closed(line)
    siege.check()


def test_random_frames_are_answered_or_closed(siege: Siege) -> None:
    chance = random.Random("frames")
    for _ in range(RANDOM_FRAMES):
        payload = chance.randbytes(chance.choice((1, 2, 7, 8, 9, 20, 200, 5000)))
        if len(payload) >= 8:
            assert siege.throw(payload) in (ANSWERED, CLOSED)
        else:
            with line_to(siege) as line:
                line.sendall(struct.pack(">i", len(payload)) + payload)
                assert is_closed(line)
    siege.check()


def test_every_api_key_and_version_without_a_body_is_answered_or_closed(siege: Siege) -> None:
    keys = (*range(-3, 100), 9999, 32767, -32768)
    for key in keys:
        for version in (-32768, -1, 0, 1, 2, 5, 9, 12, 20, 99, 32767):
            for flexible in (False, True):
                assert siege.throw(encode_header(key, version, 5, "fuzz", flexible)) in (ANSWERED, CLOSED), (
                    key,
                    version,
                )
    siege.check()


@pytest.mark.parametrize("length", [-32768, -2, 1, 100, 32767])
def test_client_id_of_a_wrong_length_closes_the_connection(siege: Siege, length: int) -> None:
    header = struct.pack(">hhih", KEYS["api_versions"], 0, 1, length)
    assert siege.throw(header) in (ANSWERED, CLOSED)
    assert siege.throw(header + b"\xff\xfe\xfd") in (ANSWERED, CLOSED)
    siege.check()


def test_half_frames_of_claimed_megabytes_cost_next_to_nothing(siege: Siege) -> None:
    with ExitStack() as held:
        for _ in range(HALF_FRAMES):
            line = held.enter_context(line_to(siege))
            line.sendall(struct.pack(">i", CLAIMED_BYTES) + METADATA)
        siege.check()
    siege.check()


def test_silent_connections_leave_the_others_alone(siege: Siege) -> None:
    with ExitStack() as held:
        for _ in range(SILENT_CONNECTIONS):
            held.enter_context(line_to(siege))
        siege.check()
    siege.check()


def test_connections_that_die_at_any_moment_leave_no_trace(siege: Siege) -> None:
    chance = random.Random("dying")
    whole = struct.pack(">i", len(METADATA)) + METADATA
    for _ in range(200):
        line = siege.connect()
        line.sendall((whole * 3)[: chance.randrange(len(whole) * 3)])
        if chance.random() < 0.3:
            line.settimeout(0.01)
            with suppress(TimeoutError):
                line.recv(chance.randrange(1, 64))
        die(line)
    siege.check()


def test_waiting_fetches_whose_clients_die_are_forgotten(siege: Siege) -> None:
    with Raw(siege.broker.host, siege.broker.port) as raw:
        end = raw.list_offset(siege.target, -1)["offset"]
        ask = raw.fetch_request(siege.target, end, max_wait=600_000)
    request = encode_request("fetch", 12, ask)
    for _ in range(100):
        line = siege.connect()
        line.sendall(struct.pack(">i", len(request)) + request)
        die(line)
    siege.honest.append(siege.target, b"wakes whoever still waits")
    siege.check()


def test_client_that_never_reads_is_held_back(siege: Siege) -> None:
    """Answers nobody fetches must not pile up: the node stops reading requests instead."""
    with Raw(siege.broker.host, siege.broker.port) as raw:
        raw.append(siege.target, b"x" * 900_000)
        ask = raw.fetch_request(
            siege.target, raw.list_offset(siege.target, -1)["offset"] - 1, partition_max_bytes=1 << 20
        )
    for request in (METADATA, encode_request("fetch", 12, ask)):
        frame = struct.pack(">i", len(request)) + request
        with line_to(siege) as line:
            line.settimeout(0.5)
            with suppress(TimeoutError):
                line.sendall(frame * UNREAD_REQUESTS)
            siege.check()
            die(line)
    siege.check()


def test_whole_frame_in_single_bytes_is_answered(siege: Siege) -> None:
    with line_to(siege) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack(">i", len(METADATA)) + METADATA:
            line.sendall(bytes((byte,)))
        assert line.recv(1)
    siege.check()
