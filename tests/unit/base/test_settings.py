"""The rows of all settings, against what Apache Kafka lists, and how values are read and shown."""

from pathlib import Path

import pytest

from ottla.base.broker_settings import BROKER_SETTINGS, BrokerConfig
from ottla.base.setting_rows.inert import NOTE
from ottla.base.settings import BadSetting, Kind, Reach, Setting
from ottla.base.topic_settings import TOPIC_SETTINGS, LogConfig, check_topic_settings, log_config

KAFKA = Path(__file__).parents[2] / "golden" / "kafka_settings.tsv"
OWN_DEFAULTS = {
    "listeners": "this node listens on the loopback address unless told otherwise",
    "log.dir": "this node chooses a sensible directory by itself",
    "node.id": "this node needs no configuration",
    "process.roles": "this node needs no configuration",
}
OWN_NATURE = {"listeners": "a change of addresses would need a restart, so it is refused"}


def kafka_rows(resource: str) -> list[list[str]]:
    lines = KAFKA.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1:] for line in lines if line.startswith(f"{resource}\t")]


@pytest.mark.parametrize(("resource", "rows"), [("broker", BROKER_SETTINGS), ("topic", TOPIC_SETTINGS)])
def test_every_setting_of_kafka_is_listed_with_its_type_default_and_nature(
    resource: str, rows: dict[str, Setting]
) -> None:
    expected = kafka_rows(resource)
    assert len(expected) > 30
    for name, kind, default, nature, secrecy in expected:
        row = rows[name]
        assert row.kind == int(kind), name
        assert row.is_sensitive == (secrecy == "sensitive"), name
        if name not in OWN_DEFAULTS:
            assert row.default == (None if default == "-" else default[1:]), name
        if resource == "broker" and name not in OWN_NATURE:
            assert (row.reach is Reach.READ_ONLY) == (nature == "read-only"), name


def test_no_setting_is_named_twice() -> None:
    assert len(BROKER_SETTINGS) == len(kafka_rows("broker")) + len(
        {
            "cluster.id",
            "log.initial.task.delay.ms",
            "metrics.listener",
            # Kafka takes these as dynamic settings without listing them.
            "follower.replication.throttled.rate",
            "leader.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        }
    )
    assert set(TOPIC_SETTINGS) == {row[0] for row in kafka_rows("topic")}


@pytest.mark.parametrize("rows", [BROKER_SETTINGS, TOPIC_SETTINGS])
def test_every_default_passes_its_own_check(rows: dict[str, Setting]) -> None:
    for row in rows.values():
        row.parse(row.default)


@pytest.mark.parametrize("rows", [BROKER_SETTINGS, TOPIC_SETTINGS])
def test_every_setting_is_explained_in_a_sentence(rows: dict[str, Setting]) -> None:
    for row in rows.values():
        assert row.doc.endswith((".", ".)")), row.name
        assert len(row.doc) < 200, row.name


def test_a_setting_that_is_read_does_not_claim_to_be_without_effect() -> None:
    typed = {field.replace("_", ".") for field in LogConfig.__dataclass_fields__}
    assert [name for name in typed if name in TOPIC_SETTINGS and NOTE in TOPIC_SETTINGS[name].doc] == []
    assert NOTE in BROKER_SETTINGS["remote.log.reader.threads"].doc


def test_a_broker_config_is_read_from_texts() -> None:
    config = BrokerConfig.from_texts({"node.id": "7", "listeners": "PLAINTEXT://0.0.0.0:0", "log.dirs": "/a, /b"})
    assert config.node_id == 7
    assert config.listeners[0].port == 0
    assert [str(directory) for directory in config.log_dirs] == ["/a", "/b"]
    assert config.max_request_partition_size_limit == 2000


def test_topics_inherit_what_the_broker_was_given() -> None:
    assert log_config({}, {"log.retention.hours": "1"}).retention_ms == 3_600_000
    assert log_config({}, {"log.retention.hours": "1", "log.retention.ms": "5"}).retention_ms == 5
    assert log_config({"retention.ms": "7"}, {"log.retention.ms": "5"}).retention_ms == 7


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("cleanup.policy", "none"),
        ("segment.bytes", "99999999999"),
        ("segment.bytes", "1048575"),
        ("compression.gzip.level", "0"),
        ("compression.zstd.level", "99"),
        ("compression.lz4.level", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("preallocate", "maybe"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "x"),
        ("leader.replication.throttled.replicas", "1:"),
        ("message.format.version", "2.0"),
    ],
)
def test_a_bad_topic_setting_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name):
        check_topic_settings({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "delete,delete"),
        ("preallocate", "TRUE"),
        ("segment.ms", " 1000 "),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2"),
        ("compression.gzip.level", "-1"),
        ("compression.type", "uncompressed"),
    ],
)
def test_a_topic_setting_may_be_written_as_kafka_allows(name: str, text: str) -> None:
    check_topic_settings({name: text})


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (Kind.BOOLEAN, " TRUE ", "true"),
        (Kind.LONG, " 1000 ", "1000"),
        (Kind.LIST, "a, b", "a,b"),
        (Kind.LIST, "", ""),
        (Kind.DOUBLE, " 0.5 ", "0.5"),
        (Kind.STRING, "as it is", "as it is"),
        (Kind.PASSWORD, "secret", None),
        (Kind.STRING, None, None),
    ],
)
def test_a_value_is_shown_in_one_way_and_a_secret_never(kind: Kind, text: str | None, shown: str | None) -> None:
    assert Setting("name", kind, None, "A row.").shown(text) == shown


def test_a_setting_of_the_node_that_is_typed_is_not_called_without_effect() -> None:
    typed = {field.replace("_", ".") for field in BrokerConfig.__dataclass_fields__}
    assert [name for name in typed if name in BROKER_SETTINGS and NOTE in BROKER_SETTINGS[name].doc] == []


def test_what_another_node_has_set_and_is_unknown_here_does_not_stop_this_one() -> None:
    """A data directory may come from Apache Kafka, which takes more than is known here."""
    config = BrokerConfig.from_texts({}).with_texts({"nosuch": "1", "log.retention.ms": "x", "num.partitions": "2"})
    assert config.num_partitions == 2
    assert log_config({"retention.ms": "soon", "segment.ms": "7"}, {"log.retention.ms": "5"}).retention_ms == 5
