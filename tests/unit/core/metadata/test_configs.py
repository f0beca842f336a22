import pytest

from ottla.base.errors import ErrorCode
from ottla.core.metadata.asks import (
    ConfigChange,
    ConfigEdit,
    ConfigOp,
    ConfigReplacement,
    NewTopic,
    ResourceType,
)
from ottla.core.metadata.configs import alter_configs, incremental_alter_configs
from ottla.core.metadata.topics import create_topics
from tests.unit.core.metadata.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = ConfigOp.SET, ConfigOp.DELETE, ConfigOp.APPEND, ConfigOp.SUBTRACT


def cluster_with_topic() -> Cluster:
    cluster = Cluster(brokers=2)
    cluster.apply(create_topics(cluster.state, [NewTopic("t", configs=(("retention.ms", "5"),))]))
    return cluster


def edit(cluster: Cluster, resource: int, name: str, *edits: ConfigEdit) -> ErrorCode:
    replies = cluster.apply(incremental_alter_configs(cluster.state, [ConfigChange(resource, name, edits)]))
    assert isinstance(replies, list)
    error = replies[0].error
    assert isinstance(error, ErrorCode)
    assert (replies[0].why is None) == (error == ErrorCode.NONE)
    return error


def test_values_are_set_and_go_back_to_the_default() -> None:
    cluster = cluster_with_topic()
    assert edit(cluster, 2, "t", ConfigEdit("retention.ms", DELETE), ConfigEdit("segment.bytes", SET, "2097152")) == 0
    assert cluster.image.topic_config("t") == {"segment.bytes": "2097152"}
    assert edit(cluster, 2, "t", ConfigEdit("segment.bytes", DELETE)) == 0
    assert (2, "t") not in cluster.image.configs


def test_lists_are_appended_to_and_subtracted_from_over_their_default() -> None:
    cluster = cluster_with_topic()
    assert edit(cluster, 2, "t", ConfigEdit("cleanup.policy", APPEND, "compact")) == 0
    assert cluster.image.topic_config("t")["cleanup.policy"] == "delete,compact"
    assert edit(cluster, 2, "t", ConfigEdit("cleanup.policy", APPEND, "compact,delete")) == 0
    assert cluster.image.topic_config("t")["cleanup.policy"] == "delete,compact"
    assert edit(cluster, 2, "t", ConfigEdit("cleanup.policy", SUBTRACT, "delete")) == 0
    assert cluster.image.topic_config("t")["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("edits", "error"),
    [
        ((ConfigEdit("retention.ms", APPEND, "5"),), ErrorCode.INVALID_CONFIG),
        ((ConfigEdit("no.such", SET, "5"),), ErrorCode.INVALID_CONFIG),
        ((ConfigEdit("retention.ms", SET, "x"),), ErrorCode.INVALID_CONFIG),
        ((ConfigEdit("retention.ms", SET, None),), ErrorCode.INVALID_REQUEST),
        ((ConfigEdit("retention.ms", 9, "5"),), ErrorCode.INVALID_REQUEST),
        ((ConfigEdit("retention.ms", SET, "5"), ConfigEdit("retention.ms", DELETE)), ErrorCode.INVALID_REQUEST),
        ((ConfigEdit("retention.ms", SET, "9"), ConfigEdit("cleanup.policy", SET, "burn")), ErrorCode.INVALID_CONFIG),
        (
            (ConfigEdit("min.compaction.lag.ms", SET, "9"), ConfigEdit("max.compaction.lag.ms", SET, "8")),
            ErrorCode.INVALID_CONFIG,
        ),
        ((ConfigEdit("leader.replication.throttled.replicas", SET, "x" * 40_000),), ErrorCode.INVALID_CONFIG),
    ],
)
def test_one_bad_edit_spoils_all_of_its_resource(edits: tuple[ConfigEdit, ...], error: ErrorCode) -> None:
    cluster = cluster_with_topic()
    assert edit(cluster, ResourceType.TOPIC, "t", *edits) == error
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}


def test_only_what_changes_is_written() -> None:
    cluster = cluster_with_topic()
    change = ConfigChange(2, "t", (ConfigEdit("retention.ms", SET, "5"), ConfigEdit("flush.ms", DELETE)))
    assert incremental_alter_configs(cluster.state, [change]).records == ()


@pytest.mark.parametrize(
    ("resource", "name", "error"),
    [
        (2, "gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "9", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (4, "one", ErrorCode.INVALID_REQUEST),
        (4, "-1", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (0, "t", ErrorCode.INVALID_REQUEST),
        (99, "t", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_must_exist(resource: int, name: str, error: ErrorCode) -> None:
    assert edit(cluster_with_topic(), resource, name, ConfigEdit("retention.ms", SET, "5")) == error


def test_a_resource_that_is_named_twice_is_refused() -> None:
    cluster = cluster_with_topic()
    change = ConfigChange(2, "t", (ConfigEdit("retention.ms", SET, "6"),))
    replies = cluster.apply(incremental_alter_configs(cluster.state, [change, change]))
    assert isinstance(replies, list)
    assert [r.error for r in replies] == [ErrorCode.INVALID_REQUEST] * 2
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}


def test_the_settings_of_a_broker_lie_over_those_of_the_cluster() -> None:
    cluster = cluster_with_topic()
    policy = ConfigEdit("log.cleanup.policy", SET, "compact")
    assert edit(cluster, 4, "", policy, ConfigEdit("log.retention.ms", SET, "9")) == 0
    assert edit(cluster, 4, "1", ConfigEdit("log.retention.ms", SET, "4")) == 0
    assert cluster.image.broker_config(1) == {"log.cleanup.policy": "compact", "log.retention.ms": "4"}
    assert cluster.image.broker_config(2) == {"log.cleanup.policy": "compact", "log.retention.ms": "9"}
    assert edit(cluster, 2, "t", ConfigEdit("cleanup.policy", APPEND, "delete")) == 0
    assert cluster.image.topic_config("t")["cleanup.policy"] == "compact,delete"


def test_what_is_fixed_at_start_cannot_be_changed_at_run_time() -> None:
    cluster = cluster_with_topic()
    for name in ("", "1"):
        assert edit(cluster, 4, name, ConfigEdit("log.dirs", SET, "/etc")) == ErrorCode.INVALID_REQUEST
        assert edit(cluster, 4, name, ConfigEdit("node.id", SET, "5")) == ErrorCode.INVALID_REQUEST
        assert edit(cluster, 4, name, ConfigEdit("no.such", SET, "5")) == ErrorCode.INVALID_CONFIG
        assert edit(cluster, 4, name, ConfigEdit("log.retention.ms", SET, "none")) == ErrorCode.INVALID_REQUEST
    assert not [key for key in cluster.image.configs if key[0] == 4]


def test_the_old_way_replaces_everything() -> None:
    cluster = cluster_with_topic()
    asks = [
        ConfigReplacement(2, "t", (("flush.ms", "7"),)),
        ConfigReplacement(2, "gone", ()),
        ConfigReplacement(4, "1", (("log.retention.ms", None),)),
    ]
    replies = cluster.apply(alter_configs(cluster.state, asks))
    assert isinstance(replies, list)
    assert [r.error for r in replies] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST]
    assert cluster.image.topic_config("t") == {"flush.ms": "7"}
    assert alter_configs(cluster.state, [ConfigReplacement(2, "t", ())], validate_only=True).records == ()
