"""DescribeConfigs and its siblings, on the controller's real decisions."""

import asyncio
from typing import Any

import pytest

from ottla.base.broker_settings import BROKER_SETTINGS, BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.log_level import THRESHOLD
from ottla.broker.api.configs import ConfigsApi
from ottla.core.metadata.asks import NewTopic
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.broker.cluster import call, one_node, told

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OF_TOPIC, OF_BROKER, OF_CLUSTER, STATIC, DEFAULT, OF_LOGGER, OF_GROUP = 1, 2, 3, 4, 5, 6, 8


class Room:
    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.controller, config = one_node(settings)
        asyncio.run(self.controller.create_topics([NewTopic("one", 1, 1), NewTopic("two", 1, 1)]))
        self.api = ConfigsApi(self.controller, config)  # type: ignore[arg-type]

    def describe(self, kind: int, name: str, *keys: str, version: int = 4, **flags: bool) -> Any:
        flags.setdefault("include_synonyms", True)
        resource = DescribeConfigsResource(kind, name, list(keys) or None)
        request = DescribeConfigsRequest([resource], **flags)
        return told(asyncio.run(self.api.describe(call(request, version))), version).results[0]

    def value(self, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
        (config,) = self.describe(kind, name, key).configs
        return config.value, config.config_source, [(s.name, s.value, s.source) for s in config.synonyms]

    def edit(self, kind: int, name: str, *edits: tuple[str, int, str | None], dry: bool = False) -> Any:
        configs = [incremental_alter_configs.AlterableConfig(*edit) for edit in edits]
        resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
        return self.edit_all([resource], dry)[0]

    def edit_all(self, resources: list[incremental_alter_configs.AlterConfigsResource], dry: bool = False) -> Any:
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources, dry)
        return told(asyncio.run(self.api.edit(call(request, 1))), 1).responses

    def replace(self, kind: int, name: str, *pairs: tuple[str, str | None], dry: bool = False) -> Any:
        configs = [alter_configs.AlterableConfig(*pair) for pair in pairs]
        request = alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(kind, name, configs)], dry)
        return told(asyncio.run(self.api.replace(call(request, 2))), 2).responses[0]


def test_every_setting_of_a_topic_is_described_with_its_default() -> None:
    result = Room().describe(TOPIC, "one")
    configs = {config.name: config for config in result.configs}
    assert len(configs) == 33
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", DEFAULT)
    assert (configs["cleanup.policy"].config_type, configs["preallocate"].config_type) == (7, 1)
    assert not any(config.read_only or config.is_sensitive for config in result.configs)


def test_every_setting_of_the_node_is_described_with_its_nature() -> None:
    room = Room({"num.partitions": "3"})
    configs = {config.name: config for config in room.describe(BROKER, "1").configs}
    assert configs.keys() == BROKER_SETTINGS.keys()
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("3", STATIC)
    assert configs["num.partitions"].read_only and not configs["log.retention.ms"].read_only
    assert (configs["node.id"].value, configs["broker.id"].value) == ("1", "1")
    assert configs["ssl.key.password"].is_sensitive


def test_a_secret_is_never_told() -> None:
    room = Room({"ssl.key.password": "hunter2"})
    assert room.value(BROKER, "1", "ssl.key.password") == (None, STATIC, [("ssl.key.password", None, STATIC)])


def test_what_the_node_was_started_with_is_told_even_if_it_came_by_flags() -> None:
    controller, _ = one_node()
    config = BrokerConfig.from_texts({"listeners": "PLAINTEXT://127.0.0.1:9", "log.dirs": "/a,/b"}, node_id=1)
    room = Room()
    room.api = ConfigsApi(controller, config)  # type: ignore[arg-type]
    assert room.value(BROKER, "1", "log.dirs")[0] == "/a,/b"
    assert room.value(BROKER, "1", "listeners")[:2] == ("PLAINTEXT://127.0.0.1:9", STATIC)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_types_and_documentation_are_told_to_those_who_know_them(version: int) -> None:
    result = Room().describe(TOPIC, "one", "retention.ms", version=version, include_documentation=True)
    (config,) = result.configs
    assert (config.name, config.value) == ("retention.ms", "604800000")
    assert (config.config_type == 5, bool(config.documentation)) == (version >= 3, version >= 3)


def test_synonyms_and_documentation_are_told_only_when_asked_for() -> None:
    (config,) = Room().describe(TOPIC, "one", "cleanup.policy", include_synonyms=False).configs
    assert (config.synonyms, config.documentation) == ([], None)


def test_no_keys_mean_all_keys() -> None:
    room = Room()
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "one", [])])
    assert len(told(asyncio.run(room.api.describe(call(request, 4))), 4).results[0].configs) == 33
    assert room.describe(TOPIC, "one", "nosuch").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST),
        (LOGGER, "9", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_says_why(kind: int, name: str, code: ErrorCode) -> None:
    result = Room().describe(kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_a_resource_named_a_thousand_times_is_described_once() -> None:
    room = Room()
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None) for _ in range(1000)])
    assert len(asyncio.run(room.api.describe(call(request, 4))).results) == 1


