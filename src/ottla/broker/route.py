"""One row registers an API: its key, the versions served, the method that serves it.

Version negotiation, dispatch and the list of what is served are all read from these rows.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ottla.base.errors import ErrorCode, Refused
from ottla.net.connection import Peer
from ottla.wire.messages.index import ApiKey
from ottla.wire.primitives import Message

Request = TypeVar("Request", bound=Message)


class Call(Generic[Request]):
    """One request on its way through a handler. Its record fields are valid until the handler first waits."""

    __slots__ = ("client_id", "peer", "request", "version")

    def __init__(self, request: Request, version: int, client_id: str | None, peer: Peer) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.peer = peer


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that are served, and those that are advertised; our own client is told of all up to the last."""

    first: int
    last: int
    advertised_first: int
    advertised_last: int


def versions(
    first: int, last: int, advertised_first: int | None = None, advertised_last: int | None = None
) -> Versions:
    return Versions(
        first,
        last,
        first if advertised_first is None else advertised_first,
        last if advertised_last is None else advertised_last,
    )


def private(first: int, last: int) -> Versions:
    """For an API that is no part of Kafka's protocol: other clients do not see it."""
    return Versions(first, last, first, first - 1)


@dataclass(frozen=True, slots=True)
class Route:
    key: ApiKey
    versions: Versions
    serve: Callable[[Call[Any]], Awaitable[Message | None]]


class Api(Protocol):
    """One group of APIs: takes what it uses, says what it serves."""

    def routes(self) -> tuple[Route, ...]: ...


class PartitionAnswer(Protocol):
    error_code: int


class answering:
    """Turn a refusal into this element's error code; every other exception is a bug and flies."""

    __slots__ = ("_result",)

    def __init__(self, result: PartitionAnswer) -> None:
        self._result = result

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Refused):
            return False
        refuse(self._result, error)
        return True


def refuse(result: Any, refusal: Refused) -> None:
    """Write a refusal into an answer that has an error code, and perhaps a place for the reason."""
    result.error_code = int(refusal.code)
    if "error_message" in result.__slots__:
        result.error_message = refusal.why


def is_refused(result: PartitionAnswer) -> bool:
    return result.error_code != ErrorCode.NONE
