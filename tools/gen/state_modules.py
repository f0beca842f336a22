"""Which of kio's records go into which module of `ottla.wire.state`."""

STATE_MODULES = {
    "consumer_protocol": ["consumer_protocol_subscription", "consumer_protocol_assignment"],
    "control_records": [
        "control_record_type_schema",
        "end_txn_marker",
        "leader_change_message",
        "snapshot_header_record",
        "snapshot_footer_record",
        "k_raft_version_record",
        "voters_record",
    ],
    "principal": ["default_principal_data"],
}
