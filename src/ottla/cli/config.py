"""`ottla config …`: the settings of topics, brokers and groups."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from ottla.cli.connection import Target, explained
from ottla.cli.failure import Failed
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import print_json, print_table
from ottla.cli.properties import parse_pairs


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


Of = Annotated[Kind, typer.Argument(metavar="topic|broker|group", show_default=False)]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic's or a group's name, or a broker's id.", show_default=False)
]

_TYPES = {
    Kind.TOPIC: ConfigResource.Type.TOPIC,
    Kind.BROKER: ConfigResource.Type.BROKER,
    Kind.GROUP: ConfigResource.Type.GROUP,
}


def register(app: typer.Typer) -> None:
    configs = typer.Typer(help="Show and change settings of topics, brokers and groups.", no_args_is_help=True)
    for command in (describe, set_, unset):
        configs.command(name=command.__name__.strip("_"))(command)
    app.add_typer(configs, name="config")


def describe(
    of: Of,
    name: Name,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also what has its default value.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show the settings that differ from Kafka's defaults; with --all, every setting."""
    target = Target(bootstrap, command_config, timeout)
    entries = _entries(target, target.admin(), of, name)
    rows = [_row(entry) for entry in entries if everything or not _is_default(entry)]
    if as_json:
        print_json(rows)
    else:
        columns = ["NAME", "VALUE", "SOURCE", "READ ONLY"]
        print_table(columns, [[r["name"], r["value"], r["source"], "yes" if r["read_only"] else ""] for r in rows])


def set_(
    of: Of,
    name: Name,
    pairs: Annotated[list[str], typer.Argument(metavar="SETTING=VALUE…", show_default=False)],
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Change settings; the others stay as they are."""
    alter_config(Target(bootstrap, command_config, timeout), of, name, parse_pairs(pairs, "set"), as_json)


def unset(
    of: Of,
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="SETTING…", show_default=False)],
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Give settings back to their defaults."""
    alter_config(Target(bootstrap, command_config, timeout), of, name, dict.fromkeys(settings), as_json)


def alter_config(target: Target, of: str, name: str, changes: Mapping[str, str | None], as_json: bool) -> None:
    """Set what has a text, unset what has None."""
    entries = [
        ConfigEntry(
            setting,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for setting, value in changes.items()
    ]
    admin = target.admin()
    with explained(target):
        futures = admin.incremental_alter_configs([_resource(target, admin, of, name, entries)])
    for future in futures.values():
        target.outcome(future, admin, f"{of} {name}")
    if as_json:
        print_json({str(of): name, "changed": dict(changes)})
        return
    for setting, value in changes.items():
        print(f"{of} {name}: {setting} " + ("is back to its default" if value is None else f"= {value}"))


def changed_settings(target: Target, admin: AdminClient, of: str, name: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in _entries(target, admin, of, name) if not _is_default(entry)}


def _entries(target: Target, admin: AdminClient, of: str, name: str) -> list[Any]:
    with explained(target):
        futures = admin.describe_configs([_resource(target, admin, of, name)])
    described = [target.outcome(future, admin, f"{of} {name}") for future in futures.values()]
    return [entry for entries in described for _, entry in sorted(entries.items())]


def _resource(target: Target, admin: AdminClient, of: str, name: str, changes: list[Any] | None = None) -> Any:
    if of == Kind.BROKER:
        brokers = target.metadata(admin).brokers
        # The client library would wait for a broker that is not there until the patience ends.
        if name not in map(str, brokers):
            raise Failed(f"there is no broker {name!r}; there is {', '.join(map(str, sorted(brokers)))}")
    return ConfigResource(_TYPES[Kind(of)], name, incremental_configs=changes)


def _is_default(entry: Any) -> bool:
    return bool(entry.is_default) or entry.source in (
        ConfigSource.DEFAULT_CONFIG.value,
        ConfigSource.DEFAULT_CONFIG,
    )


def _row(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": _source(entry.source),
        "read_only": bool(entry.is_read_only),
        "sensitive": bool(entry.is_sensitive),
    }


def _source(number: int) -> str:
    try:
        return ConfigSource(number).name.lower()
    except ValueError:
        return f"source_{number}"
