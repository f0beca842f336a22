"""Members that die, sleep too long or come back under their own name, with real clients."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from .brokers import Broker
from .group_child import Child
from .group_ledger import Ledger, Place, wait_until
from .group_members import ConfluentMember
from .group_node import committed, create, state_of
from .names import unique

SESSION_MS = 1_500
Spawn = Callable[..., Child]


@pytest.fixture
def admin(group_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": group_broker.bootstrap})


@pytest.fixture
def spawn(group_broker: Broker) -> Iterator[Spawn]:
    children: list[Child] = []

    def make(group: str, topic: str, **settings: Any) -> Child:
        config = {"bootstrap.servers": group_broker.bootstrap, "group.id": group, "enable.auto.commit": False}
        own = {name.replace("_", "."): value for name, value in settings.items()}
        if own.get("group.protocol") != "consumer":
            own = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 100, **own}
        config |= {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 50, **own}
        children.append(Child([sys.executable, "-m", "tests.compat.group_member_process", json.dumps(config), topic]))
        return children[-1]

    yield make
    for child in children:
        child.discard()


@pytest.fixture
def members(group_broker: Broker) -> Iterator[Callable[..., ConfluentMember]]:
    made: list[ConfluentMember] = []

    def make(name: str, group: str, topics: list[str], ledger: Ledger, **settings: Any) -> ConfluentMember:
        made.append(ConfluentMember(name, group_broker.bootstrap, group, topics, ledger, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for member in made:
        member.ask_to_end()
    for member in made:
        member.wait_ended()


def fill(broker: Broker, places: list[Place], count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, partition in places * count:
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_zombie_cannot_commit_and_joins_again(
    group_broker: Broker, admin: AdminClient, spawn: Spawn, members: Callable[..., ConfluentMember], protocol: str
) -> None:
    topic, group, ledger = unique("zombie"), unique("group"), Ledger()
    places = create(admin, topic, 2)
    fill(group_broker, places, 5)
    zombie = spawn(group, topic, group_protocol=protocol)
    for partition in (0, 1):
        zombie.wait_for("seen", lambda one, wanted=partition: (one["partition"], one["offset"]) == (wanted, 4))
    zombie.process.send_signal(signal.SIGSTOP)
    members("heir", group, [topic], ledger, group_protocol=protocol)
    ledger.wait_shared(["heir"], places)
    fill(group_broker, places, 5)
    ledger.wait_seen(dict.fromkeys(places, 10))
    zombie.tell()
    zombie.process.send_signal(signal.SIGCONT)
    zombie.wait_for("refused")
    assert 5 not in committed(admin, group).values()
    assert not zombie.events("committed")
    zombie.wait_for("lost")
    wait_until(lambda: len(zombie.events("assigned")) >= 2, "the zombie does not join again")
    wait_until(lambda: len(ledger.owned_by("heir")) == 1, lambda: f"the heir shares nothing: {ledger.owners}")
    assert not ledger.faults


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_of_a_killed_member_go_to_the_others(
    group_broker: Broker, admin: AdminClient, spawn: Spawn, members: Callable[..., ConfluentMember], protocol: str
) -> None:
    topic, group, ledger = unique("killed"), unique("group"), Ledger()
    places = create(admin, topic, 4)
    fill(group_broker, places, 3)
    victim = spawn(group, topic, group_protocol=protocol)
    victim.wait_for("assigned", lambda one: len(one["partitions"]) == 4)
    for partition in range(4):
        victim.wait_for("seen", lambda one, wanted=partition: (one["partition"], one["offset"]) == (wanted, 2))
    victim.tell()
    victim.wait_for("committed")
    members("heir", group, [topic], ledger, group_protocol=protocol)
    wait_until(lambda: len(ledger.owned_by("heir")) == 2, "the heir has no half")
    victim.kill()
    ledger.wait_shared(["heir"], places)
    fill(group_broker, places, 2)
    wait_until(lambda: all(ledger.seen[place] == [3, 4] for place in places), lambda: str(dict(ledger.seen)))
    assert not ledger.faults


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_member_comes_back_to_what_it_had_and_nobody_else_notices(
    group_broker: Broker, admin: AdminClient, spawn: Spawn, members: Callable[..., ConfluentMember], protocol: str
) -> None:
    topic, group, ledger = unique("static"), unique("group"), Ledger()
    places = create(admin, topic, 4)
    own = {"group_protocol": protocol}
    if protocol == "classic":
        own["session_timeout_ms"] = 30_000  # type: ignore[assignment]
    members("colleague", group, [topic], ledger, group_instance_id="colleague", **own)
    ledger.wait_shared(["colleague"], places)
    first = spawn(group, topic, group_instance_id="me", **own)
    had = first.wait_for("assigned", lambda one: len(one["partitions"]) == 2)["partitions"]
    wait_until(lambda: len(ledger.owned_by("colleague")) == 2, "the colleague keeps everything")
    times = ledger.times_taken["colleague"]
    first.close()
    second = spawn(group, topic, group_instance_id="me", **own)
    assert second.wait_for("assigned", lambda one: one["partitions"])["partitions"] == had
    assert ledger.times_taken["colleague"] == times
    assert state_of(admin, group) == "STABLE"
    assert not ledger.faults
    fill(group_broker, places, 1)
    for partition in had:
        second.wait_for("seen", lambda one, wanted=partition: one["partition"] == wanted)


def test_second_static_member_of_the_same_name_fences_the_first(
    group_broker: Broker, admin: AdminClient, spawn: Spawn
) -> None:
    topic, group = unique("twins"), unique("group")
    fill(group_broker, create(admin, topic, 1), 1)
    first = spawn(group, topic, group_instance_id="me")
    first.wait_for("seen")
    second = spawn(group, topic, group_instance_id="me")
    second.wait_for("assigned", lambda one: one["partitions"] == [0])
    first.tell()
    assert first.wait_for("refused")["error"] in ("FENCED_INSTANCE_ID", "_FATAL", "_FENCED")
    assert committed(admin, group) == {}
