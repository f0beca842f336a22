"""Record the golden files: let Apache Kafka write partitions of every kind and keep them, with what they must contain.

Run by hand: `python -m tests.golden.record`. Needs Java and Maven; Apache Kafka itself stays outside the repository.
"""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.brokers import KafkaBroker, discard
from tests.compat.java import kafka_version

HERE = Path(__file__).resolve().parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000
CLEAN_SECONDS_MAX = 60
PARTITION_FILES = (
    "*.log",
    "*.index",
    "*.timeindex",
    "*.txnindex",
    "*.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
NODE_FILES = (
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)

TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {"compression.type": codec.replace("none", "producer")} for codec in CODECS},
    "segments": {"segment.ms": "10000", "index.interval.bytes": "100"},
    "transactions": {"segment.ms": "10000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "10000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "86400000",
    },
    "trimmed": {"segment.ms": "10000"},
}


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="golden-"))
    broker = KafkaBroker(root, {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000000"})
    broker.start()
    try:
        fill(broker)
        wait_for_cleaning(broker)
        expected = {topic: read(broker, topic) for topic in TOPICS}
        broker.stop()
        keep(broker, expected)
    finally:
        discard(broker)


def fill(broker: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(t, 1, 1, config=c) for t, c in TOPICS.items()]).values():
        future.result()
    plain = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for topic in TOPICS:
        if topic.startswith("codec-"):
            write_codec(plain, topic)
    idempotent = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "enable.idempotence": True})
    for topic in ("segments", "append-time", "trimmed"):
        write_segments(idempotent, topic)
    write_compacted(plain)
    write_transactions(broker)
    for future in admin.delete_records([TopicPartition("trimmed", 0, 13)]).values():
        future.result()


def write_codec(producer: Producer, topic: str) -> None:
    for at in range(3):
        headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("empty", b""), ("null", None)] if at == 1 else []
        for record in range(20):
            value = None if record == 7 else f"{at}-{record} ".encode() * 8
            key = None if record == 8 else f"key {record}".encode()
            producer.produce(topic, value, key, 0, timestamp=FIRST_MS + 1000 * at + record, headers=headers)
        producer.flush()


def write_segments(producer: Producer, topic: str) -> None:
    for at in range(30):
        producer.produce(topic, f"value {at}".encode(), f"key {at % 7}".encode(), 0, timestamp=FIRST_MS + 1000 * at)
        producer.flush()


def write_compacted(producer: Producer) -> None:
    for at in range(40):
        value = None if at % 10 == 3 else f"value {at}".encode()
        producer.produce("compacted", value, f"key {at % 8}".encode(), 0, timestamp=FIRST_MS + 1000 * at)
        producer.flush()


def write_transactions(broker: KafkaBroker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    producers = [Producer({**settings, "transactional.id": f"golden-{at}"}) for at in range(2)]
    for producer in producers:
        producer.init_transactions(30)
    for at in range(8):
        producer = producers[at % 2]
        producer.begin_transaction()
        for record in range(3):
            timestamp = FIRST_MS + 4000 * at + record
            producer.produce("transactions", f"{at}-{record}".encode(), f"{at}".encode(), 0, timestamp=timestamp)
            producer.flush()
        if at % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def wait_for_cleaning(broker: KafkaBroker) -> None:
    deadline = time.monotonic() + CLEAN_SECONDS_MAX
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    while not (checkpoint.exists() and "compacted 0" in checkpoint.read_text()):
        assert time.monotonic() < deadline, "the cleaner did not run"
        time.sleep(0.1)


def read(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    """Every record an uncommitted reader sees."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "golden", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    start, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[dict[str, Any]] = []
    while (message := consumer.poll(10)) is not None and not message.error():
        found.append(
            {
                "offset": message.offset(),
                "timestamp": message.timestamp()[1],
                "key": text(message.key()),
                "value": text(message.value()),
                "headers": [[name, text(value)] for name, value in list(message.headers() or ())],
            }
        )
    consumer.close()
    assert found, topic
    return found


def text(value: bytes | str | None) -> str | None:
    if value is None:
        return None
    raw = value.encode() if isinstance(value, str) else value
    return raw.decode() if raw.isascii() else "base64:" + base64.b64encode(raw).decode()


def keep(broker: KafkaBroker, expected: dict[str, list[dict[str, Any]]]) -> None:
    target = HERE / "kafka"
    shutil.rmtree(target, ignore_errors=True)
    for topic in TOPICS:
        copy(broker.partition_dir(topic), target / f"{topic}-0", PARTITION_FILES)
    copy(broker.metadata_log, target / "__cluster_metadata-0", (*PARTITION_FILES, "*.checkpoint", "quorum-state"))
    copy(broker.data_dir, target, NODE_FILES)
    (target / "expected.json").write_text(
        json.dumps({"kafka": kafka_version(), "records": expected}, separators=(",", ":")) + "\n"
    )


def copy(source: Path, target: Path, patterns: tuple[str, ...]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for file in source.glob(pattern):
            shutil.copyfile(file, target / file.name)


if __name__ == "__main__":
    main()
