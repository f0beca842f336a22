"""Single requests over a plain socket, for what the client library has no call for, such as DescribeQuorum."""

import socket
import struct
from types import TracebackType
from typing import Any, TypeVar

from ottla.base.errors import ErrorCode
from ottla.cli.connection import Target
from ottla.cli.failure import Failed
from ottla.cli.properties import read_settings
from ottla.wire.frame import RequestHeader, decode_response_header, encode_request_header, finish_request
from ottla.wire.malformed import Malformed
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.index import APIS, FLEXIBLE_FROM, RESPONSES
from ottla.wire.primitives import Buffer, Message

Response = TypeVar("Response", bound=Message)
ANSWER_BYTES_MAX = 64 * 1024 * 1024


class Exchange:
    """A connection to one broker, and the versions it speaks."""

    def __init__(self, target: Target, address: tuple[str, int] | None = None) -> None:
        self._name = target.bootstrap if address is None else f"{address[0]}:{address[1]}"
        _refuse_security(target)
        try:
            self._sock = socket.create_connection(address or first_address(target.bootstrap), target.timeout_s)
        except OSError as failure:
            raise Failed(f"cannot reach {self._name}: {failure.strerror or failure}") from None
        self._correlation_id = 0
        self._versions = {ApiVersionsRequest.API_KEY: (0, 0)}
        served: Any = self.ask(ApiVersionsRequest())
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in served.api_keys}

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._sock.close()

    def ask(self, request: Message) -> Any:
        """Send it in the newest version that both know, and return the response."""
        key = request.API_KEY
        version = self._version(key)
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
                raise Malformed(f"an answer of {size} bytes")
            answer = memoryview(self._receive(size))
            # The answer to ApiVersions never has a flexible header (KIP-511).
            _, at = decode_response_header(answer, 0, flexible and key != ApiVersionsRequest.API_KEY)
            response, _ = RESPONSES[key].decode(answer, at, version)
        except OSError as failure:
            raise Failed(f"{self._name} did not answer: {failure.strerror or failure}") from None
        except Malformed as broken:
            raise Failed(f"{self._name} does not speak Kafka's protocol: {broken}") from None
        return response

    def _version(self, key: int) -> int:
        ours, theirs = APIS[key], self._versions.get(key)
        first = max(ours.min_version, theirs[0]) if theirs else 0
        last = min(ours.max_version, theirs[1]) if theirs else -1
        if last < first:
            raise Failed(f"{self._name} does not serve {ours.module}")
        return last

    def _receive(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._sock.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionResetError(0, "it closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def first_address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.split(",")[0].strip().rpartition(":")
    if not port.isdecimal():
        raise Failed(f"{bootstrap!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def checked(code: int, message: str | None = None) -> None:
    """Raise what a response says went wrong."""
    if code:
        name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
        raise Failed(f"{name}: {message}" if message else name)


def _refuse_security(target: Target) -> None:
    settings = read_settings(target.command_config) if target.command_config else {}
    protocol = settings.get("security.protocol", "plaintext")
    if protocol.lower() != "plaintext":
        raise Failed(f"this command cannot speak {protocol} yet: the client library has no call for it")
