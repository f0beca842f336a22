"""Apache Kafka's own consumers and its tool for groups."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from .brokers import Broker
from .group_ledger import wait_until
from .group_node import commit, committed, create, state_of
from .java import Missing, kafka_command, kafka_libs, run_kafka
from .names import unique

pytestmark = pytest.mark.peers

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = 4
Tool = Callable[..., str]


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def admin(group_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": group_broker.bootstrap})


@pytest.fixture
def tool(group_broker: Broker) -> Tool:
    """`kafka-consumer-groups`; what it prints. Its exit code says nothing about refusals."""

    def run(*arguments: str) -> str:
        done = run_kafka(GROUPS, "--bootstrap-server", group_broker.bootstrap, *arguments)
        return done.stdout + done.stderr

    return run


class JavaMember:
    """A console consumer; its lines go to a file."""

    def __init__(self, bootstrap: str, topic: str, group: str, output: Path, *arguments: str) -> None:
        self._output = output
        place = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning")
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                kafka_command(CONSUMER, *place, *arguments), stdout=file, stderr=subprocess.DEVNULL
            )

    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def members(group_broker: Broker, tmp_path: Path) -> Iterator[Callable[..., JavaMember]]:
    made: list[JavaMember] = []

    def make(topic: str, group: str, *arguments: str) -> JavaMember:
        output = tmp_path / f"member-{len(made)}"
        made.append(JavaMember(group_broker.bootstrap, topic, group, output, *arguments))
        return made[-1]

    yield make
    for member in made:
        member.process.kill()
        member.process.wait(30)


def members_of(admin: AdminClient, group: str) -> list[int]:
    """How many partitions each member has."""
    [future] = admin.describe_consumer_groups([group]).values()
    return sorted(len(member.assignment.topic_partitions) for member in future.result(30).members)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_consumers_share_and_hand_over(
    group_broker: Broker, admin: AdminClient, members: Callable[..., JavaMember], protocol: str
) -> None:
    topic, group = unique("java"), unique("group")
    create(admin, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    sent: list[str] = []

    def send(count: int) -> None:
        for _ in range(count):
            producer.produce(topic, str(len(sent)).encode(), partition=len(sent) % PARTITIONS)
            sent.append(str(len(sent)))
        assert producer.flush(30) == 0

    own = ("--command-property", f"group.protocol={protocol}")
    send(40)
    first = members(topic, group, *own)
    wait_until(lambda: len(first.lines()) == 40, "the first member does not read")
    second = members(topic, group, *own)
    wait_until(lambda: members_of(admin, group) == [2, 2], lambda: f"not shared: {members_of(admin, group)}")
    send(40)
    wait_until(lambda: len(first.lines()) + len(second.lines()) == 80, "somebody does not read")
    assert second.lines()
    first.close()
    wait_until(lambda: members_of(admin, group) == [4], "nothing is handed over")
    send(40)
    wait_until(lambda: len(first.lines()) + len(second.lines()) == 120, "the second member does not read on")
    second.close()
    assert sorted(first.lines() + second.lines(), key=int) == sent
    assert committed(admin, group) == {(topic, partition): 30 for partition in range(PARTITIONS)}


def test_tool_lists_describes_resets_and_deletes(group_broker: Broker, admin: AdminClient, tool: Tool) -> None:
    topic, group = unique("tool"), unique("group")
    places = create(admin, topic, 2)
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for _, partition in places * 5:
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    commit(group_broker.bootstrap, group, dict.fromkeys(places, 2))
    assert group in tool("--list").splitlines()
    assert any(line.split() == [group, "Classic", "Empty"] for line in tool("--list", "--state", "--type").splitlines())
    shown = [line.split() for line in tool("--describe", "--group", group).splitlines() if line.startswith(group)]
    assert sorted(line[1:6] for line in shown) == [[topic, str(partition), "2", "5", "3"] for partition in (0, 1)]
    assert "Empty" in tool("--describe", "--group", group, "--state")
    assert "has no active members" in tool("--describe", "--group", group, "--members")
    everything = ("--reset-offsets", "--group", group, "--all-topics")
    tool(*everything, "--shift-by", "1", "--dry-run")
    assert committed(admin, group) == dict.fromkeys(places, 2)
    tool(*everything, "--shift-by", "1", "--execute")
    assert committed(admin, group) == dict.fromkeys(places, 3)
    tool(*everything, "--to-earliest", "--execute")
    assert committed(admin, group) == dict.fromkeys(places, 0)
    tool("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert committed(admin, group) == {places[1]: 0}
    assert "was successful" in tool("--delete", "--group", group)
    assert group not in tool("--list").splitlines()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_tool_shows_members_and_leaves_their_group_alone(
    group_broker: Broker, admin: AdminClient, tool: Tool, members: Callable[..., JavaMember], protocol: str
) -> None:
    topic, group = unique("tool"), unique("group")
    create(admin, topic, 3)
    members(topic, group, "--command-property", f"group.protocol={protocol}")
    wait_until(lambda: members_of(admin, group) == [3] and state_of(admin, group) == "STABLE", "nobody joins")
    shown = tool("--describe", "--group", group, "--members", "--verbose")
    assert f"{topic}:0,1,2" in shown.replace(f"{topic}(0,1,2)", f"{topic}:0,1,2"), shown
    assert "Stable" in tool("--describe", "--group", group, "--state")
    refused = tool("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert "inactive" in refused, refused
    assert "GroupNotEmptyException" in tool("--delete", "--group", group)
