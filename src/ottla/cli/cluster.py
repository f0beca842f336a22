"""`ottla cluster …`"""

from typing import Any

import typer

from ottla.cli.brokers import Brokers
from ottla.cli.connection import Target, explained
from ottla.cli.exchange import checked
from ottla.cli.failure import Failed
from ottla.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Timeout
from ottla.cli.output import count_of, print_json, print_table
from ottla.client.addresses import address_name
from ottla.client.failures import code_name


def register(app: typer.Typer) -> None:
    clusters = typer.Typer(help="Look at a cluster.", no_args_is_help=True)
    for command in (describe, quorum, log_dirs):
        clusters.command(name=command.__name__.replace("_", "-"))(command)
    app.add_typer(clusters, name="cluster")


def describe(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show the cluster's id, its controller and its brokers."""
    found = _described(Target(bootstrap, command_config, timeout))
    controller = found.controller.id if found.controller else None
    brokers = [_broker(node) for node in sorted(found.nodes, key=lambda node: node.id)]
    if as_json:
        print_json({"cluster_id": found.cluster_id, "controller": controller, "brokers": brokers})
        return
    print(f"cluster {found.cluster_id}")
    rows = [[b["id"], _address(b), b["rack"], "yes" if b["id"] == controller else ""] for b in brokers]
    print_table(["BROKER", "ADDRESS", "RACK", "CONTROLLER"], rows)


def quorum(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show who leads the metadata log, and how far its voters and observers are."""
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

    asked = RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])
    with Brokers(Target(bootstrap, command_config, timeout)) as brokers:
        answer = brokers.any().ask(DescribeQuorumRequest([asked]))
    checked(answer.error_code, answer.error_message)
    state = next((partition for topic in answer.topics for partition in topic.partitions), None)
    if state is None:
        raise Failed(f"{bootstrap} says nothing about its quorum")
    checked(state.error_code, state.error_message)
    replicas = [("voter", replica) for replica in state.current_voters]
    replicas += [("observer", replica) for replica in state.observers]
    members = [
        {
            "id": replica.replica_id,
            "role": "leader" if replica.replica_id == state.leader_id else role,
            "log_end_offset": replica.log_end_offset,
            "lag": max(0, state.high_watermark - replica.log_end_offset),
        }
        for role, replica in replicas
    ]
    shown = {"leader": state.leader_id, "epoch": state.leader_epoch, "high_watermark": state.high_watermark}
    if as_json:
        print_json({**shown, "members": members})
        return
    print(f"leader {state.leader_id} in epoch {state.leader_epoch}, high watermark {state.high_watermark}")
    print_table(["NODE", "ROLE", "LOG END", "LAG"], [list(member.values()) for member in members])


def log_dirs(
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Show each broker's log directories, their sizes, and the partitions in them."""
    from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    directories = []
    with Brokers(Target(bootstrap, command_config, timeout)) as brokers:
        for broker, exchange in brokers.every():
            answer = exchange.ask(DescribeLogDirsRequest(None))
            checked(answer.error_code)
            directories += [_directory(broker, result) for result in answer.results]
    if as_json:
        print_json(directories)
        return
    for found in directories:
        size = sum(partition["bytes"] for partition in found["partitions"])
        state = f"OFFLINE ({found['error']})" if found["error"] else f"{size:,} bytes"
        count = count_of(len(found["partitions"]), "partition")
        print(f"broker {found['broker']}  {found['directory']}  {count}, {state}")
        print_table(["TOPIC", "PARTITION", "BYTES"], [list(p.values()) for p in found["partitions"]])


def _described(target: Target) -> Any:
    admin = target.admin()
    with explained(target):
        future = admin.describe_cluster(request_timeout=target.timeout_s)
    return target.outcome(future, admin)


def _broker(node: Any) -> dict[str, Any]:
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}


def _address(broker: dict[str, Any]) -> str:
    return address_name((broker["host"], broker["port"]))


def _directory(broker: int, result: Any) -> dict[str, Any]:
    return {
        "broker": broker,
        "directory": result.log_dir,
        "error": code_name(result.error_code) if result.error_code else None,
        "total_bytes": result.total_bytes,
        "usable_bytes": result.usable_bytes,
        "partitions": [
            {"topic": topic.name, "partition": partition.partition_index, "bytes": partition.partition_size}
            for topic in sorted(result.topics, key=lambda topic: topic.name)
            for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        ],
    }
