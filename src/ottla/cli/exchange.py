"""Single requests to one broker over a plain socket, for what the client library has no call for.

Which broker to ask is the business of `brokers.py`.
"""

import socket
import struct
from types import TracebackType
from typing import Any

from ottla import __version__
from ottla.base.errors import ErrorCode
from ottla.base.own_client import OWN_CLIENT
from ottla.cli.failure import Failed
from ottla.wire.frame import RequestHeader, decode_response_header, encode_request_header, finish_request
from ottla.wire.malformed import Malformed
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.index import APIS, FLEXIBLE_FROM, RESPONSES
from ottla.wire.primitives import Buffer, Message

ANSWER_BYTES_MAX = 64 * 1024 * 1024
Address = tuple[str, int]


class Exchange:
    """A connection to one broker, and the versions it speaks."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.name = address_name(address)
        try:
            self._sock = socket.create_connection(address, timeout_s)
        except OSError as failure:
            raise Failed(f"cannot reach {self.name}: {failure.strerror or failure}") from None
        self._correlation_id = 0
        served = self._served()
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in served.api_keys}

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
        ours, theirs = APIS[key], self._versions.get(key)
        first = max(ours.min_version, theirs[0], at_least) if theirs else 0
        last = min(ours.max_version, theirs[1]) if theirs else -1
        if last < first:
            wanted = f" in version {at_least}" if theirs and at_least > theirs[1] else ""
            raise Failed(f"{self.name} does not serve {ours.module}{wanted}")
        answer, at = self._send(request, last)
        return self._decoded(key, answer, at, last)

    def _served(self) -> ApiVersionsResponse:
        """Under our own name: a node of ours tells more to its own (KIP-511). Old brokers know no names."""
        key = ApiVersionsRequest.API_KEY
        for version in (APIS[key].max_version, 0):
            answer, at = self._send(ApiVersionsRequest(OWN_CLIENT, __version__), version)
            # A broker that does not know the version says so in version 0.
            code = int.from_bytes(answer[at : at + 2], "big", signed=True)
            if code != ErrorCode.UNSUPPORTED_VERSION:
                break
        checked(code)
        served: ApiVersionsResponse = self._decoded(key, answer, at, version)
        return served

    def _send(self, request: Message, version: int) -> tuple[memoryview, int]:
        """The answer's frame, and where the response begins in it."""
        key = request.API_KEY
        flexible = version >= FLEXIBLE_FROM[key]
        self._correlation_id += 1
        out = Buffer()
        encode_request_header(out, RequestHeader(key, version, self._correlation_id, "ottla-cli"), flexible)
        request.encode(out, version)
        finish_request(out)
        try:
            self._sock.sendall(out)
            (size,) = struct.unpack(">i", self._receive(4))
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise self._nonsense(f"an answer of {size} bytes")
            answer = memoryview(self._receive(size))
        except OSError as failure:
            raise Failed(f"{self.name} did not answer: {failure.strerror or failure}") from None
        try:
            # The answer to ApiVersions never has a flexible header (KIP-511).
            _, at = decode_response_header(answer, 0, flexible and key != ApiVersionsRequest.API_KEY)
        except Malformed as broken:
            raise self._nonsense(str(broken)) from None
        return answer, at

    def _decoded(self, key: int, answer: memoryview, at: int, version: int) -> Any:
        try:
            response, _ = RESPONSES[key].decode(answer, at, version)
        except Malformed as broken:
            raise self._nonsense(str(broken)) from None
        return response

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


def address_name(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def checked(code: int, message: str | None = None, about: str = "") -> None:
    """Raise what a response says went wrong."""
    if code:
        what = f"{error_name(code)}: {message}" if message else error_name(code)
        raise Failed(f"{about}: {what}" if about else what)


def error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
