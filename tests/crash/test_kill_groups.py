"""Groups and the death or the sleep of their coordinator: every answered commit is there, and members just go on."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.group_ledger import Ledger, Place, wait_until
from tests.compat.group_members import ConfluentMember, Load
from tests.compat.raw import Raw
from tests.compat.wire import Fields

from .client import Client
from .load import Load as Jobs
from .node import NodeProcess
from .offsets import Committer
from .test_kill import ROUNDS, SEED

PARTITIONS = 3
SESSION_MS = 1_500
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "5",
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.initial.task.delay.ms": "50",
    "log.segment.delete.delay.ms": "50",
}
NewMember = Callable[..., ConfluentMember]


@pytest.fixture
def node(scratch: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(scratch, SETTINGS)
    yield node
    node.discard()


@pytest.fixture
def new_member(node: NodeProcess) -> Iterator[NewMember]:
    made: list[ConfluentMember] = []

    def make(name: str, ledger: Ledger, **settings: Any) -> ConfluentMember:
        made.append(ConfluentMember(name, node.bootstrap, "workers", ["work"], ledger, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for member in made:
        member.ask_to_end()
    for member in made:
        member.wait_ended()


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_answered_commits_survive_every_kill_exactly(node: NodeProcess) -> None:
    print(f"OTTLA_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    committers = [Committer(number, "work", PARTITIONS, 20, rng.randrange(1 << 32)) for number in range(3)]
    jobs = Jobs(node, committers)
    node.start()
    with Client(node.port) as client:
        client.create_topic("work", PARTITIONS)
    for _ in range(ROUNDS):
        jobs.begin()
        before = committers[0].answers
        wait_until(lambda: committers[0].answers > before, "nobody can commit")  # noqa: B023
        time.sleep(rng.random() * 0.5)
        node.kill()
        jobs.end()
        if rng.random() < 0.2:
            node.launch()
            time.sleep(rng.random() * 0.8)
            node.kill()
        node.start()
        with Client(node.port) as client:
            for committer in committers:
                committer.check(client)
    jobs.close()
    assert sum(committer.answers for committer in committers) > 20 * ROUNDS


PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 30_000},
    "cooperative": {"session_timeout_ms": 30_000, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_go_on_by_themselves_when_the_coordinator_dies_in_a_rebalance(
    node: NodeProcess, new_member: NewMember, protocol: str
) -> None:
    rng, ledger = random.Random(SEED), Ledger()
    node.settings["group.consumer.session.timeout.ms"] = "30000"
    node.start()
    places: list[Place] = [("work", partition) for partition in range(PARTITIONS)]
    with Client(node.port) as client:
        client.create_topic("work", PARTITIONS)
    load = Load(node.bootstrap, {"work": PARTITIONS}, pause_seconds=0.02)
    new_member("m0", ledger, **PROTOCOLS[protocol])
    ledger.wait_shared(["m0"], places)
    for number in (1, 2):
        new_member(f"m{number}", ledger, **PROTOCOLS[protocol])
        time.sleep(rng.random() * 0.3)
        node.kill()
        node.start()
        ledger.wait_shared([f"m{at}" for at in range(number + 1)], places)
    ledger.wait_seen(load.end())
    assert not ledger.faults


def test_no_consumer_is_expelled_because_the_coordinator_has_slept(node: NodeProcess, new_member: NewMember) -> None:
    ledger = Ledger()
    node.start()
    places: list[Place] = [("work", partition) for partition in range(PARTITIONS)]
    with Client(node.port) as client:
        client.create_topic("work", PARTITIONS)
    names = [f"m{number}" for number in range(3)]
    for name in names:
        new_member(name, ledger, group_protocol="consumer")
    ledger.wait_shared(names, places)
    owners, times = dict(ledger.owners), dict(ledger.times_taken)
    for _ in range(2):
        node.send_signal(signal.SIGSTOP)
        time.sleep(2 * SESSION_MS / 1000)
        node.send_signal(signal.SIGCONT)
        load = Load(node.bootstrap, {"work": PARTITIONS})
        time.sleep(SESSION_MS / 1000)
        ledger.wait_seen(load.end())
    assert not ledger.faults
    assert not ledger.lost
    assert (ledger.owners, ledger.times_taken) == (owners, times)


def test_classic_members_whose_heartbeats_wait_in_the_sockets_outlive_the_sleep(node: NodeProcess) -> None:
    """librdkafka gives up by itself when no answer comes for a session, so these members are plain sockets."""
    node.start()
    sockets = [Raw("127.0.0.1", node.port) for _ in range(3)]
    beats = [joined(raw, f"group-{number}") for number, raw in enumerate(sockets)]
    node.send_signal(signal.SIGSTOP)
    for raw, beat in zip(sockets[:2], beats[:2], strict=True):
        raw.send("heartbeat", 4, beat)
    time.sleep(2 * SESSION_MS / 1000)
    node.send_signal(signal.SIGCONT)
    assert [raw.receive("heartbeat", 4)["error_code"] for raw in sockets[:2]] == [0, 0]
    # Who stays silent after the sleep is missed like anybody else.
    wait_until(lambda: describe(sockets[0], "group-2") == "Empty", "the silent one is never missed")
    for raw in sockets:
        raw.socket.close()


def joined(raw: Raw, group: str) -> Fields:
    """A classic member alone in its group; what its heartbeat says."""
    while raw.ask("find_coordinator", 3, key=group, key_type=0)["error_code"]:
        pass
    ask = {
        "group_id": group,
        "session_timeout": SESSION_MS,
        "rebalance_timeout": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    member_id = raw.ask("join_group", 5, **ask)["member_id"]
    answer = raw.ask("join_group", 5, **ask, member_id=member_id)
    me = {"group_id": group, "member_id": member_id, "generation_id": answer["generation_id"]}
    assert raw.ask("sync_group", 3, **me)["error_code"] == 0
    return me


def describe(raw: Raw, group: str) -> str:
    return str(raw.ask("describe_groups", 5, groups=[group])["groups"][0]["group_state"])