def test_the_layers_of_a_value_are_told_from_the_strongest_to_the_weakest() -> None:
    room = Room({"log.retention.ms": "4"})
    assert room.edit(BROKER, "", ("log.retention.ms", SET, "3")).error_code == 0
    assert room.edit(BROKER, "1", ("log.retention.ms", SET, "2")).error_code == 0
    assert room.edit(TOPIC, "one", ("retention.ms", SET, "1")).error_code == 0
    below = [
        ("log.retention.ms", "3", OF_CLUSTER),
        ("log.retention.ms", "4", STATIC),
        ("log.retention.hours", "168", 5),
    ]
    brokers = [("log.retention.ms", "2", OF_BROKER), *below]
    assert room.value(TOPIC, "one", "retention.ms") == ("1", OF_TOPIC, [("retention.ms", "1", OF_TOPIC), *brokers])
    assert room.value(TOPIC, "two", "retention.ms") == ("2", OF_BROKER, brokers)
    assert room.value(BROKER, "1", "log.retention.ms") == ("2", OF_BROKER, brokers)
    assert room.value(BROKER, "", "log.retention.ms") == ("3", OF_CLUSTER, below[:1])
    room.edit(BROKER, "1", ("log.retention.ms", DELETE, None))
    assert room.value(TOPIC, "two", "retention.ms") == ("3", OF_CLUSTER, below)


def test_a_default_in_another_unit_is_not_listed_as_a_synonym_alone() -> None:
    room = Room()
    assert room.value(TOPIC, "one", "retention.ms") == ("604800000", DEFAULT, [])
    assert room.value(BROKER, "1", "log.retention.ms") == (None, DEFAULT, [])


def test_values_are_shown_in_one_form() -> None:
    room = Room()
    room.edit(
        TOPIC,
        "one",
        ("preallocate", SET, "TRUE"),
        ("segment.ms", SET, " 1000 "),
        ("cleanup.policy", SET, "compact, delete"),
    )
    shown = {key: room.value(TOPIC, "one", key)[0] for key in ("preallocate", "segment.ms", "cleanup.policy")}
    assert shown == {"preallocate": "true", "segment.ms": "1000", "cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    ("edit", "code", "value"),
    [
        (("retention.ms", SET, "5"), 0, "5"),
        (("retention.ms", SET, None), 42, "604800000"),
        (("retention.ms", DELETE, None), 0, "604800000"),
        (("retention.ms", DELETE, "7"), 0, "604800000"),
        (("retention.ms", APPEND, "7"), 40, "604800000"),
        (("retention.ms", SET, "x"), 40, "604800000"),
        (("cleanup.policy", APPEND, "compact"), 0, "delete,compact"),
        (("cleanup.policy", SUBTRACT, "delete"), 0, ""),
        (("cleanup.policy", SUBTRACT, "nothing"), 0, "delete"),
        (("segment.bytes", SET, "5"), 40, "1073741824"),
    ],
)
def test_a_topic_is_edited_as_kafka_edits_it(edit: tuple[str, int, str | None], code: int, value: str) -> None:
    room = Room()
    assert room.edit(TOPIC, "one", edit).error_code == code
    assert room.value(TOPIC, "one", edit[0])[0] == value


@pytest.mark.parametrize(
    ("kind", "name", "edits", "code"),
    [
        (TOPIC, "one", [("nosuch", SET, "1")], 40),
        (TOPIC, "one", [("nosuch", DELETE, None)], 0),
        (TOPIC, "one", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42),
        (TOPIC, "one", [], 0),
        (TOPIC, "nosuch", [("retention.ms", SET, "1")], 3),
        (TOPIC, "", [("retention.ms", SET, "1")], 42),
        (BROKER, "1", [("log.dirs", SET, "/x")], 42),
        (BROKER, "1", [("node.id", SET, "2")], 42),
        (BROKER, "1", [("log.retention.ms", SET, "x")], 42),
        (BROKER, "9", [("log.retention.ms", SET, "1")], 42),
        (BROKER, "abc", [("log.retention.ms", SET, "1")], 42),
        (LOGGER, "9", [("root", SET, "DEBUG")], 42),
        (LOGGER, "1", [("root", DELETE, None)], 42),
        (LOGGER, "1", [("root", SET, "LOUD")], 40),
        (LOGGER, "1", [("nosuch", SET, "INFO")], 40),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42),
        (GROUP, "g", [("nosuch", SET, "1")], 40),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "x")], 40),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "44999")], 40),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "60001")], 40),
        (99, "x", [], 42),
        (0, "x", [], 42),
    ],
)
def test_an_edit_that_cannot_be_is_refused_with_kafkas_code(
    kind: int, name: str, edits: list[tuple[str, int, str | None]], code: int
) -> None:
    answer = Room().edit(kind, name, *edits)
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (code, kind, name)
    assert bool(answer.error_message) == (code != 0)


