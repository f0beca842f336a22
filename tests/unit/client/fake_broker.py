"""A peer that answers as a test wants it to: rightly, wrongly, late or never."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from ottla.client.addresses import Address
from ottla.wire.frame import begin_response, decode_request_header, finish_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.index import APIS, FLEXIBLE_FROM, REQUESTS
from ottla.wire.primitives import Message


@dataclass
class Asked:
    key: int
    version: int
    number: int
    request: Message | None
    writer: asyncio.StreamWriter

    def answer(self, response: Message, version: int | None = None, number: int | None = None) -> bytes:
        version = self.version if version is None else version
        is_flexible = version >= FLEXIBLE_FROM[self.key] and self.key != ApiVersionsRequest.API_KEY
        out = begin_response(self.number if number is None else number, is_flexible)
        response.encode(out, version)
        finish_response(out)
        return bytes(out)


Answer = Callable[[Asked], Awaitable[bytes] | bytes | None]


def everything(asked: Asked) -> bytes:
    served = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
    return asked.answer(ApiVersionsResponse(0, served))


_ANSWERS: dict[int, Answer] = {ApiVersionsRequest.API_KEY: everything}


@dataclass
class FakeBroker:
    """`answers` by API key; what is not there is not answered, but for ApiVersions."""

    answers: Mapping[int, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> FakeBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    @property
    def address(self) -> Address:
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                asked = _read(await reader.readexactly(size), writer)
                self.asked.append(asked)
                answer = self.answers.get(
                    asked.key, everything if asked.key == ApiVersionsRequest.API_KEY else _silence
                )
                said = answer(asked)
                if isinstance(said, Awaitable):
                    said = await said
                if said is not None:
                    writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _silence(asked: Asked) -> None:
    return None


def hang_up(asked: Asked) -> None:
    asked.writer.transport.abort()


def _read(frame: bytes, writer: asyncio.StreamWriter) -> Asked:
    buf = memoryview(frame)
    header, at = decode_request_header(buf, 0, FLEXIBLE_FROM)
    request: Message | None = None
    if header.api_version in REQUESTS[header.api_key].READERS:
        request, _ = REQUESTS[header.api_key].decode(buf, at, header.api_version)
    return Asked(header.api_key, header.api_version, header.correlation_id, request, writer)
