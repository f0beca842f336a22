"""`ottla group …`"""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from ottla.cli.connection import Target, explained, reason
from ottla.cli.failure import Failed, Misused
from ottla.cli.group_offsets import committed_offsets, end_offsets
from ottla.cli.group_reset import reset
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout, Yes, confirm
from ottla.cli.output import print_json, print_table
from ottla.cli.places import Place, place_name
from ottla.cli.report import Outcome, report

Groups = Annotated[list[str], typer.Argument(metavar="GROUP…", show_default=False)]
STATES = {state.name.lower().replace("_", "-"): state for state in ConsumerGroupState}
TYPES = {kind.name.lower(): kind for kind in ConsumerGroupType}


def register(app: typer.Typer) -> None:
    groups = typer.Typer(help="List, describe, reset and delete consumer groups; show their lag.", no_args_is_help=True)
    for command in (list_, describe, lag, reset, delete):
        groups.command(name=command.__name__.strip("_"))(command)
    app.add_typer(groups, name="group")


def list_(
    states: Annotated[list[str] | None, typer.Option("--state", help=f"{', '.join(STATES)}. Repeatable.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help=f"{', '.join(TYPES)}. Repeatable.")] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """List the groups, their types and states."""
    target = Target(bootstrap, command_config, timeout)
    filters: dict[str, Any] = {}
    if states:
        filters["states"] = {_chosen(STATES, state, "--state") for state in states}
    if types:
        filters["types"] = {_chosen(TYPES, kind, "--type") for kind in types}
    admin = target.admin()
    with explained(target):
        future = admin.list_consumer_groups(**filters)
    found = target.outcome(future, admin)
    if found.errors:
        raise Failed("; ".join(reason(error.args[0]) for error in found.errors))
    listed = sorted(found.valid or (), key=lambda group: group.group_id)
    rows = [{"group": one.group_id, "type": _word(one.type), "state": _word(one.state)} for one in listed]
    if as_json:
        print_json(rows)
    else:
        print_table(["GROUP", "TYPE", "STATE"], [list(row.values()) for row in rows])


def describe(
    groups: Groups,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show a group's state, and its members with what is assigned to them."""
    target = Target(bootstrap, command_config, timeout)
    described = [_shown(group) for group in described_groups(target, target.admin(), groups)]
    if as_json:
        print_json(described)
        return
    for group in described:
        coordinator, assignor = group["coordinator"] or "-", group["assignor"] or "-"
        print(f"{group['group']}  {group['type']}  {group['state']}  coordinator {coordinator}  assignor {assignor}")
        rows = [
            [one["member"], one["instance"] or "-", one["client"], one["host"], _places(one["assignment"])]
            for one in group["members"]
        ]
        if rows:
            print_table(["MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT"], rows)


def lag(
    groups: Groups,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show how far a group is behind the end of each partition, and who works on it."""
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    rows = [
        row
        for group in described_groups(target, admin, groups)
        for row in _lag_rows(target, admin, group)  # one group after the other: the output has their order
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"]
    print_table(columns, [["-" if cell is None else cell for cell in row.values()] for row in rows])


def delete(
    groups: Groups,
    yes: Yes = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete groups and their offsets. Asks first when a person is typing."""
    confirm(f"Delete {', '.join(groups)} and all offsets?", yes)
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    with explained(target):
        futures = admin.delete_consumer_groups(groups)
    report(target, admin, futures, Outcome("group", "deleted", as_json=as_json))


def described_groups(target: Target, admin: AdminClient, names: Iterable[str]) -> list[Any]:
    """The groups as the cluster describes them; one that is not there is a failure."""
    with explained(target):
        futures = admin.describe_consumer_groups(list(dict.fromkeys(names)))
    groups = [target.outcome(future, admin, name) for name, future in futures.items()]
    for group in groups:
        if group.state == ConsumerGroupState.DEAD:
            raise Failed(f"{group.group_id}: there is no such group")
    return groups


def _shown(group: Any) -> dict[str, Any]:
    members = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.host,
            "assignment": [{"topic": topic, "partition": partition} for topic, partition in _assigned(member)],
        }
        for member in group.members
    ]
    node = group.coordinator
    return {
        "group": group.group_id,
        "type": _word(group.type),
        "state": _word(group.state),
        "assignor": group.partition_assignor or None,
        "coordinator": None if node is None else f"{node.host}:{node.port}",
        "members": sorted(members, key=lambda member: (member["client"], member["member"])),
    }


def _lag_rows(target: Target, admin: AdminClient, group: Any) -> list[dict[str, Any]]:
    owners = {place: member.member_id for member in group.members for place in _assigned(member)}
    committed = committed_offsets(target, admin, group.group_id)
    places = sorted(committed.keys() | owners.keys())
    ends = end_offsets(target, admin, places)
    rows = []
    for place in places:
        offset, end = committed.get(place), ends.get(place)
        behind = None if offset is None or end is None else max(end - offset, 0)
        topic, partition = place
        rows.append(
            {
                "group": group.group_id,
                "topic": topic,
                "partition": partition,
                "committed": offset,
                "end": end,
                "lag": behind,
                "member": owners.get(place),
            }
        )
    return rows


def _assigned(member: Any) -> list[Place]:
    return sorted((one.topic, one.partition) for one in member.assignment.topic_partitions)


def _places(assignment: list[dict[str, Any]]) -> str:
    return " ".join(place_name((one["topic"], one["partition"])) for one in assignment) or "-"


def _word(value: Any) -> str:
    return "unknown" if value is None else str(value.name).lower().replace("_", "-")


def _chosen(known: dict[str, Any], name: str, option: str) -> Any:
    if name.lower() not in known:
        raise Misused(f"{option} takes {', '.join(known)}, not {name!r}")
    return known[name.lower()]
