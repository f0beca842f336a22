"""What a cluster's coordinators know of transactions, and what its partitions know of producers (KIP-664)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.cli.brokers import Brokers
from ottla.cli.exchange import Exchange, checked
from ottla.cli.failure import Failed, Misused
from ottla.cli.places import Place, place_name
from ottla.client.addresses import Address
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

NO_TIMEOUT_MS = 2**31 - 1
"""Of a transaction that waits for an outside coordinator's verdict (KIP-939)."""
_IDS_PER_REQUEST = 1000
_HAS_DURATION, _HAS_PATTERN = 1, 2
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
STATES = {
    "empty": "Empty",
    "ongoing": "Ongoing",
    "prepare-commit": "PrepareCommit",
    "prepare-abort": "PrepareAbort",
    "complete-commit": "CompleteCommit",
    "complete-abort": "CompleteAbort",
}
"""As the command line spells them, and as Kafka does."""
_WORDS = {name: word for word, name in STATES.items()}


@dataclass(frozen=True)
class Transaction:
    """A transactional id's latest transaction, as its coordinator tells it."""

    id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    places: tuple[Place, ...]
    coordinator: str

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN_STATES

    @property
    def word(self) -> str:
        """The state, as the command line spells it."""
        return _WORDS.get(self.state, self.state.lower())

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS


@dataclass(frozen=True)
class ActiveProducer:
    """A producer that a partition remembers."""

    place: Place
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_since_offset: int
    """Where its open transaction begins, or -1."""

    @property
    def open_transaction(self) -> tuple[Place, int, int]:
        return self.place, self.producer_id, self.open_since_offset


@dataclass(frozen=True)
class Wanted:
    """Which transactions; nothing given means all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int | None = None
    pattern: str | None = None


def listed(brokers: Brokers, wanted: Wanted) -> list[Transaction]:
    """Of all coordinators, ordered by id."""
    found = [one for _, broker in brokers.every() for one in _listed_by(brokers, broker, wanted)]
    return sorted(found, key=lambda one: one.id)


def described(brokers: Brokers, transactional_id: str) -> Transaction:
    if not transactional_id:
        raise Misused("a transactional id is not empty")

    def ask() -> tuple[int, Any]:
        coordinator = brokers.coordinator(transactional_id)
        [answer] = coordinator.ask(DescribeTransactionsRequest([transactional_id])).transaction_states
        return answer.error_code, (answer, coordinator.name)

    answer, coordinator = brokers.patiently(ask, transactional_id)
    return _transaction(answer, coordinator)


def producers(brokers: Brokers, places: Iterable[Place]) -> list[ActiveProducer]:
    """Those that the leaders of the partitions remember, by partition and producer id. One without a leader fails."""
    leaders, by_leader = brokers.leaders(), dict[Address, list[Place]]()
    for place in places:
        if place not in leaders:
            raise Failed(f"there is no {place_name(place)}, or it has no leader")
        by_leader.setdefault(leaders[place], []).append(place)
    found: list[ActiveProducer] = []
    for address, led in by_leader.items():
        topics: dict[str, list[int]] = {}
        for topic, index in led:
            topics.setdefault(topic, []).append(index)
        request = DescribeProducersRequest([TopicRequest(topic, indexes) for topic, indexes in topics.items()])
        for answer in brokers.at(address).ask(request).topics:
            for partition in answer.partitions:
                place = (answer.name, partition.partition_index)
                checked(partition.error_code, partition.error_message, place_name(place))
                found += [_producer(place, one) for one in partition.active_producers]
    return sorted(found, key=lambda one: (one.place, one.producer_id))


def hanging(brokers: Brokers, places: Iterable[Place]) -> list[ActiveProducer]:
    """Transactions that are open in a partition and that no coordinator will ever end: it does not know of them.

    The partitions are asked first, then the coordinators, then the partitions again: what has merely ended in between
    is not open any more.
    """
    suspects = [one for one in producers(brokers, places) if one.open_since_offset >= 0]
    if not suspects:
        return []
    known = accounted_for(brokers, suspects)
    unknown = [one for one in suspects if (one.producer_id, one.place) not in known]
    still_open = {one.open_transaction for one in producers(brokers, {one.place for one in unknown})}
    return [one for one in unknown if one.open_transaction in still_open]


def accounted_for(brokers: Brokers, suspects: Iterable[ActiveProducer]) -> dict[tuple[int, Place], Transaction]:
    """The open transactions of these producers, under each partition that they will be ended in."""
    ids = tuple({one.producer_id for one in suspects})
    open_ones = [one for one in listed(brokers, Wanted(producer_ids=ids)) if one.is_open]
    return {(one.producer_id, place): one for one in open_ones for place in one.places}


def _listed_by(brokers: Brokers, broker: Exchange, wanted: Wanted) -> Iterator[Transaction]:
    request = ListTransactionsRequest(
        list(wanted.states),
        list(wanted.producer_ids),
        -1 if wanted.longer_than_ms is None else wanted.longer_than_ms,
        wanted.pattern,
    )
    needed = _HAS_PATTERN if wanted.pattern else 0 if wanted.longer_than_ms is None else _HAS_DURATION

    def ask() -> tuple[int, Any]:
        answer = broker.ask(request, at_least=needed)
        return answer.error_code, answer

    ids = [one.transactional_id for one in brokers.patiently(ask, broker.name).transaction_states]
    for begin in range(0, len(ids), _IDS_PER_REQUEST):
        answer = broker.ask(DescribeTransactionsRequest(ids[begin : begin + _IDS_PER_REQUEST]))
        for one in answer.transaction_states:
            # Expired in between.
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue
            checked(one.error_code, about=one.transactional_id)
            yield _transaction(one, broker.name)


def _transaction(answer: Any, coordinator: str) -> Transaction:
    return Transaction(
        answer.transactional_id,
        answer.transaction_state,
        answer.producer_id,
        answer.producer_epoch,
        answer.transaction_timeout_ms,
        answer.transaction_start_time_ms,
        tuple(sorted((topic.topic, index) for topic in answer.topics for index in topic.partitions)),
        coordinator,
    )


def _producer(place: Place, answer: Any) -> ActiveProducer:
    return ActiveProducer(
        place,
        answer.producer_id,
        answer.producer_epoch,
        answer.last_sequence,
        answer.last_timestamp,
        answer.coordinator_epoch,
        answer.current_txn_start_offset,
    )
