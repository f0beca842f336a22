"""Single requests to one broker over a plain socket, for what the client library has no call for.

Which broker to ask is the business of `brokers.py`.
"""

import socket
import struct
from types import TracebackType
from typing import Any

from ottla.cli.failure import Failed, Unreachable
from ottla.client.addresses import Address, address_name
from ottla.client.failures import BrokerRefused, Unsupported, check
from ottla.client.versions import (
    INTRODUCTION,
    INTRODUCTION_VERSIONS,
    Span,
    Versions,
    decode_response,
    encode_request,
    is_unknown_version,
    response_header,
)
from ottla.wire.malformed import Malformed
from ottla.wire.primitives import Message

ANSWER_BYTES_MAX = 64 * 1024 * 1024
_CLIENT_ID = "ottla-cli"


class Exchange:
    """A connection to one broker, and the versions it speaks."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.name = address_name(address)
        try:
            self._sock = socket.create_connection(address, timeout_s)
        except OSError as failure:
            raise Unreachable(self.name, failure.strerror or str(failure)) from None
        self._correlation_id = 0
        self.versions = self._introduced()

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, request: Message, at_least: int = 0) -> Any:
        """Send it in the newest version that both know, and return the response.

        `at_least` is the first version that has all the fields that matter; a broker that is older is a failure.
        """
        key = request.API_KEY
        try:
            version = self.versions.newest(key, Span(at_least))
        except Unsupported as lack:
            raise Failed(str(lack)) from None
        answer, at = self._send(request, version)
        return self._decoded(key, answer, at, version)

    def _introduced(self) -> Versions:
        key = INTRODUCTION.API_KEY
        for version in INTRODUCTION_VERSIONS:
            answer, at = self._send(INTRODUCTION, version)
            try:
                if not is_unknown_version(answer, at):
                    return Versions.of(self.name, self._decoded(key, answer, at, version))
            except BrokerRefused as refused:
                raise Failed(str(refused)) from None
        raise Failed(f"{self.name} knows no version of ApiVersions: UNSUPPORTED_VERSION")

    def _send(self, request: Message, version: int) -> tuple[memoryview, int]:
        """The answer's frame, and where the response begins in it."""
        self._correlation_id += 1
        try:
            self._sock.sendall(encode_request(request, version, self._correlation_id, _CLIENT_ID))
            (size,) = struct.unpack(">i", self._receive(4))
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise self._nonsense(f"an answer of {size} bytes")
            answer = memoryview(self._receive(size))
        except OSError as failure:
            raise Failed(f"{self.name} did not answer: {failure.strerror or failure}") from None
        try:
            _, at = response_header(request.API_KEY, version, answer)
        except Malformed as broken:
            raise self._nonsense(str(broken)) from None
        return answer, at

    def _decoded(self, key: int, answer: memoryview, at: int, version: int) -> Any:
        try:
            return decode_response(key, version, answer, at)
        except Malformed as broken:
            raise self._nonsense(str(broken)) from None

    def _nonsense(self, what: str) -> Failed:
        return Failed(f"{self.name} does not speak Kafka's protocol: {what}")

    def _receive(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._sock.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionResetError(0, "it closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def checked(code: int, message: str | None = None, about: str = "") -> None:
    """Raise what a response says went wrong."""
    try:
        check(code, message, about)
    except BrokerRefused as refused:
        raise Failed(str(refused)) from None
