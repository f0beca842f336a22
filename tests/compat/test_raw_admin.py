"""Mistakes in requests to the controller, and the codes Apache Kafka gives them."""

from __future__ import annotations

from typing import Any

import pytest

from .raw import LATEST, Raw
from .wire import Fields

NONE, EXISTS, BAD_TOPIC, BAD_PARTITIONS, BAD_FACTOR, BAD_ASSIGNMENT, BAD_CONFIG = 0, 36, 17, 37, 38, 39, 40
INVALID_REQUEST, POLICY_VIOLATION, TIMED_OUT = 42, 44, 7


def create(raw: Raw, name: str | None = None, version: int = 7, **changes: Any) -> Fields:
    topic = {"name": raw.name() if name is None else name, "num_partitions": 1, "replication_factor": 1, **changes}
    answer: Fields = raw.ask("create_topics", version, timeout=20_000, topics=[topic])["topics"][0]
    return answer


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\x00b", "x" * 250])
def test_topic_name_is_refused(raw: Raw, name: str) -> None:
    answer = create(raw, name)
    assert (answer["error_code"], answer["num_partitions"], answer["topic_config_error_code"]) == (BAD_TOPIC, -1, 0)
    assert answer["error_message"]


def test_topic_name_may_have_249_letters(raw: Raw) -> None:
    name = raw.name().ljust(249, "x")
    assert create(raw, name)["error_code"] == NONE
    raw.wait_ready(name)
    assert raw.append(name, b"v") == 0


def test_metadata_topic_cannot_be_created(raw: Raw) -> None:
    assert create(raw, "__cluster_metadata")["error_code"] == INVALID_REQUEST


def test_names_that_collide_in_metrics_are_refused(raw: Raw) -> None:
    name = raw.name()
    assert create(raw, f"{name}.x")["error_code"] == NONE
    assert create(raw, f"{name}_x")["error_code"] == BAD_TOPIC


def test_existing_topic_is_refused(raw: Raw) -> None:
    name = raw.create()
    assert create(raw, name)["error_code"] == EXISTS


@pytest.mark.parametrize(("count", "code"), [(0, BAD_PARTITIONS), (-2, BAD_PARTITIONS), (2**31 - 1, POLICY_VIOLATION)])
def test_partition_count_is_refused(raw: Raw, count: int, code: int) -> None:
    assert create(raw, num_partitions=count)["error_code"] == code


@pytest.mark.parametrize("factor", [0, -2, 2, 32767])
def test_replication_factor_is_refused(raw: Raw, factor: int) -> None:
    assert create(raw, replication_factor=factor)["error_code"] == BAD_FACTOR


def assigned(*parts: tuple[int, list[int]]) -> dict[str, Any]:
    wanted = [{"partition_index": index, "broker_ids": brokers} for index, brokers in parts]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": wanted}


def test_assignments_are_checked(raw: Raw) -> None:
    me = raw.node_id
    bad: list[list[tuple[int, list[int]]]] = [
        [(1, [me])],
        [(0, [me]), (2, [me])],
        [(0, [me + 77])],
        [(0, [me, me])],
        [(0, [])],
        [(0, [me]), (0, [me])],
    ]
    for parts in [*bad, [(-1, [me])]]:
        assert create(raw, **assigned(*parts))["error_code"] == BAD_ASSIGNMENT, parts
    good = create(raw, **assigned((0, [me]), (1, [me])))
    assert (good["error_code"], good["num_partitions"], good["replication_factor"]) == (NONE, 2, 1)
    both = {**assigned((0, [me])), "num_partitions": 1, "replication_factor": 1}
    assert create(raw, **both)["error_code"] == INVALID_REQUEST


