"""Which version of an API to speak: the newest that both sides know, within what the question needs.

The first question on a connection is ApiVersions, under our own software name: a node of ours tells its own client more
(KIP-511). A broker that does not know our newest ApiVersions says so in version 0, and is asked in that.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla import __version__
from ottla.base.errors import ErrorCode
from ottla.base.own_client import OWN_CLIENT
from ottla.client.failures import Unsupported, check
from ottla.wire.frame import RequestHeader, decode_response_header, encode_request_header, finish_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.index import APIS, FLEXIBLE_FROM, RESPONSES
from ottla.wire.primitives import Buffer, Message

NEWEST = 2**15 - 1


class Span(NamedTuple):
    """Versions that fit: `at_least` is the first with all the fields that matter, `at_most` the last that means it."""

    at_least: int = 0
    at_most: int = NEWEST

    def up_to(self, version: int) -> Span:
        return Span(self.at_least, min(self.at_most, version))


ANY = Span()
INTRODUCTION = ApiVersionsRequest(OWN_CLIENT, __version__)
INTRODUCTION_VERSIONS = (APIS[ApiVersionsRequest.API_KEY].max_version, 0)


class Versions(NamedTuple):
    """What one broker serves."""

    name: str
    ranges: dict[int, tuple[int, int]]
    features: dict[str, int]
    """Finalized by the cluster, with their levels."""

    @classmethod
    def of(cls, name: str, served: ApiVersionsResponse) -> Versions:
        return cls(
            name,
            {api.api_key: (api.min_version, api.max_version) for api in served.api_keys},
            {feature.name: feature.max_version_level for feature in served.finalized_features},
        )

    def serves(self, key: int, span: Span = ANY) -> bool:
        return self._overlap(key, span) is not None

    def newest(self, key: int, span: Span = ANY) -> int:
        """The version to ask in."""
        version = self._overlap(key, span)
        if version is None:
            theirs = self.ranges.get(key)
            wanted = f" in version {span.at_least}" if theirs and span.at_least > theirs[1] else ""
            raise Unsupported(f"{self.name} does not serve {APIS[key].module}{wanted}")
        return version

    def _overlap(self, key: int, span: Span) -> int | None:
        theirs = self.ranges.get(key)
        if theirs is None:
            return None
        ours = APIS[key]
        last = min(ours.max_version, theirs[1], span.at_most)
        return last if last >= max(ours.min_version, theirs[0], span.at_least) else None


def is_unknown_version(answer: memoryview, at: int) -> bool:
    """Whether a broker does not know the version of ApiVersions it was asked in. Any other code is an exception."""
    code = int.from_bytes(answer[at : at + 2], "big", signed=True)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return True
    check(code)
    return False


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> Buffer:
    key = request.API_KEY
    out = Buffer()
    header = RequestHeader(key, version, correlation_id, client_id)
    encode_request_header(out, header, version >= FLEXIBLE_FROM[key])
    request.encode(out, version)
    finish_request(out)
    return out


def response_header(key: int, version: int, answer: memoryview) -> tuple[int, int]:
    """The correlation id, and where the message begins. The answer to ApiVersions never has a flexible header."""
    is_flexible = version >= FLEXIBLE_FROM[key] and key != ApiVersionsRequest.API_KEY
    return decode_response_header(answer, 0, is_flexible)


def decode_response(key: int, version: int, answer: memoryview, at: int) -> Message:
    response, _ = RESPONSES[key].decode(answer, at, version)
    return response
