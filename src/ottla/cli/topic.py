"""`ottla topic …`"""

from typing import Annotated, Any

import typer
from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from ottla.cli.config import alter_config, changed_settings
from ottla.cli.connection import Target, explained
from ottla.cli.failure import Misused
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Settings, Timeout, Yes, confirm
from ottla.cli.output import count_of, print_json, print_table
from ottla.cli.properties import parse_pairs
from ottla.cli.report import Outcome, report

_URL_SAFE = str.maketrans("+/", "-_", "=")
Names = Annotated[list[str], typer.Argument(metavar="TOPIC…", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


def register(app: typer.Typer) -> None:
    topics = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)
    for command in (create, list_, describe, alter, add_partitions, delete_records, delete):
        topics.command(name=command.__name__.strip("_").replace("_", "-"))(command)
    app.add_typer(topics, name="topic")


def create(
    names: Names,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="-1: as the broker likes.")] = -1,
    replicas: Annotated[int, typer.Option("--replication-factor", "-r", help="-1: as the broker likes.")] = -1,
    settings: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is there will do.")] = False,
    dry_run: Annotated[bool, typer.Option("--validate-only", help="Only ask whether it would work.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Create topics."""
    target = Target(bootstrap, command_config, timeout)
    config = parse_pairs(settings, "--config")
    admin = target.admin()
    asked = [NewTopic(name, partitions, replicas, config=config) for name in names]
    with explained(target):
        futures = admin.create_topics(asked, validate_only=dry_run)
    done = "would be created" if dry_run else "created"
    tolerated = {KafkaError.TOPIC_ALREADY_EXISTS} if if_not_exists else set()
    report(target, admin, futures, Outcome("topic", done, tolerated, as_json))


def list_(
    internal: Annotated[bool, typer.Option("--internal", help="Also the topics the cluster keeps for itself.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """List the topics and their partition and replica counts."""
    target = Target(bootstrap, command_config, timeout)
    topics = []
    for name, topic in sorted(target.metadata(target.admin()).topics.items()):
        if internal or not name.startswith("__"):
            replicas = max((len(p.replicas) for p in topic.partitions.values()), default=0)
            topics.append({"name": name, "partitions": len(topic.partitions), "replication_factor": replicas})
    if as_json:
        print_json(topics)
    else:
        print_table(["TOPIC", "PARTITIONS", "REPLICAS"], [list(topic.values()) for topic in topics])


def describe(
    names: Names,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show a topic's id, its changed settings, and its partitions with their offsets."""
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    with explained(target):
        futures = admin.describe_topics(TopicCollection(names))
    described = [_described(target, admin, target.outcome(future, admin, name)) for name, future in futures.items()]
    if as_json:
        print_json(described)
        return
    for topic in described:
        print(f"{topic['name']}  id {topic['id']}")
        for name, value in topic["config"].items():
            print(f"  {name}={value}")
        columns = ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST OFFSET", "NEXT OFFSET"]
        print_table(columns, [[_cell(value) for value in partition.values()] for partition in topic["partitions"]])


def alter(
    name: Name,
    settings: Annotated[list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Repeatable.")] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", "-u", metavar="NAME", help="Repeatable.")] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Change settings of a topic."""
    changes = {**parse_pairs(settings, "--set"), **dict.fromkeys(unset or ())}
    if not changes:
        raise Misused("nothing to change: give --set NAME=VALUE or --unset NAME")
    alter_config(Target(bootstrap, command_config, timeout), "topic", name, changes, as_json)


def add_partitions(
    name: Name,
    total: Annotated[int, typer.Option("--total", "-t", min=1, help="How many partitions the topic shall have.")],
    dry_run: Annotated[bool, typer.Option("--validate-only", help="Only ask whether it would work.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Give a topic more partitions. Keys may move: a key's partition depends on the count."""
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    with explained(target):
        futures = admin.create_partitions([NewPartitions(name, total)], validate_only=dry_run)
    done = f"{'would have' if dry_run else 'has'} {count_of(total, 'partition')}"
    report(target, admin, futures, Outcome("topic", done, as_json=as_json))


def delete_records(
    name: Name,
    partition: Annotated[int, typer.Option("--partition", "-p", min=0)],
    before: Annotated[str, typer.Option("--before", metavar="OFFSET", help="First offset to keep, or `end`.")],
    yes: Yes = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete a partition's records before an offset."""
    if before != "end" and not before.isdecimal():
        raise Misused(f"--before takes an offset or `end`, not {before!r}")
    confirm(f"Delete the records of {name}-{partition} before {before}?", yes)
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    offset = -1 if before == "end" else int(before)
    with explained(target):
        futures = admin.delete_records([TopicPartition(name, partition, offset)])
    for future in futures.values():
        low = target.outcome(future, admin, f"{name}-{partition}").low_watermark
        if as_json:
            print_json({"topic": name, "partition": partition, "first_offset": low})
        else:
            print(f"{name}-{partition} now starts at offset {low}")


def delete(
    names: Names,
    yes: Yes = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there will do.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete topics and all their records. Asks first when a person is typing."""
    confirm(f"Delete {', '.join(names)} and all records?", yes)
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    with explained(target):
        futures = admin.delete_topics(names)
    tolerated = {KafkaError.UNKNOWN_TOPIC_OR_PART} if if_exists else set()
    report(target, admin, futures, Outcome("topic", "deleted", tolerated, as_json))


def _described(target: Target, admin: AdminClient, topic: Any) -> dict[str, Any]:
    first, following = (_offsets(target, admin, topic, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
    return {
        "name": topic.name,
        # As Kafka's tools write it; librdkafka has the other alphabet of base64.
        "id": str(topic.topic_id).translate(_URL_SAFE),
        "internal": topic.is_internal,
        "config": changed_settings(target, admin, "topic", topic.name),
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "first_offset": first.get(partition.id),
                "next_offset": following.get(partition.id),
            }
            for partition in topic.partitions
        ],
    }


def _offsets(target: Target, admin: AdminClient, topic: Any, spec: OffsetSpec) -> dict[int, int]:
    asked = {TopicPartition(topic.name, p.id): spec for p in topic.partitions if p.leader}
    if not asked:
        return {}
    with explained(target):
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    return {place.partition: target.outcome(future, admin).offset for place, future in futures.items()}


def _cell(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
