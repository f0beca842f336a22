"""Good requests of the group APIs and of the rarer admin APIs. None of them waits, joins or changes anything."""

from __future__ import annotations

import uuid

from tests.compat.wire import Fields

GROUP = {"group_id": "fuzz"}
MEMBER = {**GROUP, "generation_id": 1, "member_id": "nobody"}
STRANGER_NODE = 77_777


def group_requests(topic: str, topic_id: uuid.UUID) -> dict[str, Fields]:
    place = {"name": topic, "topic_id": topic_id}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    fetched = [{**GROUP, "topics": [{**place, "partition_indexes": [0, 1]}]}]
    return {
        "offset_commit": {
            **GROUP,
            "member_id": "nobody",
            "generation_id_or_member_epoch": 1,
            "topics": [{**place, "partitions": [offset]}],
        },
        "offset_fetch": {**GROUP, "topics": [{"name": topic, "partition_indexes": [0, 1]}], "groups": fetched},
        "find_coordinator": {"key": "fuzz", "coordinator_keys": ["fuzz", "other"]},
        # A session timeout of 0 is refused at once; a good one would wait for other members.
        "join_group": {
            **GROUP,
            "member_id": "nobody",
            "group_instance_id": "i",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"meta"}, {"name": "sticky", "metadata": b""}],
            "reason": "r",
        },
        "heartbeat": {**MEMBER, "group_instance_id": "i"},
        "leave_group": {**GROUP, "member_id": "nobody", "members": [{"member_id": "nobody", "group_instance_id": "i"}]},
        "sync_group": {
            **MEMBER,
            "protocol_type": "consumer",
            "assignments": [{"member_id": "nobody", "assignment": b"a"}],
        },
        "describe_groups": {"groups": ["fuzz", "other"]},
        "list_groups": {"states_filter": ["Stable"], "types_filter": ["classic"]},
        "delete_groups": {"groups_names": ["fuzz-no", "fuzz-nor-this"]},
        "offset_delete": {**GROUP, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]},
        "consumer_group_heartbeat": {
            **GROUP,
            "member_id": "nobody",
            "member_epoch": 5,
            "instance_id": "i",
            "rebalance_timeout": 1000,
            "subscribed_topic_names": [topic],
            "server_assignor": "range",
            "topic_partitions": [{"topic_id": topic_id, "partitions": [0, 1]}],
        },
        "consumer_group_describe": {"group_ids": ["fuzz", "other"]},
    }


def rare_requests(topic: str, node: int) -> dict[str, Fields]:
    feature = {"feature": "fuzz.version", "max_version_level": 1, "upgrade_type": 1}
    moved = {"partition_index": 0, "replicas": [node]}
    return {
        "elect_leaders": {"timeout": 1000, "topic_partitions": [{"topic": topic, "partitions": [0, 1]}]},
        "alter_partition_reassignments": {"timeout": 1000, "topics": [{"name": topic, "partitions": [moved]}]},
        "list_partition_reassignments": {"timeout": 1000, "topics": [{"name": topic, "partition_indexes": [0]}]},
        "update_features": {"timeout": 1000, "feature_updates": [feature], "validate_only": True},
        "unregister_broker": {"broker_id": STRANGER_NODE},
        "list_config_resources": {"resource_types": [2, 4]},
    }
