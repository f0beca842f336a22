"""What can go wrong between a client and a cluster. Each says whether to try again may help."""

from __future__ import annotations

from ottla.base.errors import ErrorCode


class ClientFailure(Exception):
    """The base of them all; `is_retriable`: the same question may be answered later, perhaps by another broker."""

    is_retriable = False


class Misconfigured(ClientFailure):
    """Settings that contradict each other, or that this client cannot follow."""


class Unreachable(ClientFailure):
    """No connection could be made, so nothing has been asked."""

    is_retriable = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"cannot reach {where}: {why}")
        self.why = why


class ConnectionLost(ClientFailure):
    """The connection ended before the answer. If `was_sent`, the broker may have done what it was asked to do."""

    is_retriable = True

    def __init__(self, why: str, was_sent: bool = True) -> None:
        super().__init__(why)
        self.was_sent = was_sent


class NotAnswered(ConnectionLost):
    """Time was up. The connection is given up too, for what comes over it next would be the late answer."""


class Nonsense(ConnectionLost):
    """What came back is not Kafka's protocol."""


class Unsupported(ClientFailure):
    """The broker does not serve this API, or not in a version that has what is needed."""


class AuthenticationFailed(ClientFailure):
    """The broker does not believe who we are, or we do not believe who it is."""


class BrokerRefused(ClientFailure):
    """The broker answered with an error code."""

    def __init__(self, code: int, why: str = "", about: str = "") -> None:
        self.code = ErrorCode(code) if code in _KNOWN else code
        self.why = why
        self.about = about
        super().__init__(": ".join(part for part in (about, code_name(code), why) if part))

    @property
    def is_retriable(self) -> bool:  # type: ignore[override]
        return self.code in PASSING


class NoSuchTopic(ClientFailure):
    """Asked for again and again, and still not there."""


class OutcomeUnknown(ClientFailure):
    """It was asked for and never answered: it may have been done, and may even be done later."""


class Fenced(ClientFailure):
    """Another producer has taken this transactional id."""


def code_name(code: int) -> str:
    return ErrorCode(code).name if code in _KNOWN else f"error {code}"


_KNOWN = frozenset(map(int, ErrorCode))

MOVED = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
    }
)
"""What is known about leaders is outdated."""

NO_COORDINATOR = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})

PASSING = (
    MOVED
    | NO_COORDINATOR
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Codes that pass by themselves."""

FENCING = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


def check(code: int, why: str | None = None, about: str = "") -> None:
    if code:
        raise BrokerRefused(code, why or "", about)
