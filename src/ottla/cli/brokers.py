"""The brokers of a cluster, each asked directly: any of them, all of them, a coordinator, the leader of a partition."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.cli.connection import CLIENT_ID, Target
from ottla.cli.exchange import Exchange, checked
from ottla.cli.failure import Failed, Unreachable
from ottla.cli.places import Place, place_name
from ottla.cli.properties import read_settings
from ottla.client.addresses import Address
from ottla.client.blocking import LoopThread
from ottla.client.failures import Misconfigured
from ottla.client.settings import ClientSettings
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest

_TRANSACTION = 1
_PAUSE_S = 0.05
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""Whoever asks again, and asks first who is responsible now, may get an answer."""


class Brokers:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._settings = _settings(target)
        self._loop = LoopThread()
        self._open: dict[Address, Exchange] = {}

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for exchange in self._open.values():
            exchange.close()
        self._loop.close()

    def any(self) -> Exchange:
        """The first of those to ask first that can be reached."""
        failures: list[Failed] = []
        for address in self._settings.bootstrap:
            try:
                return self.at(address)
            except Failed as failure:
                failures.append(failure)
        absent = [failure for failure in failures if isinstance(failure, Unreachable)]
        if len(absent) < len(failures):
            raise Failed("; ".join(map(str, failures)))
        raise Unreachable(", ".join(one.where for one in absent), "; ".join(dict.fromkeys(one.why for one in absent)))

    def every(self) -> Iterator[tuple[int, Exchange]]:
        """Each broker's id, and the way to it."""
        for broker in sorted(self.metadata().brokers, key=lambda broker: broker.node_id):
            yield broker.node_id, self.at((broker.host, broker.port))

    def metadata(self) -> Any:
        return self.any().ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))

    def coordinator(self, transactional_id: str) -> Exchange:
        def find() -> tuple[int, Any]:
            request = FindCoordinatorRequest(transactional_id, _TRANSACTION, [transactional_id])
            answer = self.any().ask(request, at_least=1)
            # From version 4 on the answer is a list, of one here.
            found = answer.coordinators[0] if answer.coordinators else answer
            return found.error_code, found

        found = self.patiently(find, transactional_id)
        return self.at((found.host, found.port))

    def leaders(self) -> dict[Place, Address]:
        """Of all partitions that have one."""
        metadata = self.metadata()
        at = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        return {
            (topic.name, partition.partition_index): at[partition.leader_id]
            for topic in metadata.topics
            for partition in topic.partitions
            if partition.leader_id in at
        }

    def leader(self, place: Place) -> Exchange:
        leaders = self.leaders()
        if place not in leaders:
            raise Failed(f"there is no {place_name(place)}, or it has no leader")
        return self.at(leaders[place])

    def patiently(
        self, ask: Callable[[], tuple[int, Any]], about: str, also: frozenset[ErrorCode] = frozenset()
    ) -> Any:
        """Ask until the code is not one that passes by itself; what came with it, if it is none."""
        for _ in self.attempts():
            code, answer = ask()
            if code not in NOT_YET and code not in also:
                break
        checked(code, about=about)
        return answer

    def attempts(self) -> Iterator[None]:
        """One, and with pauses as many more as the user's patience allows."""
        deadline = time.monotonic() + self._target.timeout_s
        yield
        while time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            yield

    def at(self, address: Address) -> Exchange:
        if address not in self._open:
            self._open[address] = Exchange(address, self._settings, self._loop)
        return self._open[address]


def _settings(target: Target) -> ClientSettings:
    given = read_settings(target.command_config) if target.command_config else {}
    try:
        settings = ClientSettings.from_kafka({**given, "bootstrap.servers": target.bootstrap})
    except Misconfigured as wrong:
        raise Failed(str(wrong)) from None
    return replace(settings, client_id=CLIENT_ID, connect_s=target.timeout_s, request_s=target.timeout_s)
