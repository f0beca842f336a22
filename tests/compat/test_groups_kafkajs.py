"""kafkajs members of a group, in processes of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from .brokers import Broker
from .group_child import Child
from .group_ledger import Place, wait_until
from .group_members import Load
from .group_node import committed, create
from .names import unique
from .test_kafkajs import PACKAGE, node_modules

__all__ = ["node_modules"]

pytestmark = pytest.mark.peers

PARTITIONS = 4


@pytest.fixture
def children() -> Iterator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        child.discard()


def test_kafkajs_members_come_and_go_and_miss_nothing(
    group_broker: Broker,
    node_modules: Path,
    children: list[Child],
) -> None:
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    topic, group = unique("js"), unique("group")
    create(admin, topic, PARTITIONS)
    environment = {"NODE_PATH": str(node_modules), "PATH": "/usr/bin:/bin"}

    def enter() -> Child:
        command = ["node", str(PACKAGE / "member.js"), group_broker.bootstrap, topic, group, f"js{len(children)}"]
        children.append(Child(command, environment))
        return children[-1]

    def wait_shared(*members: Child) -> None:
        def is_shared() -> bool:
            owned = [one.events("assigned")[-1]["partitions"] if one.events("assigned") else [] for one in members]
            return all(owned) and sorted(one for part in owned for one in part) == list(range(PARTITIONS))

        wait_until(is_shared, lambda: str([one.events("assigned") for one in members]))

    load = Load(group_broker.bootstrap, {topic: PARTITIONS}, pause_seconds=0.02)
    first = enter()
    wait_shared(first)
    second = enter()
    wait_shared(first, second)
    third = enter()
    wait_shared(first, second, third)
    first.close()
    wait_shared(second, third)
    ends = load.end()
    wanted = {(place, offset) for place, end in ends.items() for offset in range(end)}

    def seen() -> Counter[tuple[Place, int]]:
        return Counter(one for child in children for one in child.seen(topic))

    wait_until(lambda: seen().keys() >= wanted, lambda: f"missed: {sorted(wanted - seen().keys())[:20]}")
    second.close()
    third.close()
    assert seen().keys() == wanted
    assert committed(admin, group) == ends
