"""Apache Kafka's own command line tools, and with them its Java producer, consumer and admin client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .brokers import Broker
from .java import Missing, kafka_libs, run_kafka
from .names import unique
from .raw import FOREVER, Raw

pytestmark = pytest.mark.peers

TOOLS = "org.apache.kafka.tools."
TOPICS, CONFIGS = f"{TOOLS}TopicCommand", "kafka.admin.ConfigCommand"
PRODUCER, CONSUMER = f"{TOOLS}ConsoleProducer", f"{TOOLS}consumer.ConsoleConsumer"
Done = subprocess.CompletedProcess[str]
Tool = Callable[..., Done]


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """Runs a tool against the node; it must succeed unless told otherwise."""

    def run(main: str, *arguments: str, stdin: str = "", code: int = 0) -> Done:
        done = run_kafka(main, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done

    return run


def consume(
    tool: Tool, topic: str, count: int, *arguments: str, partition: int = 0, offset: str = "earliest"
) -> list[str]:
    place = ("--topic", topic, "--partition", str(partition), "--offset", offset)
    done = tool(CONSUMER, *place, "--max-messages", str(count), "--timeout-ms", "30000", *arguments)
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_clients_bring_lines_through(tool: Tool, codec: str) -> None:
    topic = unique("java")
    lines = [f"key {at}:value {at}" for at in range(100)]
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool(PRODUCER, "--topic", topic, "--compression-codec", codec, *keyed, stdin="\n".join(lines))
    shown = consume(
        tool, topic, 100, "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"
    )
    assert shown == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_console_producer_with_every_acks(tool: Tool, acks: str) -> None:
    topic = unique("java")
    settings = ("--command-property", f"acks={acks}", "--command-property", "enable.idempotence=false")
    tool(PRODUCER, "--topic", topic, *settings, stdin="a\nb\nc\n")
    assert consume(tool, topic, 3) == ["a", "b", "c"]


def test_console_consumer_starts_at_an_offset(tool: Tool) -> None:
    topic = unique("java")
    tool(PRODUCER, "--topic", topic, stdin="a\nb\nc\n")
    assert consume(tool, topic, 1, offset="2") == ["c"]


def test_topics_are_created_described_grown_listed_and_deleted(tool: Tool, raw: Raw) -> None:
    topic = unique("java")
    tool(TOPICS, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=12345")
    shown = tool(TOPICS, "--describe", "--topic", topic).stdout
    assert "PartitionCount: 2" in shown
    assert "retention.ms=12345" in shown
    assert f"Leader: {raw.node_id}\tReplicas: {raw.node_id}\tIsr: {raw.node_id}" in shown
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    raw.wait_ready(topic, 3)
    assert "PartitionCount: 3" in tool(TOPICS, "--describe", "--topic", topic).stdout
    assert topic in tool(TOPICS, "--list").stdout.splitlines()
    tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, "--list").stdout.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [("--replication-factor", "3"), ("--config", "retention.ms=x"), ("--partitions", "0")],
    ids=["factor", "config", "partitions"],
)
def test_mistake_in_creating_a_topic_is_explained(tool: Tool, arguments: tuple[str, ...]) -> None:
    topic = unique("java")
    done = tool(TOPICS, "--create", "--topic", topic, *arguments, code=1)
    assert "error" in (done.stdout + done.stderr).lower()
    assert topic not in tool(TOPICS, "--list").stdout.splitlines()


def test_creating_a_topic_twice_is_named(tool: Tool, raw: Raw) -> None:
    topic = raw.create()
    done = tool(TOPICS, "--create", "--topic", topic, code=1)
    assert "already exists" in done.stdout + done.stderr


def test_configs_of_topics_are_altered_and_described(tool: Tool, raw: Raw) -> None:
    topic = raw.create()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    assert "retention.ms=5000" in (shown := tool(CONFIGS, *entity, "--describe").stdout)
    assert "cleanup.policy=compact,delete" in shown
    tool(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    every = tool(CONFIGS, *entity, "--describe", "--all").stdout
    assert "retention.ms=604800000" in every
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in every


def test_configs_of_the_node_are_described(tool: Tool, raw: Raw) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", str(raw.node_id))
    shown = tool(CONFIGS, *entity, "--describe", "--all").stdout
    assert "message.max.bytes=1048588" in shown
    tool(CONFIGS, *entity, "--alter", "--add-config", "log.retention.ms=9000000")
    assert "log.retention.ms=9000000" in tool(CONFIGS, *entity, "--describe").stdout
    tool(CONFIGS, *entity, "--alter", "--delete-config", "log.retention.ms")


def test_offsets_are_listed_for_every_time(tool: Tool, raw: Raw) -> None:
    topic = raw.create(configs=FOREVER)
    for at in (0, 2, 1):
        raw.append(topic, b"v", base_timestamp=1_700_000_000_000 + at * 1000)
    for time, offset in (("-1", 3), ("-2", 0), ("-3", 1), ("-4", 0), ("1700000001000", 1)):
        shown = tool(f"{TOOLS}GetOffsetShell", "--topic", topic, "--time", time).stdout
        assert shown.strip() == f"{topic}:0:{offset}", time


def test_records_are_deleted(tool: Tool, raw: Raw, tmp_path: Path) -> None:
    topic = raw.create()
    raw.append(topic, *[b"v"] * 5)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]}))
    shown = tool(f"{TOOLS}DeleteRecordsCommand", "--offset-json-file", str(wanted)).stdout
    assert "low_watermark: 3" in shown


def test_log_directories_are_described(tool: Tool, raw: Raw) -> None:
    topic = raw.create()
    raw.append(topic, b"v")
    size = sum(header.size for header in raw.batches(topic))
    shown = tool(f"{TOOLS}LogDirsCommand", "--describe", "--topic-list", topic).stdout.splitlines()[-1]
    [broker] = json.loads(shown)["brokers"]
    [directory] = broker["logDirs"]
    assert directory["error"] is None
    assert [(entry["partition"], entry["size"]) for entry in directory["partitions"]] == [(f"{topic}-0", size)]


def test_metadata_quorum_is_described(bootstrap: str, raw: Raw) -> None:
    main = f"{TOOLS}MetadataQuorumCommand"
    status = run_kafka(main, "--bootstrap-server", bootstrap, "describe", "--status")
    assert status.returncode == 0, status.stderr
    assert f"LeaderId:               {raw.node_id}" in status.stdout
    replication = run_kafka(main, "--bootstrap-server", bootstrap, "describe", "--replication")
    assert replication.returncode == 0, replication.stderr
    assert "Leader" in replication.stdout


def test_features_cluster_id_and_api_versions_are_shown(bootstrap: str) -> None:
    features = run_kafka(f"{TOOLS}FeatureCommand", "--bootstrap-server", bootstrap, "describe")
    assert features.returncode == 0, features.stderr
    assert "metadata.version" in features.stdout
    cluster = run_kafka(f"{TOOLS}ClusterTool", "cluster-id", "--bootstrap-server", bootstrap)
    assert "Cluster ID: " in cluster.stdout
    versions = run_kafka(f"{TOOLS}BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
    assert versions.returncode == 0, versions.stderr
    assert "Produce(0): 0 to 13" in versions.stdout


def test_perf_test_producer_delivers_what_it_counts(tool: Tool, raw: Raw, bootstrap: str) -> None:
    topic = raw.create()
    count = 20_000
    arguments = ("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1")
    done = run_kafka(f"{TOOLS}ProducerPerformance", *arguments, "--bootstrap-server", bootstrap)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"{count} records sent")
    assert raw.list_offset(topic, -1)["offset"] == count


def test_java_producer_reaches_a_node_that_comes_back(new_broker: Callable[[], Broker]) -> None:
    broker = new_broker()
    topic = unique("java")
    for _ in range(2):
        done = run_kafka(PRODUCER, "--bootstrap-server", broker.bootstrap, "--topic", topic, stdin="a\nb\n")
        assert done.returncode == 0, done.stderr
        broker.restart()
    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "4")
    shown = run_kafka(CONSUMER, "--bootstrap-server", broker.bootstrap, *place, "--timeout-ms", "30000")
    assert shown.stdout.split() == ["a", "b", "a", "b"]


def test_configs_of_groups_are_set_shown_and_removed(tool: Tool) -> None:
    group = unique("java")
    of_group = ("--entity-type", "groups", "--entity-name", group)
    tool(CONFIGS, *of_group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000" in tool(CONFIGS, *of_group, "--describe").stdout
    assert group in tool(CONFIGS, "--entity-type", "groups", "--describe").stdout
    tool(CONFIGS, *of_group, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in tool(CONFIGS, *of_group, "--describe").stdout


def test_the_log_level_is_shown_and_set(tool: Tool, raw: Raw) -> None:
    of_node = ("--entity-type", "broker-loggers", "--entity-name", str(raw.node_id))
    try:
        tool(CONFIGS, *of_node, "--alter", "--add-config", "root=ERROR")
        assert "root=ERROR" in tool(CONFIGS, *of_node, "--describe").stdout
    finally:
        tool(CONFIGS, *of_node, "--alter", "--add-config", "root=INFO")


def test_a_reassignment_may_be_throttled_and_verified(tool: Tool, raw: Raw, tmp_path: Path) -> None:
    topic = raw.create()
    plan = tmp_path / "plan.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [raw.node_id]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    reassign = f"{TOOLS}reassign.ReassignPartitionsCommand"
    done = tool(reassign, "--execute", "--reassignment-json-file", str(plan), "--throttle", "1000000")
    assert "throttle limit was set to 1000000" in done.stdout
    done = tool(reassign, "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {topic}-0 is completed." in done.stdout
    assert "Clearing broker-level throttles" in done.stdout
