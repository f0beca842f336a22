"""`ottla txn …` against a real node, with producers that leave their transactions open."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.base.errors import ErrorCode
from ottla.cli.failure import Failed, Misused
from ottla.cli.times import duration_text, parse_duration
from ottla.client.versions import INTRODUCTION
from ottla.testing import Broker
from tests.unit.cli.conftest import Cli
from tests.unit.cli.raw_producer import RawProducer

SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": 3_600_000,
    # Lets a producer write without its coordinator's knowledge: so it was in Kafka before KIP-890.
    "transaction.partition.verification.enable": "false",
}
TOPICS = {"orders": 2, "bills": 1}


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker(TOPICS, SETTINGS) as broker:
        yield broker


@pytest.fixture
def cluster(ottla: Cli, node: Broker, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", node.bootstrap)
    return ottla


def producer_of(node: Broker, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": transactional_id, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def left_open(node: Broker, transactional_id: str, topic: str = "orders", value: bytes = b"x") -> Producer:
    producer = producer_of(node, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    return producer


def answer(cluster: Cli, *arguments: str) -> Any:
    code, out, err = cluster("txn", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def read_committed(bootstrap: str, topic: str = "orders", partition: int = 0) -> list[bytes]:
    """All that readers of committed data see up to the first transaction that is open."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        seen: list[bytes] = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                seen.append(message.value() or b"")
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return seen
        raise AssertionError(f"no end in sight after {seen}")


# list


def test_transactions_are_listed_with_their_states_and_producers(cluster: Cli, node: Broker) -> None:
    assert answer(cluster, "list") == []
    open_one = left_open(node, "a-open")
    done = left_open(node, "b-done")
    done.commit_transaction(30)
    producer_of(node, "c-idle")
    rows = {row["id"]: row for row in answer(cluster, "list")}
    assert {name: row["state"] for name, row in rows.items()} == {
        "a-open": "ongoing",
        "b-done": "complete-commit",
        "c-idle": "empty",
    }
    assert len({row["producer_id"] for row in rows.values()}) == 3
    assert {row["coordinator"] for row in rows.values()} == {node.bootstrap}
    assert 0 <= rows["a-open"]["age_ms"] < 60_000
    assert rows["b-done"]["age_ms"] is rows["c-idle"]["age_ms"] is None
    header, first, *_ = cluster("txn", "list")[1].splitlines()
    assert header.split("\t") == ["ID", "STATE", "PRODUCER", "EPOCH", "COORDINATOR", "AGE"]
    assert first.split("\t")[:2] == ["a-open", "ongoing"]
    open_one.abort_transaction(30)


def test_the_list_is_filtered(cluster: Cli, node: Broker) -> None:
    holders = [left_open(node, "billing-1"), left_open(node, "billing-2"), left_open(node, "shipping")]
    holders[1].commit_transaction(30)
    by_id = {row["id"]: row["producer_id"] for row in answer(cluster, "list")}

    def ids(*options: str) -> list[str]:
        return [row["id"] for row in answer(cluster, "list", *options)]

    assert ids("--state", "ongoing") == ["billing-1", "shipping"]
    assert ids("--state", "ongoing", "--state", "Complete-Commit") == ["billing-1", "billing-2", "shipping"]
    assert ids("--state", "ongoing", "--pattern", "billing-.*") == ["billing-1"]
    assert ids("--pattern", "billing") == []
    assert ids("--producer-id", str(by_id["shipping"])) == ["shipping"]
    assert ids("--longer-than", "1h") == []
    assert ids("--longer-than", "0s", "--state", "ongoing") == ["billing-1", "shipping"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("list", "--state", "asleep"), "--state takes empty, ongoing"),
        (("list", "--longer-than", "soon"), "--longer-than takes a time such as 90m"),
        (("list", "--topic", "orders"), "--topic goes with --hanging"),
        (("list", "--hanging", "--pattern", "x"), "--hanging goes with"),
        (("describe",), "give transactional ids or --producers"),
        (("describe", "x", "--producers", "orders"), "give transactional ids or --producers"),
        (("describe", "--producers", "orders:x"), "--producers takes TOPIC or TOPIC:0,1,2"),
        (("abort",), "give an ID, or --partition"),
        (("abort", "--partition", "orders:0"), "give an ID, or --partition"),
        (("abort", "x", "--start-offset", "1"), "give an ID, or --partition"),
        (("abort", "--partition", "orders", "--start-offset", "1"), "--partition takes TOPIC:P"),
        (("describe", ""), "a transactional id is not empty"),
    ],
)
def test_what_makes_no_sense_is_misuse(ottla: Cli, node: Broker, arguments: tuple[str, ...], complaint: str) -> None:
    code, out, err = ottla("txn", *arguments, "-b", node.bootstrap)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("describe", "nobody"), "nobody: TRANSACTIONAL_ID_NOT_FOUND"),
        (("commit", "nobody"), "nobody: TRANSACTIONAL_ID_NOT_FOUND"),
        (("abort", "nobody"), "nobody: TRANSACTIONAL_ID_NOT_FOUND"),
        (("describe", "--producers", "elsewhere"), "there is no elsewhere"),
        (("list", "--hanging", "--topic", "orders:7"), "there is no orders-7"),
        (("list", "--pattern", "("), "INVALID_REGULAR_EXPRESSION"),
        (("abort", "--partition", "orders:0", "--start-offset", "0"), "no open transaction begins at offset 0"),
        (("abort", "--partition", "orders:9", "--start-offset", "0"), "there is no orders-9"),
    ],
)
def test_what_is_not_there_is_named(cluster: Cli, arguments: tuple[str, ...], complaint: str) -> None:
    code, out, err = cluster("txn", *arguments)
    assert (code, out) == (1, "") and complaint in err and err.count("\n") == 1


