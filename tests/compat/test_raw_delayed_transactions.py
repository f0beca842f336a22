"""A request of a transaction that arrives after that transaction has ended, while the next one is open.

It was held on its way; its producer had sent it again on another connection, or had given it up. The second protocol
fences it by its epoch. In the classic one it counts for the next transaction: those tests say what Apache Kafka does,
and so do we. That is why the second one exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tools.chaos.proxy import Network

from .brokers import Broker, free_port
from .raw import Raw
from .raw_transactor import CLASSIC, SECOND, Request, Transactor, committed_offset, stable_end
from .wire import Wire

INVALID_EPOCH, FENCED, ABORTABLE = 47, 90, 120
SECONDS_MAX = 20


class Held:
    """A request that is on its way, and stays there until it is let go."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self._network = Network()
        self._request = request
        port = free_port()
        self._link = self._network.add_link(port, broker.port)
        self._wire = Wire("127.0.0.1", port)
        self._wire.ask("api_versions", 0)  # the way is whole until now
        self._network.hold(self._link)
        request.send(self._wire)

    def arrive(self) -> int:
        """The error code that it is answered with."""
        self._network.heal(self._link)
        return self._request.code(self._wire.receive(self._request.api, self._request.version))

    def close(self) -> None:
        self._wire.socket.close()
        self._network.close()


Hold = Callable[[Request], Held]


@pytest.fixture
def hold(broker: Broker) -> Iterator[Hold]:
    made: list[Held] = []

    def make(request: Request) -> Held:
        made.append(Held(broker, request))
        return made[-1]

    yield make
    for held in made:
        held.close()


def visible(broker: Broker, topic: str) -> list[bytes]:
    """To readers of committed data, up to the end, once no transaction is open."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        if message is not None:
            values.append(message.value())
    consumer.close()
    return values


# --- the second protocol


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_late_end_is_fenced_and_the_open_transaction_stays_open(raw: Raw, hold: Hold, committed: bool) -> None:
    topic, producer = raw.create(), Transactor(raw, SECOND)
    producer.write(topic, b"one")
    late = hold(producer.end(committed))
    producer.finish(committed)
    producer.write(topic, b"two")
    opened = stable_end(raw, topic)
    assert opened == 2
    assert late.arrive() == FENCED
    assert stable_end(raw, topic) == opened
    assert producer.do(producer.produce(topic, b"three")) == 0


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_the_next_transaction_ends_as_its_producer_says_whatever_arrives_late(
    raw: Raw, broker: Broker, hold: Hold, committed: bool
) -> None:
    topic, producer = raw.create(), Transactor(raw, SECOND)
    producer.write(topic, b"one")
    late = hold(producer.end(not committed))
    producer.finish(not committed)
    producer.write(topic, b"two")
    assert late.arrive() == FENCED
    producer.finish(committed)
    producer.write(topic, b"three")
    producer.finish(True)
    assert visible(broker, topic) == [b"two" if committed else b"one", b"three"]


def test_a_late_end_is_answered_like_the_first_while_nothing_new_has_begun(raw: Raw, hold: Hold) -> None:
    topic, producer = raw.create(), Transactor(raw, SECOND)
    producer.write(topic, b"one")
    late = hold(producer.end(True))
    producer.finish(True)
    producer.do(producer.join(topic))  # waits until the markers stand; a joined partition does not hurt
    assert late.arrive() in (0, FENCED)


def test_a_late_batch_is_fenced_whether_its_partition_is_part_of_the_next_transaction_or_not(
    raw: Raw, broker: Broker, hold: Hold
) -> None:
    joined, apart, producer = raw.create(), raw.create(), Transactor(raw, SECOND)
    producer.write(joined, b"one")
    late_in_joined = hold(producer.produce(joined, b"late"))
    late_apart = hold(producer.produce(apart, b"late"))
    producer.finish(False)
    producer.write(joined, b"two")
    assert late_in_joined.arrive() == INVALID_EPOCH
    assert late_apart.arrive() == INVALID_EPOCH
    producer.finish(True)
    assert visible(broker, joined) == [b"two"]
    assert raw.list_offset(apart, -1)["offset"] == 0


def test_a_late_joining_of_a_partition_is_fenced(raw: Raw, hold: Hold) -> None:
    topic, apart, producer = raw.create(), raw.create(), Transactor(raw, SECOND)
    producer.write(topic, b"one")
    late = hold(producer.join(apart))
    producer.finish(True)
    producer.write(topic, b"two")
    assert late.arrive() == FENCED
    producer.finish(True)
    assert raw.list_offset(apart, -1)["offset"] == 0, "there is a marker in it"


def test_late_offsets_are_fenced(raw: Raw, hold: Hold) -> None:
    topic, group, producer = raw.create(), raw.name("group"), Transactor(raw, SECOND)
    producer.write(topic, b"one")
    late = hold(producer.offsets(group, topic, 5))
    producer.finish(False)
    producer.send_offset(group, topic, 7)
    assert late.arrive() == INVALID_EPOCH
    producer.finish(True)
    assert committed_offset(raw, group, topic) == 7


# --- the classic protocol: what it cannot tell apart


def test_classic_a_late_commit_ends_the_next_transaction_against_its_producers_will(
    raw: Raw, broker: Broker, hold: Hold
) -> None:
    topic, other, producer = raw.create(), raw.create(), Transactor(raw, CLASSIC)
    producer.write(topic, b"one")
    late = hold(producer.end(True))
    producer.finish(True)
    producer.write(topic, b"two")
    assert late.arrive() == 0
    producer.write(other, b"three")  # the rest of the same transaction, as the producer sees it
    producer.finish(False)
    assert visible(broker, topic) == [b"one", b"two"], "half of it is committed"
    assert visible(broker, other) == [], "and half of it aborted"


def test_classic_a_late_batch_becomes_part_of_the_next_transaction(raw: Raw, broker: Broker, hold: Hold) -> None:
    topic, other, producer = raw.create(), raw.create(), Transactor(raw, CLASSIC)
    producer.write(other, b"one")
    assert producer.do(producer.join(topic)) == 0
    late = hold(producer.produce(topic, b"late"))
    producer.finish(False)
    assert producer.do(producer.join(topic)) == 0
    assert late.arrive() == 0
    producer.finish(True)
    assert visible(broker, topic) == [b"late"], "aborted, and committed all the same"


def test_classic_a_late_batch_is_refused_where_its_partition_is_no_part_of_the_next_transaction(
    raw: Raw, hold: Hold
) -> None:
    topic, other, producer = raw.create(), raw.create(), Transactor(raw, CLASSIC)
    producer.write(other, b"one")
    assert producer.do(producer.join(topic)) == 0
    late = hold(producer.produce(topic, b"late"))
    producer.finish(False)
    producer.write(other, b"two")
    assert late.arrive() == ABORTABLE
    producer.finish(True)
    assert stable_end(raw, topic) == raw.list_offset(topic, -1)["offset"], "nothing hangs"


def test_classic_late_offsets_replace_those_of_the_next_transaction(raw: Raw, hold: Hold) -> None:
    topic, group, producer = raw.create(), raw.name("group"), Transactor(raw, CLASSIC)
    assert producer.do(producer.join_group(group)) == 0
    late = hold(producer.offsets(group, topic, 5))
    producer.finish(False)
    producer.send_offset(group, topic, 7)
    assert late.arrive() == 0
    producer.finish(True)
    assert committed_offset(raw, group, topic) == 5