def test_a_dry_run_checks_and_changes_nothing() -> None:
    room = Room()
    assert room.edit(TOPIC, "one", ("retention.ms", SET, "5"), dry=True).error_code == 0
    assert room.edit(TOPIC, "one", ("retention.ms", SET, "x"), dry=True).error_code == 40
    assert room.replace(TOPIC, "one", ("retention.ms", "5"), dry=True).error_code == 0
    assert room.value(TOPIC, "one", "retention.ms")[0] == "604800000"


def test_every_resource_gets_its_own_answer_in_the_order_of_the_request() -> None:
    room = Room()
    resource, config = incremental_alter_configs.AlterConfigsResource, incremental_alter_configs.AlterableConfig
    answers = room.edit_all(
        [
            resource(METRICS, "1", []),
            resource(TOPIC, "one", [config("retention.ms", SET, "5")]),
            resource(TOPIC, "two", []),
            resource(TOPIC, "two", []),
            resource(BROKER, "9", []),
        ]
    )
    assert [answer.error_code for answer in answers] == [42, 0, 42, 42, 42]
    assert [answer.resource_name for answer in answers] == ["1", "one", "two", "two", "9"]
    room.controller.refusal = Refused(ErrorCode.NOT_CONTROLLER, "another node is")
    assert room.edit(TOPIC, "one", ("retention.ms", SET, "6")).error_code == 41


def test_a_replacement_resets_what_it_does_not_name() -> None:
    room = Room()
    assert room.replace(TOPIC, "one", ("retention.ms", "5")).error_code == 0
    assert room.replace(TOPIC, "one", ("segment.ms", "700000")).error_code == 0
    assert room.value(TOPIC, "one", "retention.ms")[:2] == ("604800000", DEFAULT)
    assert room.value(TOPIC, "one", "segment.ms")[:2] == ("700000", OF_TOPIC)
    assert room.replace(TOPIC, "one", ("segment.ms", "x")).error_code == 40
    assert room.replace(TOPIC, "one", ("no", "1")).error_code == 40
    assert room.replace(TOPIC, "one", ("segment.ms", None)).error_code == 42
    assert room.replace(TOPIC, "one").error_code == 0
    assert room.value(TOPIC, "one", "segment.ms")[1] == DEFAULT


def test_resources_are_listed_by_kind() -> None:
    room = Room()

    def listed(version: int, *kinds: int) -> Any:
        request = ListConfigResourcesRequest(list(kinds))
        answer = told(asyncio.run(room.api.list_resources(call(request, version))), version)
        return [(one.resource_type, one.resource_name) for one in answer.config_resources]

    assert listed(1) == [(BROKER, "1"), (TOPIC, "one"), (TOPIC, "two"), (LOGGER, "1")]
    assert listed(1, TOPIC) == [(TOPIC, "one"), (TOPIC, "two")]
    assert listed(1, GROUP) == []
    room.edit(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    assert listed(1, GROUP) == [(GROUP, "g")]
    assert listed(0) == []
    with pytest.raises(Refused) as refusal:
        listed(1, 99)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_has_settings_of_its_own_over_those_of_the_node() -> None:
    room = Room({"group.consumer.heartbeat.interval.ms": "6000"})
    of_node = "group.consumer.heartbeat.interval.ms"
    under = [(of_node, "6000", STATIC), (of_node, "5000", DEFAULT)]
    assert room.value(GROUP, "g", "consumer.heartbeat.interval.ms") == ("6000", STATIC, under)
    assert room.edit(GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "7000")).error_code == 0
    own = ("consumer.heartbeat.interval.ms", "7000", OF_GROUP)
    assert room.value(GROUP, "g", "consumer.heartbeat.interval.ms") == ("7000", OF_GROUP, [own, *under])
    assert room.value(GROUP, "other", "consumer.heartbeat.interval.ms")[0] == "6000"
    assert room.edit(GROUP, "g", ("consumer.heartbeat.interval.ms", DELETE, None)).error_code == 0
    assert room.value(GROUP, "g", "consumer.heartbeat.interval.ms")[0] == "6000"


def test_a_heartbeat_that_is_rarer_than_the_session_lasts_is_refused() -> None:
    room = Room({"group.consumer.min.session.timeout.ms": "1000"})
    assert room.edit(GROUP, "g", ("consumer.session.timeout.ms", SET, "5000")).error_code == 40
    assert room.edit(GROUP, "g", ("consumer.session.timeout.ms", SET, "5001")).error_code == 0


def test_the_log_level_of_the_node_can_be_moved_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(THRESHOLD, "level", "INFO")
    monkeypatch.setattr(THRESHOLD, "number", 20)
    room = Room()
    assert room.value(LOGGER, "1", "root") == ("INFO", OF_LOGGER, [])
    assert room.edit(LOGGER, "1", ("root", SET, "DEBUG"), dry=True).error_code == 0
    assert THRESHOLD.level == "INFO"
    assert room.edit(LOGGER, "1", ("root", SET, "ERROR")).error_code == 0
    assert (room.value(LOGGER, "1", "root")[0], THRESHOLD.number) == ("ERROR", 40)
    assert room.replace(LOGGER, "1", ("root", "DEBUG")).error_code == 42
