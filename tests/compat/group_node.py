"""How the nodes of the group tests are set up, and the words that go with them."""

from __future__ import annotations

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from .group_ledger import Place
from .raw import FOREVER

SECONDS_MAX = 30

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
}
"""Nobody waits for others before the first assignment, and whoever dies is missed soon."""


def create(admin: AdminClient, name: str, partitions: int) -> list[Place]:
    [future] = admin.create_topics([NewTopic(name, partitions, 1, config=FOREVER)]).values()
    future.result(SECONDS_MAX)
    return [(name, partition) for partition in range(partitions)]


def committed(admin: AdminClient, group: str) -> dict[Place, int]:
    """All offsets of a group."""
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(one.topic, one.partition): one.offset for one in future.result(SECONDS_MAX).topic_partitions}


def commit(bootstrap: str, group: str, offsets: dict[Place, int]) -> None:
    """As somebody who is not a member."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in offsets.items()], asynchronous=False)
    consumer.close()


def state_of(admin: AdminClient, group: str) -> str:
    [future] = admin.describe_consumer_groups([group]).values()
    return str(future.result(SECONDS_MAX).state.name)
