"""Conversations about configs of topics and of the node."""

from __future__ import annotations

from typing import Any

from .conversations import Talk
from .conversations_admin import wait_until
from .conversations_data import ranged
from .wire import Fields

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def described(name: str, keys: list[str] | None = None, kind: int = TOPIC) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]}


def say_describe_topic_configs(talk: Talk) -> None:
    topic = talk.raw.create(configs={"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    for version in ranged("describe_configs", 4):
        answer = talk(
            "some", "describe_configs", version, **described(topic, ["retention.ms", "segment.ms", "nonsense"])
        )
        asked = described(topic, ["retention.ms", "max.message.bytes", "cleanup.policy"])
        talk("synonyms", "describe_configs", version, **asked, include_synonyms=True)
        talk("unknown topic", "describe_configs", version, **described(talk.raw.name("no")))
        talk("bad name", "describe_configs", version, **described("a b"))
        for step, name in (("stranger", str(talk.raw.node_id + 77)), ("not a number", "abc")):
            talk(f"broker: {step}", "describe_configs", version, **described(name, kind=BROKER))
        talk("no such kind", "describe_configs", version, **described("x", kind=99))
        talk("none", "describe_configs", version, resources=[])
    answer = talk.raw.ask("describe_configs", 4, **described(topic), include_synonyms=True)
    entries = {entry["name"]: talk.normal(entry) for entry in answer["results"][0]["configs"]}
    del entries["min.insync.replicas"]  # `kafka-storage format` writes it as a cluster-wide config
    talk.answers["every topic config"] = dict(sorted(entries.items()))


def operation(name: str, kind: int, value: str | None) -> Fields:
    return {"name": name, "config_operation": kind, "value": value}


def changed(name: str, *operations: Fields, kind: int = TOPIC) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": list(operations)}]}


STEPS: dict[str, tuple[Fields, ...]] = {
    "set": (operation("retention.ms", SET, "5"),),
    "set null": (operation("retention.ms", SET, None),),
    "set badly": (operation("retention.ms", SET, "x"),),
    "set too small": (operation("segment.bytes", SET, "5"),),
    "delete": (operation("retention.ms", DELETE, None),),
    "delete again": (operation("retention.ms", DELETE, None),),
    "delete nonsense": (operation("nonsense", DELETE, None),),
    "set nonsense": (operation("nonsense", SET, "1"),),
    "append to a number": (operation("retention.ms", APPEND, "7"),),
    "append": (operation("cleanup.policy", APPEND, "compact"),),
    "append again": (operation("cleanup.policy", APPEND, "compact"),),
    "subtract": (operation("cleanup.policy", SUBTRACT, "delete"),),
    "subtract the absent": (operation("cleanup.policy", SUBTRACT, "nothing"),),
    "one key twice": (operation("retention.ms", SET, "1"), operation("retention.ms", SET, "2")),
    "several": (operation("retention.ms", SET, "99"), operation("cleanup.policy", DELETE, None)),
    "one of two is bad": (operation("retention.ms", SET, "100"), operation("segment.ms", SET, "x")),
    "nothing": (),
}


def say_incremental_alter_configs(talk: Talk) -> None:
    for version in ranged("incremental_alter_configs", 1):
        topic = talk.raw.create(f"v{version}")
        for step, operations in STEPS.items():
            talk(step, "incremental_alter_configs", version, **changed(topic, *operations))
            settle(talk, topic)
            asked = described(topic, ["retention.ms", "cleanup.policy", "segment.ms"])
            talk(f"after {step}, v{version}", "describe_configs", 4, **asked)
        only = changed(topic, operation("retention.ms", SET, "77"))
        talk("only checked", "incremental_alter_configs", version, **only, validate_only=True)
        only = changed(topic, operation("retention.ms", SET, "x"))
        talk("only checked, bad", "incremental_alter_configs", version, **only, validate_only=True)
        asked = changed(talk.raw.name("no"), operation("retention.ms", SET, "5"))
        talk("unknown topic", "incremental_alter_configs", version, **asked)
        talk("empty name", "incremental_alter_configs", version, **changed("", operation("retention.ms", SET, "5")))
        talk("no such kind", "incremental_alter_configs", version, **changed("x", kind=99))
        twice = {"resources": changed(topic)["resources"] * 2}
        talk("one topic twice", "incremental_alter_configs", version, **twice)


def settle(talk: Talk, topic: str) -> None:
    """A config set last is applied last: once it shows, whatever went before it shows as well."""
    marks = talk.__dict__.setdefault("marks", iter(range(1, 1_000_000)))
    mark = str(next(marks))
    operations = changed(topic, operation("file.delete.delay.ms", SET, mark))
    answer = talk.raw.ask("incremental_alter_configs", 1, **operations)
    assert answer["responses"][0]["error_code"] == 0, answer
    wait_until(lambda: config(talk, topic, "file.delete.delay.ms") == mark)


def config(talk: Talk, topic: str, key: str) -> str | None:
    answer = talk.raw.ask("describe_configs", 4, **described(topic, [key]))
    value: str | None = answer["results"][0]["configs"][0]["value"]
    return value


def say_alter_configs(talk: Talk) -> None:
    for version in ranged("alter_configs", 2):
        topic = talk.raw.create(f"v{version}", configs={"retention.ms": "5"})
        steps: dict[str, dict[str, str | None]] = {
            "replaces all": {"segment.ms": "700000", "file.delete.delay.ms": "60001"},
            "bad": {"segment.ms": "x"},
            "nonsense": {"nonsense": "x"},
            "null": {"segment.ms": None},
        }
        for step, entries in steps.items():
            configs = [{"name": key, "value": value} for key, value in entries.items()]
            talk(step, "alter_configs", version, **changed(topic, *configs))
        wait_until(lambda topic=topic: config(talk, topic, "file.delete.delay.ms") == "60001")  # type: ignore[misc]
        asked = described(topic, ["retention.ms", "segment.ms", "file.delete.delay.ms"])
        talk(f"replaced, v{version}", "describe_configs", 4, **asked)
        talk("unknown topic", "alter_configs", version, **changed(talk.raw.name("no")))
        checked = changed(topic, {"name": "segment.ms", "value": "800000"})
        talk("only checked", "alter_configs", version, **checked, validate_only=True)
        talk("emptied", "alter_configs", version, **changed(topic))
        wait_until(lambda topic=topic: config(talk, topic, "file.delete.delay.ms") == "60000")  # type: ignore[misc]
        talk(f"emptied, v{version}", "describe_configs", 4, **asked)


def say_alter_broker_configs(talk: Talk) -> None:
    node = str(talk.raw.node_id)
    for step, name, entry in (
        ("read-only", node, operation("log.dirs", SET, "/x")),
        ("stranger", str(talk.raw.node_id + 77), operation("log.retention.ms", SET, "1")),
        ("not a number", "abc", operation("log.retention.ms", SET, "1")),
        ("bad value", node, operation("log.retention.ms", SET, "x")),
        ("read-only default", "", operation("node.id", SET, "5")),
    ):
        asked = changed(name, entry, kind=BROKER)
        talk(step, "incremental_alter_configs", 1, **asked)
    topic = talk.raw.create()
    for step, name, value in (("of this node", node, "5000000"), ("of all nodes", "", "6000000")):
        talk(
            f"set {step}",
            "incremental_alter_configs",
            1,
            **changed(name, operation("log.retention.ms", SET, value), kind=BROKER),
        )
        settle(talk, topic)
        talk(
            f"topic after set {step}",
            "describe_configs",
            4,
            **described(topic, ["retention.ms"]),
            include_synonyms=True,
        )
        asked = described(node, ["log.retention.ms"], BROKER)
        talk(f"node after set {step}", "describe_configs", 4, **asked, include_synonyms=True)
    for name in (node, ""):
        asked = changed(name, operation("log.retention.ms", DELETE, None), kind=BROKER)
        talk(f"delete of {'all nodes' if not name else 'this node'}", "incremental_alter_configs", 1, **asked)
    settle(talk, topic)
    talk("topic after all", "describe_configs", 4, **described(topic, ["retention.ms"]), include_synonyms=True)


def say_group_configs(talk: Talk) -> None:
    group = talk.raw.name("group")
    for version in ranged("describe_configs", 4):
        for step, name in (("any group", group), ("no name", "")):
            keys = [
                "consumer.session.timeout.ms",
                "consumer.heartbeat.interval.ms",
                "share.isolation.level",
                "nonsense",
            ]
            asked = described(name, keys, GROUP)
            talk(step, "describe_configs", version, **asked, include_synonyms=True)
    answer = talk.raw.ask("describe_configs", 4, **described(group, kind=GROUP), include_synonyms=True)
    entries = {entry["name"]: talk.normal(entry) for entry in answer["results"][0]["configs"]}
    talk.answers["every group config"] = dict(sorted(entries.items()))
    for name, value in (
        ("consumer.session.timeout.ms", "x"),
        ("consumer.session.timeout.ms", "1"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", None),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("share.isolation.level", "read_nothing"),
        ("nonsense", "1"),
    ):
        asked = changed(group, operation(name, SET, value), kind=GROUP)
        talk(f"{name} = {value}", "incremental_alter_configs", 1, **asked)
    wanted = operation("consumer.session.timeout.ms", SET, "50000")
    talk("no name", "incremental_alter_configs", 1, **changed("", wanted, kind=GROUP))
    topic = talk.raw.create()
    for step, edit in (("set", wanted), ("deleted", operation("consumer.session.timeout.ms", DELETE, None))):
        talk(step, "incremental_alter_configs", 1, **changed(group, edit, kind=GROUP))
        settle(talk, topic)
        asked = described(group, ["consumer.session.timeout.ms"], GROUP)
        talk(f"after {step}", "describe_configs", 4, **asked, include_synonyms=True)
        talk(f"listed after {step}", "list_config_resources", 1, resource_types=[GROUP])
    replaced = changed(group, {"name": "consumer.session.timeout.ms", "value": "51000"}, kind=GROUP)
    talk("replaced", "alter_configs", 2, **replaced)


def say_log_levels(talk: Talk) -> None:
    node, stranger = str(talk.raw.node_id), str(talk.raw.node_id + 77)
    for step, edit in (
        ("set", operation("root", SET, "ERROR")),
        ("set badly", operation("root", SET, "LOUD")),
        ("set null", operation("root", SET, None)),
        ("deleted", operation("root", DELETE, None)),
        ("appended", operation("root", APPEND, "INFO")),
        ("unknown logger", operation("no.such.logger", SET, "INFO")),
    ):
        talk(step, "incremental_alter_configs", 1, **changed(node, edit, kind=LOGGER))
        talk(f"after {step}", "describe_configs", 4, **described(node, ["root"], LOGGER), include_synonyms=True)
    checked = changed(node, operation("root", SET, "WARN"), kind=LOGGER)
    talk("only checked", "incremental_alter_configs", 1, **checked, validate_only=True)
    talk("after only checked", "describe_configs", 4, **described(node, ["root"], LOGGER))
    for step, name in (("stranger", stranger), ("no name", ""), ("not a number", "abc")):
        asked = changed(name, operation("root", SET, "WARN"), kind=LOGGER)
        talk(step, "incremental_alter_configs", 1, **asked)
        talk(step, "describe_configs", 4, **described(name, kind=LOGGER))
    talk("replaced", "alter_configs", 2, **changed(node, {"name": "root", "value": "WARN"}, kind=LOGGER))
    talk("listed", "list_config_resources", 1, resource_types=[LOGGER])
    talk.raw.ask("incremental_alter_configs", 1, **changed(node, operation("root", SET, "INFO"), kind=LOGGER))
