"""Apache Kafka's own decoder reads the records of transactions, and passes over those that are ours alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.core.transactions import codec
from ottla.core.transactions import records as r
from ottla.wire.batch import encode_batch, new_records

from .java import Missing, kafka_libs, run_kafka

pytestmark = pytest.mark.peers

EMPTY = r.Transaction(5, 0, 60_000, updated_ms=1_000)
ONGOING = EMPTY._replace(status=r.Status.ONGOING, partitions=frozenset({("t", 2), ("t", 1), ("u", 0)}), started_ms=900)
MOVING = ONGOING._replace(
    status=r.Status.PREPARE_COMMIT, previous_producer_id=5, next_producer_id=9, next_epoch=3, client_version=2
)
DECISION = r.GroupDecision(3, b"digest", 77, (r.Member("id", 5, 0),), (r.GroupOffset("g", "t", 0, 4),))

# What is written, and the part of Kafka's reading that must be there.
RECORDS: list[tuple[r.Record, dict[str, Any] | None]] = [
    (r.TransactionRecord("id", EMPTY, 0), {"producerId": 5, "transactionStatus": 0, "transactionPartitions": None}),
    (r.TransactionRecord("id", EMPTY), {"producerId": 5, "producerEpoch": 0, "transactionTimeoutMs": 60_000}),
    (
        r.TransactionRecord("id", ONGOING),
        {
            "transactionStatus": 1,
            "transactionStartTimestampMs": 900,
            "transactionLastUpdateTimestampMs": 1_000,
            "transactionPartitions": [{"topic": "t", "partitionIds": [1, 2]}, {"topic": "u", "partitionIds": [0]}],
        },
    ),
    (
        r.TransactionRecord("id", MOVING),
        {
            "transactionStatus": 2,
            "previousProducerId": 5,
            "nextProducerId": 9,
            "nextProducerEpoch": 3,
            "clientTransactionVersion": 2,
        },
    ),
    (r.TransactionRecord("id", None), None),
]
OURS = [r.DecisionRecord("lake", "q", DECISION), r.PinRecord("id", r.Pin("lake", "q", 3, 77, 5, 0))]


def dump(directory: Path, records: list[r.Record]) -> str:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))
    file = directory / "__transaction_state-0" / f"{0:020}.log"
    file.parent.mkdir()
    file.write_bytes(encode_batch(new_records([codec.encode(record) for record in records], 1_000)))
    tool = "org.apache.kafka.tools.DumpLogSegments"
    done = run_kafka(tool, "--transaction-log-decoder", "--files", str(file))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_apache_reads_every_record_of_the_transaction_log(tmp_path: Path) -> None:
    text = dump(tmp_path, [record for record, _ in RECORDS])
    payloads = re.findall(r"^\| offset: .* payload: (.*)$", text, re.MULTILINE)
    assert len(payloads) == len(RECORDS), text
    for payload, (record, expected) in zip(payloads, RECORDS, strict=True):
        if expected is None:
            assert payload == "<DELETE>"
            continue
        found = json.loads(payload)["data"]
        assert {key: found[key] for key in expected} == expected, record


def test_apache_passes_over_the_records_of_group_commits(tmp_path: Path) -> None:
    text = dump(tmp_path, [OURS[0], RECORDS[2][0], OURS[1]])
    assert text.count("Unknown record type") == len(OURS)
    assert text.count('"transactionalId":"id"') == 1
