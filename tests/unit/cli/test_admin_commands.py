"""The commands that change a cluster, against a real node."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.cli.main import COMMANDS
from ottla.testing import Broker
from tests.unit.cli.conftest import Cli


@pytest.fixture
def cluster(ottla: Cli, ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs commands against the session's node."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap)
    return ottla


def answer(cluster: Cli, *arguments: str) -> Any:
    code, out, err = cluster(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_topic_is_created_described_and_deleted(cluster: Cli) -> None:
    created = cluster("topic", "create", "life", "-p", "3", "-c", "retention.ms=5000")
    assert created == (0, "life created\n", "")
    [topic] = answer(cluster, "topic", "describe", "life")
    assert topic["config"] == {"retention.ms": "5000"}
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert {"name": "life", "partitions": 3, "replication_factor": 1} in answer(cluster, "topic", "list")
    assert cluster("topic", "delete", "life") == (0, "life deleted\n", "")
    assert "life" not in [topic["name"] for topic in answer(cluster, "topic", "list")]


def test_the_good_names_are_created_although_a_bad_one_is_refused(cluster: Cli) -> None:
    code, out, err = cluster("topic", "create", "not good", "good")
    assert (code, out) == (1, "good created\n")
    assert err.startswith("ottla: not good: INVALID_TOPIC_EXCEPTION") and err.count("\n") == 1


def test_what_is_there_already_will_do_if_one_says_so(cluster: Cli, ottla_topic: str) -> None:
    assert cluster("topic", "create", ottla_topic)[0] == 1
    assert cluster("topic", "create", ottla_topic, "--if-not-exists")[0] == 0
    assert cluster("topic", "delete", "never-was")[0] == 1
    assert cluster("topic", "delete", "never-was", "--if-exists")[0] == 0


def test_asking_whether_it_would_work_creates_nothing(cluster: Cli) -> None:
    assert cluster("topic", "create", "perhaps", "--validate-only") == (0, "perhaps would be created\n", "")
    assert "perhaps" not in [topic["name"] for topic in answer(cluster, "topic", "list")]


def test_partitions_are_added_and_never_taken_away(cluster: Cli, ottla_topic: str) -> None:
    assert cluster("topic", "add-partitions", ottla_topic, "--total", "4")[:2] == (
        0,
        f"{ottla_topic} has 4 partitions\n",
    )
    code, _, err = cluster("topic", "add-partitions", ottla_topic, "--total", "2")
    assert code == 1 and "INVALID_PARTITIONS" in err


def test_settings_are_set_and_unset(cluster: Cli, ottla_topic: str) -> None:
    def changed() -> dict[str, str]:
        return {row["name"]: row["value"] for row in answer(cluster, "config", "describe", "topic", ottla_topic)}

    assert cluster("config", "set", "topic", ottla_topic, "retention.ms=1", "cleanup.policy=compact")[0] == 0
    assert changed() == {"retention.ms": "1", "cleanup.policy": "compact"}
    assert cluster("config", "unset", "topic", ottla_topic, "cleanup.policy")[0] == 0
    assert cluster("topic", "alter", ottla_topic, "--set", "retention.ms=2")[0] == 0
    assert changed() == {"retention.ms": "2"}
    assert len(answer(cluster, "config", "describe", "topic", ottla_topic, "--all")) > 20


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["config", "set", "topic", "TOPIC", "no.such=1"], 1, "INVALID_CONFIG"),
        (["config", "set", "topic", "TOPIC", "retention.ms"], 2, "NAME=VALUE"),
        (["config", "describe", "topic", "missing"], 1, "topic missing: UNKNOWN_TOPIC_OR_PARTITION"),
        (["config", "describe", "broker", "77"], 1, "there is no broker '77'; there is 1"),
        (["config", "describe", "brokers", "1"], 2, "brokers"),
        (["topic", "describe", "missing"], 1, "missing: UNKNOWN_TOPIC_OR_PARTITION"),
        (["topic", "alter", "TOPIC"], 2, "nothing to change"),
        (["topic", "delete-records", "TOPIC", "-p", "0", "--before", "x"], 2, "--before takes"),
        (["topic", "delete-records", "TOPIC", "-p", "0", "--before", "9"], 1, "OFFSET_OUT_OF_RANGE"),
        (["consume", "TOPIC", "--offset", "9"], 1, "9 is not among them"),
        (["produce", "TOPIC", "--partition", "9", "--timeout", "1"], 1, "1 of 1 records were not taken"),
    ],
)
def test_refusals_are_one_line(cluster: Cli, ottla_topic: str, arguments: list[str], code: int, complaint: str) -> None:
    actual, _, err = cluster(*[ottla_topic if a == "TOPIC" else a for a in arguments], stdin=b"x\n")
    assert actual == code
    assert err.startswith("ottla: ") and err.count("\n") == 1 and complaint in err


def test_records_before_an_offset_are_deleted(cluster: Cli, ottla_topic: str) -> None:
    cluster("produce", ottla_topic, stdin=b"a\nb\nc\nd\n")
    assert cluster("topic", "delete-records", ottla_topic, "-p", "0", "--before", "2")[0] == 0
    assert cluster("consume", ottla_topic)[1] == "c\nd\n"
    [topic] = answer(cluster, "topic", "describe", ottla_topic)
    assert (topic["partitions"][0]["first_offset"], topic["partitions"][0]["next_offset"]) == (2, 4)
    assert "starts at offset 4" in cluster("topic", "delete-records", ottla_topic, "-p", "0", "--before", "end")[1]


def test_reading_begins_at_a_time(cluster: Cli, ottla_topic: str) -> None:
    lines = "".join(json.dumps({"value": str(day), "timestamp": 1_700_000_000_000 + day}) + "\n" for day in range(5))
    cluster("produce", ottla_topic, "--format", "json", stdin=lines.encode())
    assert cluster("consume", ottla_topic, "--timestamp", "1700000000003")[1] == "3\n4\n"
    assert cluster("consume", ottla_topic, "--timestamp", "2039-01-01T00:00:00Z")[1] == ""


def test_a_copy_goes_by_keys_or_keeps_the_partitions(cluster: Cli) -> None:
    cluster("topic", "create", "wide", "wide-copy", "-p", "3")
    cluster("topic", "create", "narrow-copy", "-p", "1")
    cluster("produce", "wide", "-p", "2", "-K", ":", stdin=b"a:1\nb:2\n")
    copied = cluster("consume", "wide", "--json")[1].encode()
    assert cluster("produce", "narrow-copy", "--format", "json", stdin=copied)[0] == 0
    assert cluster("consume", "narrow-copy", "--format", "{partition} {key}={value}")[1] == "0 a=1\n0 b=2\n"
    assert cluster("produce", "wide-copy", "--format", "json", "--keep-partitions", stdin=copied)[0] == 0
    assert cluster("consume", "wide-copy", "--format", "{partition} {key}={value}")[1] == "2 a=1\n2 b=2\n"


def test_the_cluster_tells_about_itself(cluster: Cli, ottla_broker: Broker, ottla_topic: str) -> None:
    described = answer(cluster, "cluster", "describe")
    assert [f"{b['host']}:{b['port']}" for b in described["brokers"]] == [ottla_broker.bootstrap]
    quorum = answer(cluster, "cluster", "quorum")
    assert quorum["leader"] == described["controller"] and quorum["high_watermark"] > 0
    [directory] = answer(cluster, "cluster", "log-dirs")
    assert directory["error"] is None
    assert ottla_topic in [partition["topic"] for partition in directory["partitions"]]


@pytest.mark.parametrize("command", [["topic", "list"], ["cluster", "describe"], ["cluster", "quorum"], ["version"]])
def test_people_get_text(cluster: Cli, command: list[str]) -> None:
    code, out, err = cluster(*command)
    assert (code, err) == (0, "") and out and not out.startswith(("{", "["))


def test_help_lists_every_command_and_its_groups(ottla: Cli) -> None:
    _, out, _ = ottla("--help")
    assert [name for name in COMMANDS if f" {name} " not in out] == []
    for group in ("topic", "group", "txn", "config", "cluster", "log"):
        assert ottla(group, "--help")[0] == 0


def test_what_was_done_is_told_as_json(cluster: Cli, ottla_topic: str) -> None:
    made, other = f"{ottla_topic}-made", f"{ottla_topic}-other"
    assert answer(cluster, "topic", "create", made, other) == [
        {"topic": made, "outcome": "created"},
        {"topic": other, "outcome": "created"},
    ]
    assert answer(cluster, "topic", "add-partitions", made, "--total", "2")[0]["topic"] == made
    changed = answer(cluster, "topic", "alter", made, "--set", "retention.ms=7", "--unset", "segment.ms")
    assert changed == {"topic": made, "changed": {"retention.ms": "7", "segment.ms": None}}
    assert answer(cluster, "topic", "delete", made, other, "--yes")[1] == {"topic": other, "outcome": "deleted"}


def test_a_topic_has_its_id_in_the_alphabet_of_kafkas_tools(cluster: Cli, ottla_topic: str) -> None:
    ids = []
    for number in range(20):
        name = f"{ottla_topic}-{number}"
        cluster("topic", "create", name)
        [topic] = answer(cluster, "topic", "describe", name)
        ids.append(topic["id"])
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", topic_id) for topic_id in ids)


def test_a_group_is_set_up_by_name(cluster: Cli) -> None:
    assert cluster("config", "set", "group", "orders", "consumer.session.timeout.ms=50000")[0] == 0
    [row] = answer(cluster, "config", "describe", "group", "orders")
    assert (row["name"], row["value"], row["source"]) == ("consumer.session.timeout.ms", "50000", "group_config")


def test_the_version_is_told_where_it_is_looked_for(cluster: Cli) -> None:
    assert cluster("--version")[:2] == (0, f"ottla {ottla.__version__}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", [("topic", "list"), ("consume", "TOPIC"), ("log", "dump", "LOG"), ("version",)])
def test_output_that_cannot_be_written_is_one_line(
    ottla_broker: Broker, ottla_topic: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "00000000000000000000.log").touch()
    words = [{"TOPIC": ottla_topic, "LOG": str(tmp_path)}.get(word, word) for word in command]
    environment = {**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap}
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap})
    producer.produce(ottla_topic, b"x")
    assert producer.flush(10) == 0
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *words], stdout=full, stderr=subprocess.PIPE, env=environment
        )
    assert done.returncode == 1
    assert done.stderr == b"ottla: cannot write the output: No space left on device\n"
