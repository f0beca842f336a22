"""`ottla dlq …` against a real node: dead letters as a pipeline leaves them, and their way back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker
from tests.unit.cli.conftest import Cli


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker({"orders": 1, "clicks": 1, "orders.dlq": 2, "empty.dlq": 1}) as broker:
        yield broker


@pytest.fixture
def cluster(ottla: Cli, node: Broker, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", node.bootstrap)
    return ottla


def leave(
    node: Broker, number: int, error: str = "no JSON", came: str | None = "orders", topic: str = "orders.dlq"
) -> None:
    story = {"error": error, "topic": came, "partition": "0", "offset": str(number), "timestamp": "1700000000000"}
    headers: list[Any] = [("own", b"h")]
    headers += [(f"ottla.dlq.{name}", text.encode()) for name, text in story.items() if text is not None]
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, f"value {number}".encode(), f"k{number}".encode(), partition=number % 2, headers=headers)
    assert producer.flush(30) == 0


def records(cluster: Cli, topic: str) -> list[dict[str, Any]]:
    code, out, _ = cluster("consume", topic, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_letters_are_listed_and_shown_with_their_story(cluster: Cli, node: Broker) -> None:
    leave(node, 0)
    leave(node, 1, "id is missing")
    code, out, _ = cluster("dlq", "list", "--json")
    assert code == 0 and json.loads(out) == [
        {"topic": "empty.dlq", "offsets": 0, "not_replayed": 0},
        {"topic": "orders.dlq", "offsets": 2, "not_replayed": 2},
    ]
    code, out, _ = cluster("dlq", "show", "orders.dlq")
    assert code == 0 and sorted(out.splitlines()[1:]) == [
        "0@0\torders-0@0\t2023-11-14T22:13:20.000Z\tno JSON\tk0\tvalue 0",
        "1@0\torders-0@1\t2023-11-14T22:13:20.000Z\tid is missing\tk1\tvalue 1",
    ]
    [shown] = json.loads(cluster("dlq", "show", "orders.dlq:1", "--json")[1])
    assert (shown["error"], shown["key"], shown["headers"]) == ("id is missing", "k1", [{"name": "own", "value": "h"}])


def test_errors_are_counted_and_picked(cluster: Cli, node: Broker) -> None:
    for number in range(3):
        leave(node, number, "no JSON" if number else "id is missing")
    rows = json.loads(cluster("dlq", "show", "orders.dlq", "--summary", "--json")[1])
    assert rows == [
        {"count": 2, "topic": "orders", "error": "no JSON"},
        {"count": 1, "topic": "orders", "error": "id is missing"},
    ]
    assert len(json.loads(cluster("dlq", "show", "orders.dlq", "--error", "missing", "--json")[1])) == 1
    assert len(json.loads(cluster("dlq", "show", "orders.dlq", "-n", "2", "--json")[1])) == 2


def test_a_replay_sends_each_letter_home_once_and_as_it_was(cluster: Cli, node: Broker) -> None:
    leave(node, 0)
    leave(node, 1, came="clicks")
    code, out, err = cluster("dlq", "replay", "orders.dlq", "--yes")
    assert (code, err) == (0, "") and "1 record to orders" in out and "1 record to clicks" in out
    assert cluster("dlq", "replay", "orders.dlq", "--yes")[1] == "orders.dlq: nothing to replay\n"
    leave(node, 2)
    assert json.loads(cluster("dlq", "replay", "orders.dlq", "--yes", "--json")[1]) == {"orders": 1}
    found = records(cluster, "orders")
    assert [(record["key"], record["value"]) for record in found] == [("k0", "value 0"), ("k2", "value 2")]
    assert found[0]["headers"] == [{"name": "own", "value": "h"}]
    assert [record["key"] for record in records(cluster, "clicks")] == ["k1"]
    assert json.loads(cluster("dlq", "list", "--json")[1])[1]["not_replayed"] == 0


def test_a_replay_from_the_beginning_may_pick_and_go_elsewhere(cluster: Cli, node: Broker) -> None:
    leave(node, 0)
    leave(node, 2, "id is missing")
    cluster("dlq", "replay", "orders.dlq", "--yes")
    code, out, _ = cluster("dlq", "replay", "orders.dlq", "-B", "--error", "missing", "--to", "clicks", "--yes")
    assert (code, out) == (0, "orders.dlq: 1 record to clicks\n")
    assert [record["key"] for record in records(cluster, "clicks")] == ["k2"]


def test_what_cannot_be_replayed_is_said_and_nothing_is_sent(cluster: Cli, node: Broker) -> None:
    leave(node, 0)
    leave(node, 2, came=None)
    code, out, err = cluster("dlq", "replay", "orders.dlq", "--yes")
    assert (code, out) == (1, "") and "where 1 letter came from is not told" in err
    assert records(cluster, "orders") == []
    assert cluster("dlq", "replay", "orders.dlq", "--error", "x", "--yes")[0] == 2
    assert cluster("dlq", "show", "nowhere.dlq")[2] == "ottla: there is no topic nowhere.dlq\n"
