"""Words under names: the last one is found, behind open transactions too, and of two writers the later one writes."""

import threading

import pytest

from ottla.client.failures import Fenced
from ottla.spark import connections
from ottla.spark.register import Register
from ottla.testing import Broker
from tests.spark.topics import Topic


@pytest.fixture
def register(node: Broker, request: pytest.FixtureRequest) -> Register:
    cluster = connections.cluster_at({"bootstrap.servers": node.bootstrap})
    return Register(cluster, f"register-{request.node.name}")


async def write(register: Register, name: bytes, *contents: bytes) -> None:
    for content in contents:
        async with register.pen(name, f"pen-{name.decode()}") as pen:
            await pen.write(content)


def test_the_last_word_under_a_name_is_found(register: Register) -> None:
    assert connections.run(register.last(b"a")) is None
    for name in (b"a", b"b"):
        connections.run(write(register, name, name + b"1", name + b"2"))
    assert [connections.run(register.last(name)) for name in (b"a", b"b", b"c")] == [b"a2", b"b2", None]


def test_of_two_writers_the_later_one_writes(register: Register) -> None:
    async def race() -> None:
        async with register.pen(b"a", "pen") as first, register.pen(b"a", "pen") as second:
            await second.write(b"second")
            await first.write(b"first")

    with pytest.raises(Fenced):
        connections.run(race())
    assert connections.run(register.last(b"a")) == b"second"


def test_a_word_behind_the_open_transaction_of_another_is_found(node: Broker, request: pytest.FixtureRequest) -> None:
    """Names share partitions. Not to see it would be to take what was decided for undecided."""
    topic = Topic(node.bootstrap, f"register-{request.node.name}"[:100])
    register = Register(connections.cluster_at({"bootstrap.servers": node.bootstrap}), topic.name)
    connections.run(write(register, b"a", b"old"))
    other = topic.producer(transactional_id="another-query")
    other.init_transactions(10)
    other.begin_transaction()
    for partition in range(8):
        other.produce(topic.name, b"its", b"b", partition)
    other.flush()
    connections.run(write(register, b"a", b"new"))
    threading.Timer(0.5, other.commit_transaction, [10]).start()
    assert connections.run(register.last(b"a")) == b"new"
