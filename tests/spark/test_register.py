"""Words under names: the last one is found, behind open transactions too, and of two writers the later one writes."""

import threading
import zlib

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


def test_who_knows_what_was_written_is_told_only_what_came_since(register: Register) -> None:
    connections.run(write(register, b"a", b"a1"))
    content, known_to = connections.run(register.look(b"a"))
    assert content == b"a1"
    assert connections.run(register.look(b"a", known_to)) == (None, known_to)
    connections.run(write(register, b"a", b"a2"))
    content, later = connections.run(register.look(b"a", known_to))
    assert content == b"a2"
    assert later > known_to


def test_what_is_known_of_another_life_of_the_topic_is_not_believed(register: Register) -> None:
    """Its end lies before what is known: it was deleted, and made anew."""
    connections.run(write(register, b"a", b"a1"))
    known_to = connections.run(register.look(b"a")).known_to
    assert connections.run(register.look(b"a", known_to + 100)) == (b"a1", known_to)


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


def test_what_was_cut_off_the_log_is_not_missed(
    register: Register, node: Broker, request: pytest.FixtureRequest
) -> None:
    connections.run(write(register, b"a", b"a1", b"a2", b"a3"))
    known_to = connections.run(register.look(b"a")).known_to
    connections.run(write(register, b"a", b"a4"))
    topic = Topic(node.bootstrap, f"register-{request.node.name}")
    topic.delete_records({zlib.crc32(b"a") % 8: known_to})
    assert connections.run(register.look(b"a", 0)).content == b"a4"
