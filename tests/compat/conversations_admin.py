"""Conversations about the cluster: metadata, topics, partitions, configs, log directories, quorum."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .batches import batch
from .conversations import STRANGER, Talk
from .conversations_data import ranged
from .raw import FOREVER
from .wire import Fields

APPLIED_SECONDS_MAX = 20.0
ADMIN_MS = 20_000


def wait_until(fact: Callable[[], bool]) -> None:
    """Apache Kafka applies a change of metadata after it has answered; ours may be there at once."""
    deadline = time.monotonic() + APPLIED_SECONDS_MAX
    while not fact():
        assert time.monotonic() < deadline, "a change of metadata never arrived"
        time.sleep(0.02)


def error_of(talk: Talk, topic: str) -> int:
    found = talk.raw.ask("metadata", 4, topics=[{"name": topic}], allow_auto_topic_creation=False)
    return int(found["topics"][0]["error_code"])


def say_metadata(talk: Talk) -> None:
    topic = talk.raw.create(partitions=2)
    topic_id = talk.raw.topic_id(topic)
    for version in ranged("metadata", 13):
        cases = [("one", topic), ("bad name", "a b"), ("empty name", "")]
        if version >= 4:
            cases.append(("unknown", talk.raw.name("no")))
        for step, name in cases:
            talk(step, "metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False)
        talk("twice", "metadata", version, topics=[{"name": topic}, {"name": topic}], allow_auto_topic_creation=False)
        if version > 0:
            talk("none", "metadata", version, topics=[])
        if version >= 12:
            talk("by id", "metadata", version, topics=[{"name": None, "topic_id": topic_id}])
            talk("by unknown id", "metadata", version, topics=[{"name": None, "topic_id": STRANGER}])
        if version >= 8:
            rights = {"include_topic_authorized_operations": True}
            if version <= 10:
                rights["include_cluster_authorized_operations"] = True
            talk("rights", "metadata", version, topics=[{"name": topic}], **rights)


def say_auto_creation(talk: Talk) -> None:
    for version in (0, 3, 4, 9, 12):
        name = talk.raw.name(f"auto{version}")
        wanted = [{"name": name}]
        # Apache Kafka says UNKNOWN_TOPIC_OR_PARTITION the first time; a node may as well be quicker.
        talk.raw.ask("metadata", version, topics=wanted, allow_auto_topic_creation=True)
        wait_until(lambda name=name: error_of(talk, name) == 0)  # type: ignore[misc]
        talk("asked again", "metadata", version, topics=wanted, allow_auto_topic_creation=True)


def new_topic(name: str, **changes: Any) -> Fields:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **changes}


def replicas(*assignments: tuple[int, list[int]]) -> dict[str, Any]:
    wanted = [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": wanted}


def say_create_topics(talk: Talk) -> None:
    node = talk.raw.node_id
    existing = talk.raw.create("existing")
    entry = [{"name": "retention.ms", "value": "12345"}]
    for version in ranged("create_topics", 7):
        name = talk.raw.name(f"new{version}")
        steps: dict[str, list[Fields]] = {
            "with a config": [new_topic(name, configs=entry, num_partitions=3)],
            "two, one existing": [new_topic(existing), new_topic(f"{name}-two")],
            "assigned": [new_topic(f"{name}-assigned", **replicas((0, [node]), (1, [node])))],
            "none": [],
            "twice": [new_topic(f"{name}-twice"), new_topic(f"{name}-twice")],
        }
        for step, topics in steps.items():
            talk(step, "create_topics", version, timeout=ADMIN_MS, topics=topics)
        wanted = [new_topic(f"{name}-only-checked")]
        talk("only checked", "create_topics", version, timeout=ADMIN_MS, topics=wanted, validate_only=True)
        if version >= 4:
            wanted = [new_topic(f"{name}-default", num_partitions=-1, replication_factor=-1)]
            talk("defaults", "create_topics", version, timeout=ADMIN_MS, topics=wanted)
    for step, answer in talk.answers.items():
        if step == "with a config (create_topics v7)":
            without_min_isr(answer["topics"])
        else:
            count_configs(answer["topics"])


def count_configs(topics: list[Fields]) -> None:
    """Every config of every topic is said once; elsewhere their number will do."""
    for topic in topics:
        topic["configs"] = len(topic["configs"]) if topic.get("configs") else topic.get("configs")


def without_min_isr(topics: list[Fields]) -> None:
    """`kafka-storage format` writes min.insync.replicas as a cluster-wide config; a node may leave it a default."""
    for topic in topics:
        topic["configs"] = [entry for entry in topic["configs"] if entry["name"] != "min.insync.replicas"]


def say_delete_topics(talk: Talk) -> None:
    for version in ranged("delete_topics", 6):
        name = talk.raw.create(f"v{version}")
        unknown = talk.raw.name("no")
        if version < 6:
            talk("two", "delete_topics", version, timeout=ADMIN_MS, topic_names=[name, unknown])
            talk("twice", "delete_topics", version, timeout=ADMIN_MS, topic_names=[unknown, unknown])
        else:
            topics = [{"name": name}, {"name": unknown}, {"name": None, "topic_id": STRANGER}]
            talk("three", "delete_topics", version, timeout=ADMIN_MS, topics=topics)
        wait_until(lambda name=name: error_of(talk, name) == 3)  # type: ignore[misc]
    name = talk.raw.create("by-id")
    topic_id = talk.raw.topic_id(name)
    for step, topic in {
        "name and id": {"name": name, "topic_id": topic_id},
        "neither": {"name": None},
        "by id": {"name": None, "topic_id": topic_id},
        "by id again": {"name": None, "topic_id": topic_id},
    }.items():
        talk(step, "delete_topics", 6, timeout=ADMIN_MS, topics=[topic])


def say_create_partitions(talk: Talk) -> None:
    node = talk.raw.node_id
    for version in ranged("create_partitions", 3):
        topic = talk.raw.create(f"v{version}", partitions=2)
        for count in (1, 2, 0, -1):
            talk(f"to {count}", "create_partitions", version, **grown(topic, count))
        for step, assignments in {
            "too many": [[node], [node]],
            "stranger": [[node + 77]],
            "doubled": [[node, node]],
            "empty": [[]],
        }.items():
            wanted = [{"broker_ids": brokers} for brokers in assignments]
            talk(f"assigned: {step}", "create_partitions", version, **grown(topic, 3, assignments=wanted))
        talk("only checked", "create_partitions", version, **grown(topic, 3), validate_only=True)
        talk("still two", "create_partitions", version, **grown(topic, 2))
        talk("unknown topic", "create_partitions", version, **grown(talk.raw.name("no"), 3))
        talk("to 3", "create_partitions", version, **grown(topic, 3))
        talk("to 4, assigned", "create_partitions", version, **grown(topic, 4, assignments=[{"broker_ids": [node]}]))
        talk.raw.wait_ready(topic, 4)
        talk(f"grown, v{version}", "metadata", 9, topics=[{"name": topic}])
        talk(f"the new one takes records, v{version}", "produce", 9, **into(topic, 3))


def grown(topic: str, count: int, assignments: list[Fields] | None = None) -> dict[str, Any]:
    return {"timeout": ADMIN_MS, "topics": [{"name": topic, "count": count, "assignments": assignments}]}


def into(topic: str, index: int) -> dict[str, Any]:
    data = [{"index": index, "records": batch(b"v")}]
    return {"acks": -1, "timeout": ADMIN_MS, "topic_data": [{"name": topic, "partition_data": data}]}


def say_describe_cluster(talk: Talk) -> None:
    for version in ranged("describe_cluster", 2):
        talk("plain", "describe_cluster", version, endpoint_type=1)
        rights = {"endpoint_type": 1, "include_cluster_authorized_operations": True}
        talk("rights", "describe_cluster", version, **rights)
    for endpoint in (2, 9):
        talk(f"endpoint {endpoint}", "describe_cluster", 1, endpoint_type=endpoint)


def say_describe_log_dirs(talk: Talk) -> None:
    topic = talk.raw.create("", 2, FOREVER)
    talk.raw.append(topic, b"v", base_timestamp=1)
    for version in ranged("describe_log_dirs", 5):
        for step, topics in {
            "two partitions": [{"topic": topic, "partitions": [0, 1, 9]}],
            "unknown topic": [{"topic": talk.raw.name("no"), "partitions": [0]}],
            "none": [],
        }.items():
            answer = talk(step, "describe_log_dirs", version, topics=topics)
            assert answer["results"][0]["error_code"] == 0


def say_describe_topic_partitions(talk: Talk) -> None:
    small, large = talk.raw.create("a", partitions=2), talk.raw.create("b", partitions=5)
    answer = talk("both", "describe_topic_partitions", 0, **paged(100, small, large))
    answer = talk("limit 2", "describe_topic_partitions", 0, **paged(2, large))
    for page in ("second", "third"):
        answer = talk(page, "describe_topic_partitions", 0, **paged(2, large, cursor=answer["next_cursor"]))
    answer = talk("limit 3 of both", "describe_topic_partitions", 0, **paged(3, small, large))
    talk("rest of both", "describe_topic_partitions", 0, **paged(100, small, large, cursor=answer["next_cursor"]))
    talk("sorted", "describe_topic_partitions", 0, **paged(100, large, small))
    talk("doubled", "describe_topic_partitions", 0, **paged(100, large, large))
    talk("unknown", "describe_topic_partitions", 0, **paged(100, talk.raw.name("no")))
    talk("bad name", "describe_topic_partitions", 0, **paged(100, "a b"))
    for step, name, index in (("beyond", large, 99), ("negative", large, -1), ("before", "!", 3)):
        cursor = {"topic_name": name, "partition_index": index}
        talk(f"cursor {step}", "describe_topic_partitions", 0, **paged(5, large, cursor=cursor))


def paged(limit: int, *names: str, cursor: Fields | None = None) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}
