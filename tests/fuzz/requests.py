"""A good request of every API and version that a node serves; nothing they do is lasting or large."""

from __future__ import annotations

import uuid

from tests.compat.batches import batch
from tests.compat.raw import Raw
from tests.compat.wire import KEYS, Fields, versions

from .requests_groups import group_requests, rare_requests
from .requests_transactions import transaction_requests
from .shapes import Shape


def good_requests(raw: Raw, topic: str) -> dict[str, Fields]:
    """One dict an API; they fit all its versions."""
    topic_id, node = raw.topic_id(topic), raw.node_id
    return {
        **record_requests(topic, topic_id),
        **topic_requests(topic, node),
        **config_requests(topic),
        **describe_requests(topic),
        **group_requests(topic, topic_id),
        **rare_requests(topic, node),
        **transaction_requests(topic),
    }


def record_requests(topic: str, topic_id: uuid.UUID) -> dict[str, Fields]:
    place = {"topic": topic, "topic_id": topic_id}
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    data = {"name": topic, "topic_id": topic_id, "partition_data": [{"index": 0, "records": batch(b"v")}]}
    latest = [{"partition_index": 0, "timestamp": -1}]
    first = [{"partition_index": 0, "offset": 0}]
    epoch = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]
    return {
        "produce": {"acks": 1, "timeout": 1000, "topic_data": [data]},
        "fetch": {
            "replica_id": -1,
            "min_bytes": 1,
            "topics": [{**place, "partitions": [wanted]}],
            "forgotten_topics_data": [{**place, "partitions": [0, 1]}],
            "rack_id": "r",
        },
        "list_offsets": {"replica_id": -1, "topics": [{"name": topic, "partitions": latest}]},
        "delete_records": {"timeout": 1000, "topics": [{"name": topic, "partitions": first}]},
        "init_producer_id": {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        "offset_for_leader_epoch": {"replica_id": -1, "topics": [{"topic": topic, "partitions": epoch}]},
    }


def topic_requests(topic: str, node: int) -> dict[str, Fields]:
    """Checked and not done, or about topics that are not there."""
    wanted = {
        "name": f"{topic}-new",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [node]}],
        "configs": [{"name": "retention.ms", "value": "5"}],
    }
    grown = {"name": topic, "count": 2, "assignments": [{"broker_ids": [node]}]}
    return {
        "create_topics": {"timeout": 1000, "validate_only": True, "topics": [wanted]},
        "delete_topics": {
            "timeout": 1000,
            "topic_names": [f"{topic}-no", f"{topic}-nor-this"],
            "topics": [{"name": f"{topic}-no"}, {"name": None, "topic_id": uuid.UUID(int=77)}],
        },
        "create_partitions": {"timeout": 1000, "validate_only": True, "topics": [grown]},
    }


def config_requests(topic: str) -> dict[str, Fields]:
    resource = {"resource_type": 2, "resource_name": topic}
    entry = {"name": "retention.ms", "value": "604800000"}
    return {
        "describe_configs": {"resources": [{**resource, "configuration_keys": ["retention.ms", "segment.ms"]}]},
        "alter_configs": {"validate_only": True, "resources": [{**resource, "configs": [entry]}]},
        "incremental_alter_configs": {
            "validate_only": True,
            "resources": [{**resource, "configs": [{**entry, "config_operation": 0}]}],
        },
    }


def describe_requests(topic: str) -> dict[str, Fields]:
    return {
        "metadata": {"topics": [{"name": topic}], "allow_auto_topic_creation": False},
        "api_versions": {"client_software_name": "fuzz", "client_software_version": "1"},
        "describe_log_dirs": {"topics": [{"topic": topic, "partitions": [0, 1]}]},
        "describe_quorum": {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        "describe_cluster": {"endpoint_type": 1},
        "describe_producers": {"topics": [{"name": topic, "partition_indexes": [0, 1]}]},
        "describe_topic_partitions": {
            "topics": [{"name": topic}],
            "response_partition_limit": 10,
            "cursor": {"topic_name": topic, "partition_index": 0},
        },
    }


def shapes(raw: Raw, topic: str, api: str) -> list[Shape]:
    """The good request in every version that both kio and the node know."""
    advertised = {entry["api_key"]: entry for entry in raw.ask("api_versions", 0)["api_keys"]}[KEYS[api]]
    served = range(advertised["min_version"], advertised["max_version"] + 1)
    values = good_requests(raw, topic)[api]
    return [Shape(api, version, values) for version in versions(api) if version in served]


APIS = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "create_partitions",
    "delete_groups",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "offset_delete",
    "describe_quorum",
    "update_features",
    "describe_cluster",
    "describe_producers",
    "unregister_broker",
    "describe_transactions",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "list_config_resources",
    "describe_topic_partitions",
)
