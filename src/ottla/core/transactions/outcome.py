"""What is gathered while a question is decided, and the deadlines of a shard."""

from typing import NamedTuple

from ottla.core.transactions.asks import Decision, Effect
from ottla.core.transactions.records import Record

TIMEOUT = "timeout"
MARKERS = "markers"
PARKED = "parked"
PIN = "pin"
GROUP = "group"
EXPIRY = "expiry"


class Due(NamedTuple):
    """What a deadline is about: a transactional id, or a sink and a query."""

    kind: str
    id: str = ""
    query: str = ""


class Outcome:
    __slots__ = ("effects", "now_ms", "records")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.effects: list[Effect] = []

    def decision(self, reply: object = None) -> Decision:
        return Decision(tuple(self.records), reply, tuple(self.effects))