# describe


def test_a_transaction_is_described_with_the_partitions_it_has_written_to(cluster: Cli, node: Broker) -> None:
    producer = left_open(node, "mine")
    producer.produce("bills", b"y")
    producer.flush(30)
    [one] = answer(cluster, "describe", "mine")
    assert one["partitions"] == [{"topic": "bills", "partition": 0}, {"topic": "orders", "partition": 0}]
    assert (one["state"], one["timeout_ms"], one["producer_epoch"]) == ("ongoing", 60_000, 0)
    assert abs(one["started_ms"] - time.time() * 1000) < 60_000
    code, out, err = cluster("txn", "describe", "mine", "mine")
    assert (code, err) == (0, "")
    head, identity, *table = out.splitlines()
    assert head == f"mine  ongoing  coordinator {node.bootstrap}"
    assert identity.startswith(f"producer {one['producer_id']}, epoch 0; timeout 1m; began 20")
    assert table == ["TOPIC\tPARTITION", "bills\t0", "orders\t0"]


def test_producers_of_a_partition_are_shown_with_their_open_transactions(cluster: Cli, node: Broker) -> None:
    done = left_open(node, "done")
    done.commit_transaction(30)
    still_open = left_open(node, "open")
    first, second = answer(cluster, "describe", "--producers", "orders:0")
    assert (first["open_since_offset"], second["open_since_offset"]) == (None, 2)
    assert (first["last_sequence"], second["last_sequence"], first["coordinator_epoch"]) == (0, 0, 0)
    assert answer(cluster, "describe", "--producers", "orders:1") == []
    assert cluster("txn", "describe", "--producers", "orders")[1].splitlines()[2].split("\t")[-2:] == ["-", "2"]
    still_open.abort_transaction(30)


# abort


def test_an_open_transaction_is_aborted_and_its_producer_fenced(cluster: Cli, node: Broker) -> None:
    abandoned = left_open(node, "dead", value=b"never")
    later = Producer({"bootstrap.servers": node.bootstrap})
    later.produce("orders", b"behind it", partition=0)
    assert later.flush(30) == 0
    assert read_committed(node.bootstrap) == []
    assert cluster("txn", "abort", "dead", "--yes") == (0, "dead aborted in 1 partition (orders-0)\n", "")
    assert read_committed(node.bootstrap) == [b"behind it"]
    [one] = answer(cluster, "describe", "dead")
    assert one["state"] == "complete-abort"
    with pytest.raises(Exception, match=r"fenced|epoch"):
        abandoned.commit_transaction(30)
    assert cluster("txn", "abort", "dead", "--yes")[0] == 1


def test_committing_for_a_producer_that_is_not_prepared_is_refused(cluster: Cli, node: Broker) -> None:
    producer = left_open(node, "mine", value=b"whole")
    code, out, err = cluster("txn", "commit", "mine", "--yes")
    assert (code, out) == (1, "") and "no two-phase transaction" in err
    producer.commit_transaction(30)
    assert read_committed(node.bootstrap) == [b"whole"]
    assert "no open transaction: its state is complete-commit" in cluster("txn", "commit", "mine", "--yes")[2]


