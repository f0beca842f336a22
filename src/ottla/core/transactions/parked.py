"""Producers that begin their next transaction while the markers of the last one are under way (KIP-890).

Kafka's broker asks again every few milliseconds; here the question waits where the answer will be."""

from collections.abc import Iterator

from ottla.base.errors import ErrorCode
from ottla.core.groups.deadlines import Deadlines
from ottla.core.transactions.asks import AddPartitions, AddPartitionsReply, Reply
from ottla.core.transactions.outcome import PARKED, Due


class Parked:
    __slots__ = ("_by_id", "_deadlines", "_wait_ms")

    def __init__(self, deadlines: Deadlines[Due], wait_ms: int) -> None:
        self._deadlines = deadlines
        self._wait_ms = wait_ms
        self._by_id: dict[str, list[tuple[int, AddPartitions]]] = {}

    def park(self, ticket: int, ask: AddPartitions, now_ms: int) -> int:
        waiting = self._by_id.setdefault(ask.transactional_id, [])
        if not waiting:
            self._deadlines.set(Due(PARKED, ask.transactional_id), now_ms + self._wait_ms)
        waiting.append((ticket, ask))
        return ticket

    def of(self, transactional_id: str) -> tuple[tuple[int, AddPartitions], ...]:
        return tuple(self._by_id.get(transactional_id, ()))

    def forget(self, transactional_id: str) -> None:
        """They have been answered."""
        if self._by_id.pop(transactional_id, None) is not None:
            self._deadlines.cancel(Due(PARKED, transactional_id))

    def give_up(self, transactional_id: str) -> list[Reply]:
        """All who wait for this id may ask again, those included that came late."""
        reply = AddPartitionsReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        return [Reply(ticket, reply) for ticket, _ in self._by_id.pop(transactional_id, ())]

    def resign(self) -> Iterator[Reply]:
        for waiting in self._by_id.values():
            for ticket, _ in waiting:
                yield Reply(ticket, AddPartitionsReply(ErrorCode.NOT_COORDINATOR))
