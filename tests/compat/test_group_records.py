"""Apache Kafka's own decoder reads every kind of record that the group coordinator writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.core.groups import codec
from ottla.core.groups import records as r
from ottla.core.groups.asks import Client, Protocol
from ottla.wire.batch import encode_batch, new_records

from .java import Missing, kafka_libs, run_kafka

pytestmark = pytest.mark.peers

T = b"t" * 16
T_TEXT = "dHR0dHR0dHR0dHR0dHR0dA"
COMMITTED = r.CommittedOffset(5, 7, "m", 3)
PLAIN = r.Subscription("i", None, Client("c", "/h"), ("t",), None, 7, None)
CLASSIC = PLAIN._replace(classic=r.ClassicMembership(45, (Protocol("range", b"xx"),)), topic_regex="a.*")
MEMBER = r.GenerationMember("m", "inst", Client("c", "h"), 5, 6, b"S", b"A")

# What is written, and the part of Kafka's reading that must be there.
RECORDS: list[tuple[r.Record, dict[str, Any] | None]] = [
    (r.OffsetRecord("g", "t", 2, COMMITTED), {"offset": 5, "leaderEpoch": 7, "metadata": "m", "commitTimestamp": 3}),
    (
        r.OffsetRecord("g", "t", 2, COMMITTED._replace(leader_epoch=-1, expire_timestamp_ms=9)),
        {"offset": 5, "expireTimestamp": 9},
    ),
    (r.OffsetRecord("g", "t", 2, COMMITTED._replace(topic_id=T)), {"offset": 5, "topicId": T_TEXT}),
    (r.OffsetRecord("g", "t", 2, None), None),
    (
        r.GroupRecord("g", r.Generation("consumer", 4, "range", "m", 9, (MEMBER,))),
        {"protocolType": "consumer", "generation": 4, "leader": "m", "currentStateTimestamp": 9},
    ),
    (r.EpochRecord("g", r.Epoch(5, 77)), {"epoch": 5, "metadataHash": 77}),
    (r.TargetEpochRecord("g", r.TargetEpoch(5, 123)), {"assignmentEpoch": 5}),
    (
        r.TargetRecord("g", "m", frozenset({(T, 1), (T, 0)})),
        {"topicPartitions": [{"topicId": T_TEXT, "partitions": [0, 1]}]},
    ),
    (
        r.CurrentRecord("g", "m", r.Current(5, 4, 1, frozenset({(T, 0)}), frozenset({(T, 1)}))),
        {
            "memberEpoch": 5,
            "previousMemberEpoch": 4,
            "state": 1,
            "assignedPartitions": [{"topicId": T_TEXT, "partitions": [0]}],
            "partitionsPendingRevocation": [{"topicId": T_TEXT, "partitions": [1]}],
        },
    ),
    (r.MemberRecord("g", "m", PLAIN), {"instanceId": "i", "subscribedTopicRegex": "", "classicMemberMetadata": None}),
    (
        r.MemberRecord("g", "m", CLASSIC),
        {
            "subscribedTopicRegex": "a.*",
            "classicMemberMetadata": {
                "sessionTimeoutMs": 45,
                "supportedProtocols": [{"name": "range", "metadata": "eHg="}],
            },
        },
    ),
    (r.PatternRecord("g", "t*", r.ResolvedPattern(("t",), 1, 2)), {"topics": ["t"], "version": 1, "timestamp": 2}),
    (r.MemberRecord("g", "m", None), None),
]


def test_apache_reads_every_record_of_the_offsets_log(tmp_path: Path) -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))
    file = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    file.parent.mkdir()
    file.write_bytes(encode_batch(new_records([codec.encode(record) for record, _ in RECORDS], 1_000)))
    dump = run_kafka("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(file)).stdout
    payloads = re.findall(r"^\| offset: .* payload: (.*)$", dump, re.MULTILINE)
    assert len(payloads) == len(RECORDS), dump
    for payload, (record, expected) in zip(payloads, RECORDS, strict=True):
        if expected is None:
            assert payload == "<DELETE>"
            continue
        found = json.loads(payload)["data"]
        assert {key: found[key] for key in expected} == expected, record
