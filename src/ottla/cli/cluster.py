"""`ottla cluster …`"""

from typing import Any

import typer

from ottla.cli.connection import Target, explained
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import print_json, print_table


def register(app: typer.Typer) -> None:
    clusters = typer.Typer(help="Look at a cluster.", no_args_is_help=True)
    clusters.command()(describe)
    app.add_typer(clusters, name="cluster")


def describe(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show the cluster's id, its controller and its brokers."""
    target = Target(bootstrap, command_config, timeout)
    admin = target.admin()
    with explained(target):
        future = admin.describe_cluster(request_timeout=timeout)
    found = target.outcome(future, admin)
    controller = found.controller.id if found.controller else None
    brokers = [_broker(node) for node in sorted(found.nodes, key=lambda node: node.id)]
    if as_json:
        print_json({"cluster_id": found.cluster_id, "controller": controller, "brokers": brokers})
        return
    print(f"cluster {found.cluster_id}")
    rows = [[b["id"], f"{b['host']}:{b['port']}", b["rack"], "yes" if b["id"] == controller else ""] for b in brokers]
    print_table(["BROKER", "ADDRESS", "RACK", "CONTROLLER"], rows)


def _broker(node: Any) -> dict[str, Any]:
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
