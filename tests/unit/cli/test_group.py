"""`ottla group …` against a real node, with real members."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.failure import Misused
from ottla.cli.group_reset import _ago_ms
from ottla.testing import Broker
from tests.unit.cli.conftest import Cli

FIRST_MS = int(time.time() - 86_400) * 1000
RECORDS = 10


@pytest.fixture(scope="module")
def node() -> Iterator[Broker]:
    with Broker({"work": 2, "other": 1}, {"group.initial.rebalance.delay.ms": 0}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            for topic, partition in (("work", 0), ("work", 1), ("other", 0)):
                producer.produce(topic, b"x", partition=partition, timestamp=FIRST_MS + number)
        assert producer.flush(30) == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        [end] = admin.list_offsets({TopicPartition("work", 1): OffsetSpec.latest()}).values()
        assert end.result(30).offset == RECORDS
        yield broker


@pytest.fixture
def cluster(ottla: Cli, node: Broker, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", node.bootstrap)
    return ottla


def commit(node: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values():
        future.result(30)


@contextmanager
def member(node: Broker, group: str, topic: str = "work") -> Iterator[None]:
    """Somebody who works, until the end of the block."""
    assigned, stop = threading.Event(), threading.Event()

    def work() -> None:
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, "client.id": "worker"})
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        while not stop.is_set():
            consumer.poll(0.05)
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert assigned.wait(30)
        yield
    finally:
        stop.set()
        thread.join(30)


def answer(cluster: Cli, *arguments: str) -> Any:
    code, out, err = cluster("group", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_groups_are_listed_by_state_and_type(cluster: Cli, node: Broker) -> None:
    commit(node, "listed", {("work", 0): 1})
    with member(node, "listed-live"):
        states = {one["group"]: (one["type"], one["state"]) for one in answer(cluster, "list")}
        assert states["listed"] == ("classic", "empty")
        assert states["listed-live"] == ("classic", "stable")
        empty = [one["group"] for one in answer(cluster, "list", "--state", "empty", "--type", "classic")]
        assert "listed" in empty and "listed-live" not in empty
        assert answer(cluster, "list", "--type", "consumer") == []
    code, _, err = cluster("group", "list", "--state", "asleep")
    assert code == 2 and "--state takes" in err


def test_members_and_their_assignment_are_shown(cluster: Cli, node: Broker) -> None:
    with member(node, "described"):
        [group] = answer(cluster, "describe", "described")
        assert (group["state"], group["assignor"], group["coordinator"]) == ("stable", "range", node.bootstrap)
        [one] = group["members"]
        assert one["client"] == "worker" and one["host"] == "/127.0.0.1"
        assert one["assignment"] == [{"topic": "work", "partition": 0}, {"topic": "work", "partition": 1}]
        code, out, err = cluster("group", "describe", "described")
        assert (code, err) == (0, "")
        assert out.splitlines()[-1].split("\t")[2:] == ["worker", "/127.0.0.1", "work-0 work-1"]


def test_group_that_is_not_there_is_named(cluster: Cli) -> None:
    for command in ("describe", "lag", "delete"):
        code, out, err = cluster("group", command, "nobody")
        assert (code, out) == (1, "") and "nobody" in err and err.count("\n") == 1


def test_lag_is_the_distance_from_the_committed_offset_to_the_end(cluster: Cli, node: Broker) -> None:
    commit(node, "late", {("work", 0): 3, ("other", 0): RECORDS})
    rows = answer(cluster, "lag", "late")
    assert [(row["topic"], row["partition"], row["committed"], row["end"], row["lag"]) for row in rows] == [
        ("other", 0, 10, 10, 0),
        ("work", 0, 3, 10, 7),
    ]
    assert cluster("group", "lag", "late")[1].splitlines()[-1] == "late\twork\t0\t3\t10\t7\t-"


def test_lag_names_the_member_even_where_nothing_is_committed(cluster: Cli, node: Broker) -> None:
    with member(node, "fresh", "other"):
        [row] = answer(cluster, "lag", "fresh")
        assert row["member"] and (row["committed"], row["lag"]) == (None, None)


def test_lag_of_a_deleted_topic_is_no_failure(cluster: Cli, node: Broker) -> None:
    node.create_topic("brief")
    commit(node, "leftover", {("brief", 0): 0, ("other", 0): 4})
    assert cluster("topic", "delete", "brief")[0] == 0
    assert [row["lag"] for row in answer(cluster, "lag", "leftover") if row["topic"] == "other"] == [6]


RESETS = {
    "--to-earliest": 0,
    "--to-latest": 10,
    "--to-offset 4": 4,
    "--to-offset 99": 10,
    "--shift-by 2": 7,
    "--shift-by -2": 3,
    "--shift-by -9": 0,
    "--to-datetime FIRST+6": 6,
    "--to-datetime FIRST+60": 10,
    "--to-datetime 2026-01-31T12:00:00Z": 0,
    "--by-duration 1d12h": 0,
    "--by-duration PT1H": 10,
}


@pytest.mark.parametrize("option", RESETS)
def test_reset_shows_first_and_moves_when_told_to(cluster: Cli, node: Broker, option: str) -> None:
    group = f"reset {option}"
    commit(node, group, {("work", 1): 5, ("other", 0): 5})
    words = [str(FIRST_MS + int(word[6:])) if word.startswith("FIRST+") else word for word in option.split()]
    arguments = ("reset", group, "--topic", "work:1", *words)
    planned = answer(cluster, *arguments)
    move = {"topic": "work", "partition": 1, "from": 5, "to": RESETS[option]}
    assert planned == {"group": group, "executed": False, "partitions": [move]}
    assert {row["committed"] for row in answer(cluster, "lag", group)} == {5}
    assert answer(cluster, *arguments, "--execute") == {**planned, "executed": True}
    after = {(row["topic"], row["partition"]): row["committed"] for row in answer(cluster, "lag", group)}
    assert after == {("work", 1): RESETS[option], ("other", 0): 5}


def test_reset_of_all_topics_moves_what_the_group_has(cluster: Cli, node: Broker) -> None:
    commit(node, "everything", {("work", 1): 5, ("other", 0): 5})
    moved = answer(cluster, "reset", "everything", "--all-topics", "--to-earliest", "--execute")
    assert [(one["topic"], one["partition"], one["to"]) for one in moved["partitions"]] == [
        ("other", 0, 0),
        ("work", 1, 0),
    ]


def test_group_can_be_set_up_before_it_begins(cluster: Cli) -> None:
    moved = answer(cluster, "reset", "unborn", "--topic", "work", "--to-latest", "--execute")
    assert [(one["partition"], one["from"], one["to"]) for one in moved["partitions"]] == [(0, None, 10), (1, None, 10)]
    assert [row["committed"] for row in answer(cluster, "lag", "unborn")] == [10, 10]


def test_dry_run_says_so(cluster: Cli, node: Broker) -> None:
    commit(node, "dry", {("work", 0): 5})
    code, out, err = cluster("group", "reset", "dry", "--all-topics", "--to-earliest")
    assert (code, out) == (0, "TOPIC\tPARTITION\tFROM\tTO\nwork\t0\t5\t0\n")
    assert err == "nothing has changed yet; --execute moves 1 partition\n"


def test_group_with_members_is_neither_reset_nor_deleted(cluster: Cli, node: Broker) -> None:
    with member(node, "busy"):
        for extra in ((), ("--execute",)):
            code, out, err = cluster("group", "reset", "busy", "--topic", "work", "--to-earliest", *extra)
            assert (code, out) == (1, "")
            assert err == "ottla: busy has 1 member; offsets can be moved when they have stopped\n"
        code, _, err = cluster("group", "delete", "busy")
        assert code == 1 and "NON_EMPTY_GROUP" in err


def test_groups_are_deleted_although_one_is_not_there(cluster: Cli, node: Broker) -> None:
    commit(node, "old", {("work", 0): 5})
    code, out, err = cluster("group", "delete", "old", "never-was", "--yes")
    assert (code, out) == (1, "old deleted\n") and err.startswith("ottla: never-was: GROUP_ID_NOT_FOUND")
    assert "old" not in [one["group"] for one in answer(cluster, "list")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to-earliest",),
        ("--to-earliest", "--topic", "work", "--all-topics"),
        ("--topic", "work"),
        ("--topic", "work", "--to-earliest", "--to-latest"),
        ("--topic", "work:a", "--to-earliest"),
        ("--topic", "work", "--by-duration", "soon"),
        ("--topic", "work", "--to-datetime", "soon"),
    ],
)
def test_reset_that_makes_no_sense_is_misuse(cluster: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cluster("group", "reset", "any", *arguments)
    assert (code, out) == (2, "") and err.startswith("ottla: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--topic", "nowhere", "--to-earliest"), "there is no nowhere"),
        (("--topic", "work:1,7", "--to-earliest"), "there is no work-7"),
        (("--topic", "work", "--shift-by", "1"), "any has no offset to shift in work-0, work-1"),
        (("--all-topics", "--to-earliest"), "any has no offsets"),
    ],
)
def test_reset_that_cannot_be_is_explained(cluster: Cli, arguments: tuple[str, ...], why: str) -> None:
    assert cluster("group", "reset", "any", *arguments) == (1, "", f"ottla: {why}\n")


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "5x", "1h1d", "-1h"])
def test_duration_that_is_none_is_misuse(text: str) -> None:
    with pytest.raises(Misused):
        _ago_ms(text)


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("1d12h", 129_600), ("PT1H30M", 5400), ("P1W", 604_800)])
def test_duration_is_counted_back_from_now(text: str, seconds: int) -> None:
    now = _ago_ms("0s")
    assert 0 <= _ago_ms(text) - (now - seconds * 1000) < 60_000
