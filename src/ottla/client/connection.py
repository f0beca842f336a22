"""One connection to one broker: requests go out in order, several may be under way, answers are matched by number.

When the connection dies, for whatever reason, everybody who waits learns it at once. Runs on any event loop.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import time
from typing import Any, NamedTuple, cast

from ottla.base.limits import PIPELINED_REQUESTS_MAX
from ottla.client.addresses import Address, address_name
from ottla.client.deadline import Deadline
from ottla.client.failures import AuthenticationFailed, ConnectionLost, Nonsense, NotAnswered, Unreachable
from ottla.client.frames import FrameReader
from ottla.client.login import log_in
from ottla.client.settings import ClientSettings
from ottla.client.versions import (
    ANY,
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

_LOGIN_AGE_PART = 0.85
"""A login that ends is not renewed but given up this early, with its connection (KIP-368)."""


class _Waiting(NamedTuple):
    key: int
    version: int
    answer: asyncio.Future[tuple[memoryview, int]]


def _reason(failure: OSError) -> str:
    """The system's words; an event loop has others, that tell the address again."""
    if failure.errno is not None and failure.errno in errno.errorcode:
        return os.strerror(failure.errno)
    return failure.strerror or str(failure)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.name = address_name(address)
        self.versions = Versions(self.name, {}, {})
        self._settings = settings
        self._frames = FrameReader(settings.frame_bytes_max)
        self._waiting: dict[int, _Waiting] = {}
        self._correlation_id = 0
        self._room = asyncio.Semaphore(PIPELINED_REQUESTS_MAX)
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._lost: ConnectionLost | None = None
        self._expires: float | None = None

    @classmethod
    async def open(cls, address: Address, settings: ClientSettings) -> Connection:
        """Connected, acquainted and logged in."""
        connection = cls(address, settings)
        host, port = address
        tls = settings.security.tls
        deadline = Deadline(settings.connect_s)
        try:
            async with asyncio.timeout(deadline.left_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls else None
                )
        except TimeoutError:
            raise Unreachable(connection.name, f"no connection within {settings.connect_s:g} s") from None
        except ssl.SSLCertVerificationError as failure:
            raise AuthenticationFailed(f"{connection.name} is not who it says: {failure.verify_message}") from None
        except OSError as failure:
            raise Unreachable(connection.name, _reason(failure)) from None
        is_fit = False
        try:
            await connection._get_acquainted(deadline)
            is_fit = True
        finally:
            if not is_fit:
                connection.close()
        return connection

    @property
    def is_open(self) -> bool:
        """Fit for a new request."""
        return self._lost is None and (self._expires is None or time.monotonic() < self._expires)

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    async def ask(self, request: Message, deadline: Deadline, span: Span = ANY, is_slow: bool = False) -> Any:
        """The response. `is_slow`: the broker may take its time, only the deadline counts."""
        key = request.API_KEY
        version = self.versions.newest(key, span)
        request_s = None if is_slow else self._settings.request_s
        answer, at = await self._exchange(request, version, request_s, deadline)
        return self._decoded(key, version, answer, at)

    def close(self, why: ConnectionLost | None = None) -> None:
        """Whoever waits for an answer is told that there will be none."""
        if self._lost is None:
            self._lost = why or ConnectionLost(f"the connection to {self.name} was closed")
            if self._transport is not None:
                self._transport.abort()
            self._writable.set()
            waiting, self._waiting = self._waiting, {}
            for one in waiting.values():
                if not one.answer.done():
                    one.answer.set_exception(type(self._lost)(str(self._lost)))

    async def _exchange(
        self, request: Message, version: int, request_s: float | None, deadline: Deadline
    ) -> tuple[memoryview, int]:
        """A broker that is silent for `request_s` loses its connection; a caller out of time just leaves.

        Without it the deadline is the broker's: it has been given all the time that it may take.
        """
        was_sent = False
        left_s = deadline.left_s if request_s is None else min(request_s, deadline.left_s)
        answer: asyncio.Future[tuple[memoryview, int]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(left_s), self._room:
                async with self._turn:
                    await self._writable.wait()
                    self._send(request, version, answer)
                was_sent = True
                return await answer
        except TimeoutError:
            why = f"{self.name} did not answer within {left_s:.3g} s"
            if request_s is None or left_s == request_s:
                self.close(NotAnswered(why))
            raise NotAnswered(why, was_sent) from None

    def _send(self, request: Message, version: int, answer: asyncio.Future[tuple[memoryview, int]]) -> None:
        if self._lost is not None or self._transport is None:
            raise ConnectionLost(str(self._lost), was_sent=False)
        self._correlation_id = number = (self._correlation_id + 1) & 0x7FFFFFFF
        self._waiting[number] = _Waiting(request.API_KEY, version, answer)
        self._transport.write(encode_request(request, version, number, self._settings.client_id))

    async def _get_acquainted(self, deadline: Deadline) -> None:
        key = INTRODUCTION.API_KEY
        for version in INTRODUCTION_VERSIONS:
            answer, at = await self._exchange(INTRODUCTION, version, self._settings.connect_s, deadline)
            if not is_unknown_version(answer, at):
                self.versions = Versions.of(self.name, self._decoded(key, version, answer, at))
                break
        else:
            raise self._nonsense("it knows no version of ApiVersions")
        login = self._settings.security.login
        if login is not None:
            lifetime_s = await log_in(self, login, deadline)
            self._expires = time.monotonic() + lifetime_s * _LOGIN_AGE_PART if lifetime_s else None

    def _decoded(self, key: int, version: int, answer: memoryview, at: int) -> Any:
        try:
            return decode_response(key, version, answer, at)
        except Malformed as broken:
            failure = self._nonsense(str(broken))
            self.close(failure)
            raise failure from None

    def _nonsense(self, what: str) -> Nonsense:
        return Nonsense(f"{self.name} does not speak Kafka's protocol: {what}")

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.advance(nbytes):
                self._on_frame(frame)
        except Malformed as broken:
            self.close(self._nonsense(str(broken)))

    def _on_frame(self, frame: memoryview) -> None:
        """An answer. That of a request which was given up meanwhile is dropped."""
        number = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.get(number)
        if waiting is None:
            raise Malformed(f"an answer to request {number}, which was not made")
        _, at = response_header(waiting.key, waiting.version, frame)
        del self._waiting[number]
        if not waiting.answer.done():
            waiting.answer.set_result((frame, at))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        why = f": {error}" if error else ""
        self.close(ConnectionLost(f"{self.name} closed the connection{why}"))
