"""From a frame to the method that serves it, and back: decode, check the version, call, encode.

This is the one place that catches every exception: a bug in one request must cost one connection, not the node.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import CLIENT_TEXT_BYTES_LOGGED_MAX
from ottla.broker.route import Call, Route, refuse
from ottla.net.connection import Hangup, Peer
from ottla.wire.frame import RequestHeader, begin_response, decode_request_header, finish_response
from ottla.wire.malformed import Malformed
from ottla.wire.messages.index import APIS, REQUESTS, RESPONSES, ApiKey
from ottla.wire.primitives import Buffer, Message

log = structlog.get_logger(__name__)

_API_VERSIONS = int(ApiKey.API_VERSIONS)
_NOBODY = Peer("", 0, "", "")
_FLEXIBLE_FROM = {api.key: api.flexible_from for api in APIS.values()}


class _Served:
    """A route with its codecs at hand; they are imported when the API is first asked for."""

    __slots__ = ("count", "first", "flexible_from", "key", "last", "name", "request", "serve")

    def __init__(self, route: Route) -> None:
        self.key = int(route.key)
        self.serve = route.serve
        self.first = route.versions.first
        self.last = route.versions.last
        # ApiVersions answers with the old header in every version: the client does not know yet what is spoken here.
        self.flexible_from = 0x7FFF if self.key == _API_VERSIONS else _FLEXIBLE_FROM[self.key]
        self.name = route.key.name
        self.request: type[Message] | None = None
        self.count = 0


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = {route.key: route for route in routes}
        self._served = {int(key): _Served(route) for key, route in self.routes.items()}

    def request_counts(self) -> Iterator[tuple[str, int]]:
        """How often each API has been asked for."""
        return ((served.name, served.count) for served in self._served.values() if served.count)

    async def answer(self, frame: memoryview, peer: Peer) -> Buffer | None:
        """One request in, one encoded response out; None when the request asks for none."""
        try:
            header, at = decode_request_header(frame, 0, _FLEXIBLE_FROM)
            served = self._served.get(header.api_key)
            if served is None:
                raise Hangup(f"API key {header.api_key} is not served here")
            version = header.api_version
            if not served.first <= version <= served.last:
                return await self._refuse_version(served, header)
            served.count += 1
            kind = served.request
            if kind is None:
                kind = served.request = REQUESTS[served.key]
            # What follows the request is ignored, as Kafka does: librdkafka leaves three bytes behind some of its own.
            request, _ = kind.decode(frame, at, version)
        except Malformed as broken:
            raise Hangup(f"malformed request: {str(broken)[:CLIENT_TEXT_BYTES_LOGGED_MAX]}") from None
        call = Call(request, version, header.client_id, peer)
        try:
            response = await served.serve(call)
        except Refused as refusal:
            response = _refusal(served, refusal)
        except Hangup:
            raise
        except Exception:
            log.exception("request failed", api=served.name, version=version, peer=peer.host)
            raise Hangup(f"{served.name} failed") from None
        if response is None:
            return None
        out = begin_response(header.correlation_id, version >= served.flexible_from)
        response.encode(out, version)
        finish_response(out)
        return out

    async def _refuse_version(self, served: _Served, header: RequestHeader) -> Buffer:
        """Only ApiVersions can be answered in a version that is not known: in version 0 (KIP-511)."""
        if served.key != _API_VERSIONS:
            asked = f"{served.name} version {header.api_version}"
            raise Hangup(f"{asked} is not served, versions {served.first} to {served.last} are")
        response: Any = await served.serve(Call(REQUESTS[served.key](), 0, None, _NOBODY))
        response.error_code = int(ErrorCode.UNSUPPORTED_VERSION)
        out = begin_response(header.correlation_id, False)
        response.encode(out, 0)
        finish_response(out)
        return out


def _refusal(served: _Served, refusal: Refused) -> Message:
    """A request refused as a whole, in the words that its response has for that."""
    response = RESPONSES[served.key]()
    if "error_code" not in response.__slots__:
        raise Hangup(f"{served.name} refused: {refusal}") from None
    refuse(response, refusal)
    return response
