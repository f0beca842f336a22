"""Frames: four bytes of size, a header, a message. Requests carry header v1 or v2, responses v0 or v1."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, error
from typing import NamedTuple

from ottla.wire.primitives import NEVER_FLEXIBLE, Buffer, Malformed, skip_tags

SIZE_BYTES = 4
_unpack_header = Struct(">hhih").unpack_from
_pack_request = Struct(">ihhih").pack
_pack_classic = Struct(">ii").pack
_pack_flexible = Struct(">iix").pack
_pack_size_into = Struct(">i").pack_into
_FIXED_BYTES = 10
_new = tuple.__new__


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def decode_request_header(buf: memoryview, at: int, flexible_from: Mapping[int, int]) -> tuple[RequestHeader, int]:
    """Read header v1, or v2 where `flexible_from` says so. The client id is a classic string in both (KIP-482)."""
    try:
        key, version, correlation_id, size = _unpack_header(buf, at)
        at += _FIXED_BYTES
        client_id = None
        if size >= 0:
            client_id = buf[at : at + size].tobytes().decode()
            at += size
        elif size != -1:
            raise Malformed(f"a client id of length {size}")
        if version >= flexible_from.get(key, NEVER_FLEXIBLE):
            at = skip_tags(buf, at + 1, buf[at])
    except (error, IndexError, UnicodeDecodeError) as broken:
        raise Malformed(f"request header: {broken}") from broken
    if at > len(buf):
        raise Malformed(f"request header ends {at - len(buf)} bytes behind the end of its frame")
    return _new(RequestHeader, (key, version, correlation_id, client_id)), at


def encode_request_header(out: Buffer, header: RequestHeader, flexible: bool) -> None:
    """Begin a request: four bytes for the size, which `finish_request` fills in."""
    raw = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(raw)
    out += _pack_request(0, header.api_key, header.api_version, header.correlation_id, size)
    out += raw
    if flexible:
        out.append(0)


def begin_response(correlation_id: int, flexible: bool) -> Buffer:
    """A buffer that holds the size's place and the response header. ApiVersions never has a flexible one (KIP-511)."""
    out = Buffer()
    out += _pack_flexible(0, correlation_id) if flexible else _pack_classic(0, correlation_id)
    return out


def finish_response(out: Buffer) -> None:
    """Write the size of the frame, holes included, into the place that was kept for it."""
    size = len(out) - SIZE_BYTES
    for _, slices in out.holes:
        size += slices.size
    _pack_size_into(out, 0, size)


finish_request = finish_response


def decode_response_header(buf: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    """The correlation id, and where the message begins."""
    try:
        correlation_id = int.from_bytes(buf[at : at + 4].tobytes(), "big", signed=True)
        at += 4
        if flexible:
            at = skip_tags(buf, at + 1, buf[at])
    except IndexError as broken:
        raise Malformed(f"response header: {broken}") from broken
    if at > len(buf):
        raise Malformed("response header is truncated")
    return correlation_id, at