# two-phase commit (KIP-939)


def test_a_prepared_transaction_survives_a_restart_and_is_committed(
    ottla: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(TOPICS, SETTINGS, tmp_path) as node, RawProducer(node.bootstrap, "prepared") as producer:
        producer.init(two_phase=True)
        assert producer.write(("orders", 0), b"a", b"b") == producer.write(("bills", 0), b"c") == 0
    with Broker({}, SETTINGS, tmp_path) as node:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", node.bootstrap)
        [one] = answer(ottla, "describe", "prepared")
        assert (one["state"], one["timeout_ms"]) == ("ongoing", None)
        assert "timeout none (two-phase commit)" in ottla("txn", "describe", "prepared")[1]
        assert read_committed(node.bootstrap) == []
        told = ottla("txn", "commit", "prepared", "--yes")
        assert told == (0, "prepared committed in 2 partitions (bills-0 orders-0)\n", "")
        assert read_committed(node.bootstrap) == [b"a", b"b"]
        assert read_committed(node.bootstrap, "bills") == [b"c"]
        with RawProducer(node.bootstrap, "prepared") as zombie:
            zombie.producer_id, zombie.epoch = producer.producer_id, producer.epoch
            assert zombie.end(committed=False) != 0
            assert zombie.write(("orders", 0), b"late") != 0


def test_only_a_prepared_transaction_outlives_its_timeout(cluster: Cli, node: Broker) -> None:
    with RawProducer(node.bootstrap, "prepared") as prepared, RawProducer(node.bootstrap, "forgotten") as forgotten:
        assert prepared.init(two_phase=True, timeout_ms=1).write(("orders", 0), b"a") == 0
        assert forgotten.init(timeout_ms=200).write(("orders", 1), b"b") == 0
    wait_until_ended(cluster, "forgotten")
    states = {row["id"]: row["state"] for row in answer(cluster, "list")}
    assert states == {"forgotten": "complete-abort", "prepared": "ongoing"}


def test_a_prepared_transaction_is_aborted(cluster: Cli, node: Broker) -> None:
    with RawProducer(node.bootstrap, "prepared") as producer:
        producer.init(two_phase=True)
        assert producer.write(("orders", 0), b"a") == 0
        assert cluster("txn", "abort", "prepared", "--yes")[0] == 0
        assert read_committed(node.bootstrap) == []
        assert producer.end(committed=True) != 0
        assert [row["state"] for row in answer(cluster, "list")] == ["complete-abort"]


def test_a_producer_that_comes_back_after_the_verdict_goes_on(cluster: Cli, node: Broker) -> None:
    with RawProducer(node.bootstrap, "prepared") as producer:
        producer.init(two_phase=True)
        producer.write(("orders", 0), b"first")
        assert cluster("txn", "commit", "prepared", "--yes")[0] == 0
    with RawProducer(node.bootstrap, "prepared") as successor:
        successor.init(two_phase=True)
        assert successor.write(("orders", 0), b"second") == 0
        assert successor.end(committed=True) == 0
        wait_until_ended(cluster, "prepared")
    assert read_committed(node.bootstrap) == [b"first", b"second"]


def test_two_phase_commit_that_the_cluster_does_not_serve_is_refused_by_name(
    cluster: Cli, node: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawProducer(node.bootstrap, "prepared") as producer:
        producer.init(two_phase=True).write(("orders", 0), b"a")
    # Foreign clients are told what Kafka tells them, and that is version 5.
    monkeypatch.setattr(INTRODUCTION, "client_software_name", "stranger")
    code, out, err = cluster("txn", "commit", "prepared", "--yes")
    assert (code, out, err) == (1, "", f"ottla: {node.bootstrap} does not serve init_producer_id in version 6\n")
    assert answer(cluster, "describe", "prepared")[0]["state"] == "ongoing"


def test_two_phase_commit_that_is_switched_off_is_refused(ottla_broker: Broker) -> None:
    refusal = pytest.raises(Failed, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with RawProducer(ottla_broker.bootstrap, "hopeful") as producer, refusal:
        producer.init(two_phase=True)


def wait_until_ended(cluster: Cli, transactional_id: str) -> None:
    deadline = time.monotonic() + 30
    while not answer(cluster, "describe", transactional_id)[0]["state"].startswith("complete"):
        assert time.monotonic() < deadline


# hanging transactions


def test_hanging_transactions_are_found_and_ended(cluster: Cli, node: Broker) -> None:
    sound = left_open(node, "sound")
    with RawProducer(node.bootstrap, "hanging") as producer:
        producer.init()
        assert producer.write(("orders", 1), b"lost", is_classic=True) == 0
    later = Producer({"bootstrap.servers": node.bootstrap})
    later.produce("orders", b"behind it", partition=1)
    assert later.flush(30) == 0
    assert read_committed(node.bootstrap, partition=1) == []
    [one] = answer(cluster, "list", "--hanging")
    assert (one["topic"], one["partition"], one["open_since_offset"]) == ("orders", 1, 0)
    assert one["producer_id"] == producer.producer_id
    assert answer(cluster, "list", "--hanging", "--topic", "orders:0", "--topic", "bills") == []
    assert answer(cluster, "list", "--hanging", "--longer-than", "1h") == []
    hint = "ottla txn abort --partition orders:1 --start-offset 0"
    assert hint in cluster("txn", "list", "--hanging")[2]
    told = cluster(*hint.split()[1:], "--yes")
    assert told[0] == 0 and told[1].endswith("at offset 0 of orders-1 aborted\n")
    assert read_committed(node.bootstrap, partition=1) == [b"behind it"]
    assert answer(cluster, "list", "--hanging") == []
    sound.abort_transaction(30)


def test_offsets_that_hang_are_found_and_given_up(cluster: Cli, node: Broker) -> None:
    with RawProducer(node.bootstrap, "hanging") as producer:
        producer.init()
        assert producer.send_offset("workers", ("orders", 0), 7) == 0
    with closing(Consumer({"bootstrap.servers": node.bootstrap, "group.id": "workers"})) as consumer:
        with pytest.raises(KafkaException):
            consumer.committed([TopicPartition("orders", 0)], timeout=1)
        [one] = answer(cluster, "list", "--hanging")
        assert (one["topic"], one["open_since_offset"]) == ("__consumer_offsets", 0)
        where = f"__consumer_offsets:{one['partition']}"
        assert cluster("txn", "abort", "--partition", where, "--start-offset", "0", "--yes")[0] == 0
        assert consumer.committed([TopicPartition("orders", 0)], timeout=30)[0].offset < 0


def test_a_transaction_that_somebody_will_end_is_not_torn_away(cluster: Cli, node: Broker) -> None:
    sound = left_open(node, "sound", value=b"whole")
    code, out, err = cluster("txn", "abort", "--partition", "orders:0", "--start-offset", "0")
    assert (code, out) == (1, "") and "does not hang: it is that of sound, in state ongoing" in err
    sound.commit_transaction(30)
    assert read_committed(node.bootstrap) == [b"whole"]


def test_verification_keeps_transactions_from_hanging(ottla_broker: Broker, ottla_topic: str) -> None:
    with RawProducer(ottla_broker.bootstrap, "unverified") as producer:
        producer.init()
        code = producer.write((ottla_topic, 0), b"lost", is_classic=True)
    assert code == ErrorCode.TRANSACTION_ABORTABLE


# the brokers that are asked


def test_a_broker_that_does_not_serve_transactions_says_so(ottla: Cli, mock_cluster: str) -> None:
    code, out, err = ottla("txn", "list", "-b", mock_cluster)
    assert (code, out, err) == (1, "", f"ottla: {mock_cluster} does not serve list_transactions\n")


def test_the_next_broker_is_asked_when_the_first_is_away(ottla: Cli, node: Broker) -> None:
    assert ottla("txn", "list", "-b", f"127.0.0.1:1,{node.bootstrap}", "--json") == (0, "[]\n", "")
    code, out, err = ottla("txn", "list", "-b", "127.0.0.1:1,127.0.0.1:2")
    assert (code, out) == (1, "") and "127.0.0.1:1" in err and "127.0.0.1:2" in err and err.count("\n") == 1


def test_an_address_without_a_port_is_refused(ottla: Cli) -> None:
    assert ottla("txn", "list", "-b", "localhost") == (1, "", "ottla: 'localhost' is not HOST:PORT\n")


# durations


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0s"), (999, "0s"), (61_000, "1m1s"), (3_600_000, "1h"), (90_061_000, "1d1h"), (-5, "0s")]
)
def test_durations_are_told_by_their_two_largest_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_a_duration_that_is_told_can_be_typed() -> None:
    assert parse_duration(duration_text(5_400_000), "--longer-than") == 5_400_000
    with pytest.raises(Misused, match="--longer-than takes"):
        parse_duration("5 minutes", "--longer-than")
