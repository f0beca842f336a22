"""What is gathered while a question is decided, and what all parts of a shard share."""

from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.core.groups.asks import Decision, JoinReply, Reply, SyncReply
from ottla.core.groups.deadlines import Deadlines
from ottla.core.groups.records import Record
from ottla.core.groups.settings import ALL_GROUPS, ConsumerTimes, GroupSettings

SESSION = "session"
JOIN = "join"
SYNC = "sync"
REJOIN = "rejoin"
REVOKE = "revoke"
EXPIRY = "expiry"


class Due(NamedTuple):
    """What a deadline is about."""

    kind: str
    group_id: str = ""
    member_id: str = ""


class Outcome:
    __slots__ = ("effects", "now_ms", "records")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.effects: list[Reply] = []

    def answer(self, ticket: int | None, reply: JoinReply | SyncReply) -> None:
        if ticket is not None:
            self.effects.append(Reply(ticket, reply))

    def decision(self, reply: object = None) -> Decision:
        return Decision(tuple(self.records), reply, tuple(self.effects))


class Surroundings:
    """The settings, the source of ids, the deadlines and the tickets of one shard."""

    __slots__ = ("_own_times", "_tickets", "_times", "deadlines", "random", "settings")

    def __init__(
        self, settings: GroupSettings, random: Random, own_times: Mapping[str, ConsumerTimes] | None = None
    ) -> None:
        self.settings = settings
        self._times = settings.consumer_times
        self._own_times = {} if own_times is None else own_times
        self.random = random
        self.deadlines: Deadlines[Due] = Deadlines()
        self._tickets: Callable[[], int] = count(1).__next__

    def times(self, group_id: str) -> ConsumerTimes:
        return self._own_times.get(group_id) or self._own_times.get(ALL_GROUPS, self._times)

    def ticket(self) -> int:
        return self._tickets()

    def member_id(self, prefix: str) -> str:
        """The prefix and a random UUID in its usual spelling."""
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def join_refusal(code: ErrorCode, member_id: str = "") -> JoinReply:
    return JoinReply(error=code, member_id=member_id)
