"""Single requests to one broker, for what the client library has no call for.

Which broker to ask is the business of `brokers.py`.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.cli.failure import Failed, Unreachable
from ottla.client import failures
from ottla.client.addresses import Address, address_name
from ottla.client.blocking import LoopThread
from ottla.client.connection import Connection
from ottla.client.deadline import Deadline
from ottla.client.settings import ClientSettings
from ottla.client.versions import Span, Versions
from ottla.wire.primitives import Message

T = TypeVar("T")


class Exchange:
    """A connection to one broker, and the versions it speaks."""

    def __init__(self, address: Address, settings: ClientSettings, loop: LoopThread) -> None:
        self.name = address_name(address)
        self._loop = loop
        self._timeout_s = settings.request_s
        self._connection = self._wait_for(Connection.open(address, settings))

    @property
    def versions(self) -> Versions:
        return self._connection.versions

    def close(self) -> None:
        async def close() -> None:
            self._connection.close()

        self._loop.run(close())

    def ask(self, request: Message, at_least: int = 0) -> Any:
        """Send it in the newest version that both know, and return the response.

        `at_least` is the first version that has all the fields that matter; a broker that is older is a failure.
        """
        return self._wait_for(self._connection.ask(request, Deadline(self._timeout_s), Span(at_least)))

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except failures.Unreachable as failure:
            raise Unreachable(self.name, failure.why) from None
        except failures.ClientFailure as failure:
            raise Failed(str(failure)) from None


def checked(code: int, message: str | None = None, about: str = "") -> None:
    """Raise what a response says went wrong."""
    try:
        failures.check(code, message, about)
    except failures.BrokerRefused as refused:
        raise Failed(str(refused)) from None
