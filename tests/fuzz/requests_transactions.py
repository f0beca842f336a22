"""Good requests of the transaction APIs. Their producer holds no transaction, so that nothing is begun or ended."""

from __future__ import annotations

from tests.compat.wire import Fields

PRODUCER = {"producer_id": 77_777, "producer_epoch": 3}
OWNER = {"transactional_id": "fuzz", **PRODUCER}
GROUP = {"group_id": "fuzz"}


def transaction_requests(topic: str) -> dict[str, Fields]:
    places = [{"name": topic, "partitions": [0, 1]}]
    joining = {**OWNER, "verify_only": True, "topics": places}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": 0, "committed_metadata": "m"}
    marker = {
        **PRODUCER,
        "transaction_result": False,
        "topics": [{"name": f"{topic}-no", "partition_indexes": [0, 1]}],
        "coordinator_epoch": 0,
    }
    return {
        "add_partitions_to_txn": {
            **{f"v3_and_below_{name}": value for name, value in OWNER.items()},
            "v3_and_below_topics": places,
            "transactions": [joining, {**joining, "transactional_id": "other"}],
        },
        "add_offsets_to_txn": {**OWNER, **GROUP},
        "end_txn": {**OWNER, "committed": False},
        "txn_offset_commit": {
            **OWNER,
            **GROUP,
            "generation_id": 1,
            "member_id": "nobody",
            "group_instance_id": "i",
            "topics": [{"name": topic, "partitions": [offset]}],
        },
        "write_txn_markers": {"markers": [marker]},
        "describe_transactions": {"transactional_ids": ["fuzz", "other"]},
        "list_transactions": {
            "state_filters": ["Ongoing"],
            "producer_id_filters": [77_777],
            "duration_filter": 5,
            "transactional_id_pattern": "f.*z",
        },
    }
