"""Apache Kafka's Java client with transactions (it speaks the second protocol), its console, and its tool for them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tools.chaos.client_java import CLASSPATH, JavaClient, compile_client
from tools.chaos.client_port import Settings, TransactionFailed
from tools.chaos.history import Outcome
from tools.chaos.report import lines
from tools.chaos.run import Plan, run
from tools.chaos.workload import SOURCES, Role

from .batches import batch
from .brokers import Broker
from .group_node import committed
from .java import Missing, kafka_libs, run_kafka
from .names import unique
from .raw import FOREVER, Raw
from .raw_transactor import CLASSIC, TRANSACTIONAL, Transactor, stable_end

pytestmark = pytest.mark.peers

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
HOUR_MS = 3_600_000
SEED = int(os.environ.get("OTTLA_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.fixture(autouse=True, scope="module")
def classpath() -> Iterator[None]:
    try:
        libs = kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))
    classes = libs.parent / "chaos"
    classes.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLASSPATH, compile_client(libs, classes))
        yield


Make = Callable[..., JavaClient]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[JavaClient] = []

    def make(broker: Broker, transactional_id: str, group: str = "unused") -> JavaClient:
        made.append(JavaClient(Settings(broker.bootstrap, "java", group, transactional_id=transactional_id)))
        return made[-1]

    yield make
    for client in made:
        client.close()


def send(client: JavaClient, topic: str, *values: bytes) -> None:
    acks = client.send([(f"{topic}/0", value) for value in values])
    assert all(ack.outcome is Outcome.OK for ack in acks), acks


def transact(client: JavaClient, topic: str, *values: bytes, commits: bool = True) -> None:
    client.begin()
    send(client, topic, *values)
    client.end(commits)


def consumed(broker: Broker, topic: str, count: int) -> list[str]:
    """The first so many lines of a console consumer that reads what is committed."""
    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(count))
    isolation = ("--isolation-level", "read_committed", "--timeout-ms", "30000")
    done = run_kafka(CONSUMER, "--bootstrap-server", broker.bootstrap, *place, *isolation)
    return done.stdout.splitlines()


def tool(broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """The table that `kafka-transactions` prints; empty if it has no table to show."""
    done = run_kafka(TRANSACTIONS, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


# --- the client


def test_commits_are_read_and_aborts_are_not(broker: Broker, raw: Raw, make: Make) -> None:
    topic = raw.create()
    client = make(broker, unique())
    transact(client, topic, b"a", b"b")
    transact(client, topic, b"x", commits=False)
    transact(client, topic, b"c")
    assert consumed(broker, topic, 3) == ["a", "b", "c"]


def test_each_transaction_has_an_epoch_of_its_own(broker: Broker, raw: Raw, make: Make) -> None:
    topic, name = raw.create(), unique()
    client = make(broker, name)
    epochs = []
    for commits in (True, False, True):
        transact(client, topic, b"v", commits=commits)
        [row] = tool(broker, "describe", "--transactional-id", name)
        epochs.append(int(row["ProducerEpoch"]))
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


def test_offsets_count_with_the_transaction_and_only_then(broker: Broker, raw: Raw, make: Make) -> None:
    source, target, group = raw.create(), raw.create(), unique("group")
    raw.append(source, b"1", b"2", b"3")
    client, admin = make(broker, unique(), group), AdminClient({"bootstrap.servers": broker.bootstrap})
    client.subscribe([source])
    deadline = time.monotonic() + 30
    while not (received := client.poll(0.5, 10)):
        assert time.monotonic() < deadline
    for commits in (False, True):
        client.begin()
        send(client, target, *(record.data or b"" for record in received))
        client.send_offsets({f"{source}/0": received[-1].offset + 1})
        client.end(commits)
        assert client.committed([f"{source}/0"]) == ({f"{source}/0": 3} if commits else {})
    assert committed(admin, group) == {(source, 0): 3}
    assert consumed(broker, target, 3) == ["1", "2", "3"]


def test_a_second_instance_fences_the_first_and_has_its_transaction_aborted(
    broker: Broker, raw: Raw, make: Make
) -> None:
    topic, name = raw.create(), unique()
    first = make(broker, name)
    first.begin()
    send(first, topic, b"of the first")
    second = make(broker, name)
    with pytest.raises(TransactionFailed):
        first.end(commits=True)
    with pytest.raises(TransactionFailed):
        first.begin()
        assert first.send([(f"{topic}/0", b"too late")])[0].outcome is not Outcome.OK
        first.end(commits=True)
    transact(second, topic, b"of the second")
    assert consumed(broker, topic, 1) == ["of the second"]
    assert stable_end(raw, topic) == raw.list_offset(topic, -1)["offset"]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_transaction_goes_on_over_the_death_of_the_node(
    new_broker: Callable[[], Broker], make: Make, commits: bool
) -> None:
    broker = new_broker()
    with Raw(broker.host, broker.port) as raw:
        topic, source, group = raw.create(), raw.create(), unique("group")
    client = make(broker, unique(), group)
    transact(client, topic, b"before")
    client.begin()
    send(client, topic, b"first half")
    broker.kill()
    broker.start()
    send(client, topic, b"second half")
    client.send_offsets({f"{source}/0": 5})
    broker.kill()
    broker.start()
    client.end(commits)
    transact(client, topic, b"after")
    inside = ["first half", "second half"] if commits else []
    assert consumed(broker, topic, 2 + len(inside)) == ["before", *inside, "after"]
    assert client.committed([f"{source}/0"]) == ({f"{source}/0": 5} if commits else {})


# --- the tool


def test_the_tool_lists_and_describes_transactions_and_producers(broker: Broker, raw: Raw, make: Make) -> None:
    topic, name = raw.create(), unique()
    client = make(broker, name)
    client.begin()
    send(client, topic, b"v")
    [listed] = [row for row in tool(broker, "list") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    [described] = tool(broker, "describe", "--transactional-id", name)
    assert described["TransactionState"] == "Ongoing"
    assert f"{topic}-0" in described.values()
    [producer] = tool(broker, "describe-producers", "--topic", topic, "--partition", "0")
    assert producer["ProducerId"] == listed["ProducerId"] == described["ProducerId"]
    assert producer["CurrentTransactionStartOffset"] == "0"
    client.end(True)
    [described] = tool(broker, "describe", "--transactional-id", name)
    assert described["TransactionState"] == "CompleteCommit"
    [producer] = tool(broker, "describe-producers", "--topic", topic, "--partition", "0")
    assert producer["CurrentTransactionStartOffset"] == "None"


def test_the_tool_terminates_a_transaction_by_its_id(broker: Broker, raw: Raw, make: Make) -> None:
    topic, name = raw.create(), unique()
    client = make(broker, name)
    client.begin()
    send(client, topic, b"v")
    tool(broker, "forceTerminateTransaction", "--transactionalId", name)
    with pytest.raises(TransactionFailed):
        client.end(True)
    assert stable_end(raw, topic) == raw.list_offset(topic, -1)["offset"]


def test_the_tool_finds_a_hanging_transaction_and_aborts_it(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker({"transaction.partition.verification.enable": "false"})
    with Raw(broker.host, broker.port) as raw:
        topic, producer = raw.create(configs=FOREVER), Transactor(raw, CLASSIC)
        stamp = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": 0}
        long_ago = time.time_ns() // 1_000_000 - 2 * HOUR_MS
        hanging = batch(b"v", attributes=TRANSACTIONAL, base_timestamp=long_ago, **stamp)
        data = [{"name": topic, "partition_data": [{"index": 0, "records": hanging}]}]
        fields = {"acks": -1, "timeout": 10_000, "topic_data": data, "transactional_id": producer.id}
        answer = raw.ask("produce", CLASSIC.produce, **fields)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert stable_end(raw, topic) == 0
        found = tool(broker, "find-hanging", "--broker-id", str(raw.node_id))
        assert [(row["Topic"], row["Partition"], row["StartOffset"]) for row in found] == [(topic, "0", "0")]
        tool(broker, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert stable_end(raw, topic) == 2
        assert tool(broker, "find-hanging", "--broker-id", str(raw.node_id)) == []


# --- everything at once


def java(*how: object, **more: object) -> Role:
    return replace(Role("java", *how, **more), is_transactional=True)  # type: ignore[arg-type]


@pytest.mark.timeout(300)
def test_nothing_is_torn_while_everything_breaks_and_what_is_late_arrives_in_the_next_transaction(
    tmp_path: Path,
) -> None:
    cast = (
        java(compression="lz4"),
        java(),
        java(True, "copiers", source=SOURCES[0]),
        java(True, "modern", "consumer", source=SOURCES[2]),
    )
    plan = Plan(SEED, seconds=30, cast=cast, ops_per_second=24, partitions=2)
    outcome = run(replace(plan, fault_every_seconds=3), tmp_path)
    print("\n".join(lines(outcome)))
    assert outcome.verdict.illegal == {}
    assert outcome.troubles == []
    assert outcome.verdict.figures.outcomes["txn"]["ok"] > 50