BAD_CONFIGS = [
    ("nonsense", "1"),
    ("message.format.version", "2.0"),
    ("retention.ms", "x"),
    ("retention.ms", "-2"),
    ("retention.ms", ""),
    ("retention.ms", None),
    ("cleanup.policy", "foo"),
    ("cleanup.policy", "none"),
    ("segment.bytes", "1"),
    ("segment.bytes", "99999999999"),
    ("max.message.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("compression.type", "lzma"),
    ("message.timestamp.type", "x"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("preallocate", "maybe"),
    ("segment.ms", "0"),
    ("segment.jitter.ms", "-1"),
    ("segment.index.bytes", "3"),
    ("index.interval.bytes", "-1"),
    ("max.compaction.lag.ms", "0"),
    ("unclean.leader.election.enable", "yes"),
    ("compression.zstd.level", "99"),
    ("compression.gzip.level", "0"),
    ("compression.lz4.level", "0"),
    ("remote.storage.enable", "true"),
    ("leader.replication.throttled.replicas", "x"),
]
GOOD_CONFIGS = [
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", ""),
    ("segment.bytes", "1048576"),
    ("segment.ms", " 1000 "),
    ("preallocate", "TRUE"),
    ("compression.type", "uncompressed"),
    ("min.insync.replicas", "2"),
    ("leader.replication.throttled.replicas", "*"),
    ("retention.ms", "-1"),
]


@pytest.mark.parametrize(("name", "value"), BAD_CONFIGS)
def test_config_is_refused(raw: Raw, name: str, value: str | None) -> None:
    assert create(raw, configs=[{"name": name, "value": value}])["error_code"] == BAD_CONFIG


@pytest.mark.parametrize(("name", "value"), GOOD_CONFIGS)
def test_config_is_taken(raw: Raw, name: str, value: str) -> None:
    assert create(raw, configs=[{"name": name, "value": value}])["error_code"] == NONE


def test_configs_that_contradict_each_other_are_refused(raw: Raw) -> None:
    entries = [{"name": "min.compaction.lag.ms", "value": "100"}, {"name": "max.compaction.lag.ms", "value": "50"}]
    assert create(raw, configs=entries)["error_code"] == BAD_CONFIG


def test_refused_topic_does_not_exist(raw: Raw) -> None:
    name = raw.name()
    create(raw, name, configs=[{"name": "nonsense", "value": "1"}])
    assert raw.list_offset(name, LATEST)["error_code"] == 3
    assert create(raw, name)["error_code"] == NONE


def test_good_topic_of_a_request_is_created_beside_a_bad_one(raw: Raw) -> None:
    good = raw.name()
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (good, "a b")]
    answer = raw.ask("create_topics", 7, timeout=20_000, topics=topics)
    codes = {topic["name"]: topic["error_code"] for topic in answer["topics"]}
    assert codes == {good: NONE, "a b": BAD_TOPIC}


def test_growing_a_topic_beyond_all_bounds_is_refused(raw: Raw, target: str) -> None:
    if target == "kafka":
        pytest.skip("Apache Kafka 4.3 creates ten thousand partitions, fails, and is of no more use")
    topic = raw.create(partitions=2)
    wanted = [{"name": topic, "count": 2**31 - 1, "assignments": None}]
    answer = raw.ask("create_partitions", 3, timeout=20_000, topics=wanted)["results"][0]
    assert answer["error_code"] != NONE
    assert len(raw.ask("metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"]) == 2


def test_topic_partitions_come_sorted_and_in_pages(raw: Raw) -> None:
    first, second = raw.create("a", partitions=2), raw.create("b", partitions=4)
    cursor, got = None, []
    for _ in range(10):
        ask = {"topics": [{"name": second}, {"name": first}], "response_partition_limit": 3, "cursor": cursor}
        answer = raw.ask("describe_topic_partitions", 0, **ask)
        got += [(t["name"], p["partition_index"]) for t in answer["topics"] for p in t["partitions"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert got == [(first, 0), (first, 1), (second, 0), (second, 1), (second, 2), (second, 3)]


def test_every_topic_is_described_when_none_is_named(raw: Raw) -> None:
    topic = raw.create()
    answer = raw.ask("metadata", 12, topics=None)
    assert topic in {entry["name"] for entry in answer["topics"]}
    assert topic in {entry["name"] for entry in raw.ask("metadata", 0, topics=[])["topics"]}
    described = raw.ask("describe_topic_partitions", 0, topics=[], response_partition_limit=2000, cursor=None)
    assert topic in {entry["name"] for entry in described["topics"]}


def test_quorum_of_one_names_itself(raw: Raw) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = raw.ask("describe_quorum", 2, topics=asked)
    assert answer["error_code"] == 0
    [part] = answer["topics"][0]["partitions"]
    assert (part["error_code"], part["leader_id"]) == (0, raw.node_id)
    assert [voter["replica_id"] for voter in part["current_voters"]] == [raw.node_id]
    assert part["current_voters"][0]["log_end_offset"] >= part["high_watermark"] > 0
    assert [node["node_id"] for node in answer["nodes"]] == [raw.node_id]


def test_quorum_of_another_topic_is_unknown(raw: Raw) -> None:
    for name, index in (("x", 0), ("__cluster_metadata", 3)):
        asked = [{"topic_name": name, "partitions": [{"partition_index": index}]}]
        answer = raw.ask("describe_quorum", 2, topics=asked)
        assert answer["topics"][0]["partitions"][0]["error_code"] == 3


def test_broker_configs_carry_every_default(raw: Raw) -> None:
    asked = [{"resource_type": 4, "resource_name": str(raw.node_id), "configuration_keys": None}]
    answer = raw.ask("describe_configs", 4, resources=asked, include_synonyms=True, include_documentation=True)
    entries = {entry["name"]: entry for entry in answer["results"][0]["configs"]}
    for name, value, kind, read_only in (
        ("log.segment.bytes", "1073741824", 3, False),
        ("log.retention.hours", "168", 3, True),
        ("message.max.bytes", "1048588", 3, False),
        ("num.partitions", "1", 3, True),
        ("socket.request.max.bytes", "104857600", 3, True),
        ("auto.create.topics.enable", "true", 1, True),
        ("min.insync.replicas", "1", 3, False),
        ("log.flush.interval.messages", "9223372036854775807", 5, False),
    ):
        entry = entries[name]
        assert (entry["value"], entry["config_type"], entry["read_only"]) == (value, kind, read_only), name
        assert entry["documentation"], name
        assert entry["synonyms"], name
    assert all(entry["value"] is None for entry in entries.values() if entry["is_sensitive"])


def test_config_operation_that_does_not_exist_is_refused(raw: Raw) -> None:
    topic = raw.create()
    entry = {"name": "retention.ms", "config_operation": 9, "value": "1"}
    asked = [{"resource_type": 2, "resource_name": topic, "configs": [entry]}]
    assert raw.ask("incremental_alter_configs", 1, resources=asked)["responses"][0]["error_code"] != NONE
