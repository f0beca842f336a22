"""What the workload wants of a client library, and the settings that all of them understand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tools.chaos.history import Key, Outcome

SEND_SECONDS_MAX = 20.0
"""Until a record that is not acknowledged is given up by the library."""
REQUEST_SECONDS_MAX = 4.0
"""Short, so that what is paused or held is sent again while the first may still arrive."""
SESSION_SECONDS = 6.0
POLL_SECONDS_MAX = 10.0
"""Between two polls of a member; so long a rebalance waits for those that do not poll."""
TRANSACTION_SECONDS_MAX = 12.0
"""Then the coordinator aborts it: sooner than the longest pauses end together with what follows them."""
CALL_SECONDS_MAX = 10.0
"""Until a call that begins, ends or commits offsets to a transaction is given up, however often it is repeated."""


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    library: str
    group: str
    is_safe: bool = True
    """acks=all and idempotence; otherwise acks=1 without."""
    protocol: str = "classic"
    """Of the group."""
    compression: str = "none"
    linger_ms: int = 0
    transactional_id: str = ""
    """Empty: the producer has no transactions."""


@dataclass(frozen=True)
class Ack:
    outcome: Outcome
    offset: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Received:
    key: Key
    offset: int
    data: bytes | None


class ClientBroken(Exception):
    """The library says that this client can do no more."""


class TransactionFailed(Exception):
    """A call that belongs to a transaction did not succeed."""

    def __init__(self, error: str, is_fatal: bool) -> None:
        super().__init__(error)
        self.is_fatal = is_fatal
        """This client can do no more; otherwise it can abort the transaction and go on."""


Posted = Callable[[], list[Ack]]
"""Waits for what has become of records that are on their way."""


class Client(Protocol):
    rebalanced: set[Key]
    """Given or taken since somebody emptied it."""
    is_lost_by_failures: bool
    """A transaction that fails is the end of its producer, whatever the library says, and a commit may not notice that
    batches have failed; why is told there."""

    def send(self, records: list[tuple[Key, bytes]]) -> list[Ack]: ...

    def post(self, records: list[tuple[Key, bytes]]) -> Posted:
        """The same without waiting, unless failures lose the client: then a commit cannot be trusted with it.

        What a transaction cannot even send fails it at once.
        """

    def assign(self, positions: dict[Key, int]) -> None: ...

    def subscribe(self, topics: list[str]) -> None: ...

    def poll(self, seconds: float, records_max: int) -> list[Received]: ...

    def seek(self, positions: dict[Key, int]) -> None:
        """Of keys that have been polled; those that are taken meanwhile are passed over."""

    def commit(self) -> None:
        """What has been polled; whether it succeeds is nobody's concern."""

    def committed(self, keys: list[Key]) -> dict[Key, int]:
        """By the group. Keys of which it has committed nothing are left out."""

    def begin(self) -> None: ...

    def send_offsets(self, offsets: dict[Key, int]) -> None:
        """In the name of the group, as the member that this client is."""

    def end(self, commits: bool) -> None: ...


DEFINITE = frozenset(
    {
        "MSG_SIZE_TOO_LARGE",
        "MessageSizeTooLargeError",
        "INVALID_RECORD",
        "InvalidRecordError",
        "TOPIC_AUTHORIZATION_FAILED",
        "TopicAuthorizationFailedError",
        "TOPIC_EXCEPTION",
        "InvalidTopicError",
    }
)
"""Errors of the libraries after which a record is certainly not there."""


def refused(name: str) -> Ack:
    return Ack(Outcome.FAIL if name in DEFINITE else Outcome.INFO, error=name)
