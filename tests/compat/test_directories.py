"""Data directories change hands: Apache's tools read ours, each node opens the other's partitions."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from .brokers import Broker, KafkaBroker, OttlaBroker, discard
from .java import Missing, kafka_libs, run_kafka
from .raw import FOREVER, Raw

pytestmark = pytest.mark.peers

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    try:
        kafka_libs()
    except Missing as missing:
        pytest.skip(str(missing))


def dump(*arguments: str) -> str:
    done: subprocess.CompletedProcess[str] = run_kafka(DUMP, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def files(directory: Path, pattern: str) -> str:
    found = sorted(str(file) for file in directory.glob(pattern))
    assert found, f"no {pattern} in {directory}"
    return ",".join(found)


def fill(broker: Broker, topic: str, codec: str = "none", count: int = 300) -> None:
    """Records over several segments: the timestamps are a second apart and segments ten long."""
    settings = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 0, "batch.num.messages": 7}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for at in range(count):
        producer.produce(topic, f"value {at}" * 20, f"key {at % 9}", 0, timestamp=FIRST_MS + 100 * at)
        if at % 7 == 6:
            producer.flush(30)
    assert producer.flush(30) == 0


SEGMENTS = {**FOREVER, "segment.ms": "10000", "index.interval.bytes": "200"}


@pytest.fixture
def written(new_broker: Callable[[], Broker]) -> Broker:
    """A node that was stopped cleanly after it wrote a topic of each codec."""
    broker = new_broker()
    with Raw(broker.host, broker.port) as raw:
        raw.token = "t"
        for codec in CODECS:
            fill(broker, raw.create(codec, configs=SEGMENTS), codec)
    assert broker.stop() in (0, 143)
    return broker


def test_apache_reads_every_segment(written: Broker) -> None:
    for codec in CODECS:
        directory = written.partition_dir(f"t-{codec}")
        shown = dump("--deep-iteration", "--print-data-log", "--files", files(directory, "*.log"))
        assert shown.count("Log starting offset:") >= 2
        assert len(re.findall(r"^\| offset: \d+", shown, re.MULTILINE)) == 300
        assert "isvalid: false" not in shown
        assert f"compresscodec: {codec}" in shown
        assert "payload: value 299" in shown


def test_apache_finds_no_fault_in_the_indexes(written: Broker) -> None:
    directory = written.partition_dir("t-none")
    for pattern, entry in (
        ("*.index", r"^offset: \d+ position: [1-9]"),
        ("*.timeindex", r"^timestamp: \d+ offset: \d+"),
    ):
        names = files(directory, pattern)
        shown = dump("--index-sanity-check", "--files", names)
        assert shown.count("passed sanity check") == len(names.split(","))
        compared = dump("--files", names)
        assert re.search(entry, compared, re.MULTILINE), compared
        for fault in ("Mismatches", "mismatch", "out of order", "Found"):
            assert fault not in compared, compared


def test_apache_reads_the_producer_snapshots(written: Broker) -> None:
    directory = written.partition_dir("t-none")
    newest = max(directory.glob("*.snapshot"))
    assert int(newest.stem) == 300
    shown = dump("--files", str(newest))
    [entry] = re.findall(
        r"^producerId: (\d+) producerEpoch: 0 .* lastSequence: 299 lastOffset: 299 ", shown, re.MULTILINE
    )
    assert int(entry) >= 0


def test_apache_decodes_the_metadata_log(written: Broker) -> None:
    shown = dump("--cluster-metadata-decoder", "--files", files(written.metadata_log, "*.log"))
    for codec in CODECS:
        assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"t-{codec}"' in shown
    for record in (
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "PRODUCER_IDS_RECORD",
    ):
        assert f'"type":"{record}"' in shown, record
    assert "LeaderChange" in shown
    assert "Could not" not in shown
    assert "isvalid: false" not in shown


def test_apache_decodes_the_metadata_snapshots(written: Broker) -> None:
    shown = dump("--cluster-metadata-decoder", "--files", files(written.metadata_log, "*.checkpoint"))
    assert "SnapshotHeader" in shown
    assert "SnapshotFooter" in shown


def contents(broker: Broker, topic: str) -> list[tuple[int, int, int, int]]:
    """Every batch that the node serves."""
    with Raw(broker.host, broker.port) as raw:
        raw.wait_ready(topic)
        found, end = [], raw.list_offset(topic, -1)["offset"]
        offset = raw.list_offset(topic, -2)["offset"]
        while offset < end:
            for header in raw.batches(topic, offset):
                found.append((header.base_offset, header.last_offset, header.max_timestamp, header.producer_id))
            offset = found[-1][1] + 1
        return found


@pytest.mark.parametrize("clean", [True, False], ids=["with its indexes", "without them"])
@pytest.mark.parametrize(
    ("writer", "reader"), [(KafkaBroker, OttlaBroker), (OttlaBroker, KafkaBroker)], ids=["theirs", "ours"]
)
def test_partition_changes_hands(tmp_path: Path, writer: type[Broker], reader: type[Broker], clean: bool) -> None:
    first, second = writer(tmp_path / "first"), reader(tmp_path / "second")
    try:
        first.start()
        with Raw(first.host, first.port) as raw:
            topic = raw.create("moves", configs=SEGMENTS)
        fill(first, topic)
        expected = contents(first, topic)
        assert expected[-1][1] == 299
        first.stop()
        adopt(first, second, topic, clean)
        assert contents(second, topic) == expected
        with Raw(second.host, second.port) as raw:
            assert raw.list_offset(topic, FIRST_MS + 5000)["offset"] == 50
            assert raw.append(topic, b"goes on") == 300
    finally:
        for broker in (first, second):
            discard(broker)


def adopt(first: Broker, second: Broker, topic: str, clean: bool) -> None:
    """Put the first node's segments under the second one's topic of the same name."""
    second.start()
    with Raw(second.host, second.port) as raw:
        configs = [{"name": name, "value": value} for name, value in FOREVER.items()]
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        raw.ask("create_topics", 5, timeout=20_000, topics=[wanted])
        raw.wait_ready(topic)
    second.stop()
    source, target = first.partition_dir(topic), second.partition_dir(topic)
    for file in target.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata" and (clean or file.suffix == ".log"):
            shutil.copy(file, target)
    if not clean:
        (second.data_dir / ".kafka_cleanshutdown").unlink()
    second.start()
