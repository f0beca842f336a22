"""Batches of one partition, against a broker that loses requests and answers, and forgets all but five batches."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ErrorCode
from ottla.base.limits import PRODUCER_BATCHES_REMEMBERED
from ottla.base.types import Offset, TopicName, TopicPartition
from ottla.client.deadline import Backoff
from ottla.client.failures import BrokerRefused, ClientFailure, ConnectionLost, Fenced, OutcomeUnknown
from ottla.client.outbound import Batch, NotDelivered, Outbound, Settled

PLACE = TopicPartition(TopicName("t"), 0)
FOREVER = 1e9
LOST = ConnectionLost("gone")
FULL = BrokerRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
NO_ROOM = BrokerRefused(ErrorCode.MESSAGE_TOO_LARGE)
OUT_OF_ORDER = BrokerRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def outbound(count: int, give_up_at: float = FOREVER) -> tuple[Outbound, list[Batch]]:
    queue = Outbound(PLACE, Backoff(1.0, 8.0))
    batches = [Batch(b"%d" % number, give_up_at) for number in range(count)]
    for batch in batches:
        queue.add(batch)
    return queue, batches


def take_all(queue: Outbound, now: float = 0.0) -> list[Batch]:
    taken = []
    while queue.is_ready(now):
        taken.append(queue.take())
    return taken


class Log:
    """The broker's rule: the next batch, or one of the last five."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def append(self, batch: Batch) -> ClientFailure | Offset:
        number = int(batch.records)
        if number == len(self.batches):
            self.batches.append(batch.records)
        elif not 0 <= number - (len(self.batches) - PRODUCER_BATCHES_REMEMBERED) < PRODUCER_BATCHES_REMEMBERED:
            return OUT_OF_ORDER
        return Offset(number)


@given(seed=st.integers(0, 2**32), count=st.integers(0, 40), loss=st.floats(0, 0.8))
def test_whatever_is_lost_on_the_way_each_batch_is_stored_once_and_in_order(seed: int, count: int, loss: float) -> None:
    rng, log, now = Random(seed), Log(), 0.0
    queue, batches = outbound(count)
    settled: list[Settled] = []
    under_way: list[Batch] = []
    answers: list[tuple[Batch, ClientFailure | Offset]] = []
    for _ in range(100_000):
        if queue.is_empty:
            break
        now += 1.0
        if queue.is_ready(now) and rng.random() < 0.7:
            under_way.append(queue.take())
        elif under_way and rng.random() < 0.6:
            batch = under_way.pop(0)  # a connection keeps the order
            said: ClientFailure | Offset = FULL if rng.random() < loss / 4 else LOST
            if said is LOST and rng.random() >= loss:
                said = log.append(batch)
                said = LOST if rng.random() < loss else said
            answers.append((batch, said))
        elif answers:
            batch, said = answers.pop(rng.randrange(len(answers)))
            if isinstance(said, ClientFailure):
                settled += queue.on_failed(batch, said, now)
            else:
                settled += queue.on_stored(batch, said)
    assert log.batches == [batch.records for batch in batches]
    assert sorted((one.batch.number, one.offset, one.failure) for one in settled) == [
        (number, number, None) for number in range(count)
    ]


def test_the_first_goes_alone_and_then_five_at_most() -> None:
    queue, batches = outbound(9)
    assert take_all(queue) == batches[:1]
    queue.on_stored(batches[0], Offset(0))
    assert take_all(queue) == batches[1 : 1 + PRODUCER_BATCHES_REMEMBERED]


def test_what_comes_back_waits_for_those_behind_it_and_goes_first_and_alone() -> None:
    queue, batches = outbound(4)
    queue.on_stored(take_all(queue)[0], Offset(0))
    flying = take_all(queue)
    assert queue.on_failed(flying[1], OUT_OF_ORDER, 0.0) == []  # its predecessor may yet arrive
    assert queue.on_failed(flying[2], OUT_OF_ORDER, 0.0) == []
    assert not queue.is_ready(100.0)
    assert queue.on_failed(flying[0], LOST, 0.0) == []
    assert not queue.is_ready(0.5)
    assert take_all(queue, 100.0) == batches[1:2]


def test_out_of_order_with_nothing_before_it_is_the_end() -> None:
    queue, batches = outbound(3)
    queue.on_stored(take_all(queue)[0], Offset(0))
    [second, third] = take_all(queue)
    [end] = queue.on_failed(second, OUT_OF_ORDER, 0.0)
    assert isinstance(end.failure, NotDelivered)
    [end] = queue.on_failed(third, OUT_OF_ORDER, 0.0)
    assert isinstance(end.failure, NotDelivered)
    assert not queue.is_ready(100.0)
    assert batches[0] not in (second, third)


@pytest.mark.parametrize(
    ("earlier", "last", "verdict"),
    [
        (FULL, NO_ROOM, NotDelivered),
        (LOST, NO_ROOM, OutcomeUnknown),
        (ConnectionLost("not sent", was_sent=False), NO_ROOM, NotDelivered),
        (BrokerRefused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), NO_ROOM, OutcomeUnknown),
        (FULL, BrokerRefused(ErrorCode.INVALID_PRODUCER_EPOCH), Fenced),
    ],
)
def test_a_failure_is_definite_only_if_no_attempt_may_have_stored_the_batch(
    earlier: ClientFailure, last: ClientFailure, verdict: type[ClientFailure]
) -> None:
    queue, _ = outbound(2)
    assert queue.on_failed(take_all(queue)[0], earlier, 0.0) == []
    first, second = queue.on_failed(take_all(queue, 100.0)[0], last, 100.0)
    assert isinstance(first.failure, verdict)
    assert isinstance(second.failure, Fenced if verdict is Fenced else NotDelivered)


def test_what_is_given_up_is_not_sent_again() -> None:
    queue, batches = outbound(3)
    [flying] = take_all(queue)
    assert [(one.batch, type(one.failure)) for one in queue.give_up()] == [
        (batches[1], NotDelivered),
        (batches[2], NotDelivered),
    ]
    [end] = queue.on_failed(flying, LOST, 0.0)
    assert isinstance(end.failure, OutcomeUnknown)
    assert queue.is_empty
    with pytest.raises(NotDelivered, match="was given up"):
        queue.check()


def test_when_time_is_up_the_last_failure_counts() -> None:
    queue, batches = outbound(2, give_up_at=10.0)
    [batch] = take_all(queue)
    assert [type(one.failure) for one in queue.on_failed(batch, LOST, 11.0)] == [OutcomeUnknown, NotDelivered]
    queue, batches = outbound(2, give_up_at=10.0)
    assert queue.postpone(FULL, 1.0) == []
    assert [one.batch for one in queue.postpone(FULL, 11.0)] == batches
