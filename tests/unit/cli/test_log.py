import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Broker
from ottla.wire.batch import read_header
from tests.unit.cli.conftest import Cli

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka"
SEGMENT = "00000000000000000000"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition that Apache Kafka wrote, to be damaged."""
    return Path(shutil.copytree(GOLDEN / "segments-0", tmp_path / "segments-0"))


def dump(ottla: Cli, path: Path, *options: str) -> tuple[int, list[dict[str, object]]]:
    code, out, _ = ottla("log", "dump", str(path), "--json", *options)
    return code, [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("directory", sorted(path.name for path in GOLDEN.glob("*-0")))
def test_what_apache_kafka_wrote_has_no_faults(ottla: Cli, directory: str) -> None:
    code, lines = dump(ottla, GOLDEN / directory, "--records")
    assert code == 0
    assert any(line["kind"] == "batch" for line in lines)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_those_a_consumer_read(ottla: Cli, codec: str) -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text())["records"][f"codec-{codec}"]
    _, lines = dump(ottla, GOLDEN / f"codec-{codec}-0", "--records")
    records = [line for line in lines if line["kind"] == "record"]
    assert [(r["offset"], r["timestamp"]) for r in records] == [(e["offset"], e["timestamp"]) for e in expected]


def test_markers_of_transactions_are_told(ottla: Cli) -> None:
    _, lines = dump(ottla, GOLDEN / "transactions-0", "--records")
    assert {line["type"] for line in lines if line["kind"] == "control"} == {"COMMIT", "ABORT"}


def test_the_metadata_log_is_spelt_out(ottla: Cli) -> None:
    _, lines = dump(ottla, GOLDEN / "__cluster_metadata-0", "--records")
    topics = {line["name"]: line["topic_id"] for line in lines if line.get("type") == "TopicRecord"}
    assert "codec-zstd" in topics and all(len(str(topic_id)) == 22 for topic_id in topics.values())
    partition = next(line for line in lines if line.get("type") == "PartitionRecord")
    assert partition["replicas"] == [1] and partition["topic_id"] in topics.values()


def test_what_coordinators_keep_is_spelt_out(ottla: Cli, tmp_path: Path) -> None:
    with Broker(topics=["orders"], data_dir=tmp_path) as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        consumer = Consumer({**settings, "group.id": "readers", "group.instance.id": "one"})
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        producer = Producer({**settings, "transactional.id": "writer"})
        producer.init_transactions(10)
    lines = [
        line
        for topic in ("__consumer_offsets", "__transaction_state")
        for directory in tmp_path.glob(f"{topic}-*")
        for line in dump(ottla, directory, "--records")[1]
        if line["kind"] == "state"
    ]
    [offset] = [line for line in lines if line["type"] == "OffsetRecord"]
    assert (offset["group_id"], offset["topic"], offset["partition"]) == ("readers", "orders", 0)
    assert isinstance(offset["value"], dict) and offset["value"]["offset"] == 7
    groups = [line["value"] for line in lines if line["type"] == "GroupRecord"]
    assert any(isinstance(group, dict) and group["members"][0]["group_instance_id"] == "one" for group in groups)
    assert any(line["type"] == "TransactionRecord" for line in lines)


def test_what_is_known_of_producers_is_shown(ottla: Cli, tmp_path: Path) -> None:
    with Broker(topics=["orders"], data_dir=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("orders", b"x")
        assert producer.flush(10) == 0
    [snapshot] = (tmp_path / "orders-0").glob("*.snapshot")
    code, [line] = dump(ottla, snapshot)
    assert (code, line["kind"], line["last_sequence"], line["last_offset"]) == (0, "producer", 0, 0)
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    assert dump(ottla, snapshot)[0] == 1


def test_batches_before_an_offset_are_left_out(ottla: Cli) -> None:
    _, lines = dump(ottla, GOLDEN / "segments-0", "--from", "25")
    assert [line["first_offset"] for line in lines if line["kind"] == "batch"] == [25, 26, 27, 28, 29]


def test_a_flipped_byte_is_a_fault(ottla: Cli, partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    code, lines = dump(ottla, partition)
    assert code == 1
    assert [(f["position"], f["what"]) for f in lines if f["kind"] == "fault"] == [(0, "the checksum does not fit")]


def test_a_torn_tail_is_a_fault_and_what_precedes_it_is_shown(ottla: Cli, partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    data = log.read_bytes()
    log.write_bytes(data[:-5])
    code, lines = dump(ottla, log)
    [fault] = [line for line in lines if line["kind"] == "fault"]
    assert code == 1 and "are left" in str(fault["what"])
    assert [line for line in lines if line["kind"] == "batch"]


def test_an_old_batch_behind_a_new_one_is_a_fault(ottla: Cli, partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    data = log.read_bytes()
    log.write_bytes(data + data[: read_header(data).size])
    code, lines = dump(ottla, log)
    assert code == 1
    assert any("begins at offset 0" in str(line.get("what")) for line in lines)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_points_elsewhere_is_a_fault(ottla: Cli, partition: Path, suffix: str) -> None:
    path = partition / f"{SEGMENT}{suffix}"
    data = bytearray(path.read_bytes())
    data[-1 if suffix == ".index" else -5] ^= 1
    path.write_bytes(data)
    code, lines = dump(ottla, partition)
    assert code == 1
    assert {line["file"] for line in lines if line["kind"] == "fault"} == {str(path)}


def test_an_index_that_goes_on_behind_its_log_is_a_fault(ottla: Cli, partition: Path) -> None:
    path = partition / f"{SEGMENT}.index"
    path.write_bytes(path.read_bytes() + (1000).to_bytes(4, "big") + (100_000).to_bytes(4, "big"))
    code, lines = dump(ottla, partition)
    assert code == 1 and any("behind the last batch" in str(line.get("what")) for line in lines)


def test_space_that_was_set_aside_in_an_index_is_no_fault(ottla: Cli, partition: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = partition / f"{SEGMENT}{suffix}"
        path.write_bytes(path.read_bytes() + bytes(240))
    assert dump(ottla, partition)[0] == 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_entries_of_an_index_are_shown(ottla: Cli, partition: Path, suffix: str) -> None:
    code, lines = dump(ottla, partition / f"{SEGMENT}{suffix}")
    assert code == 0 and lines and all(line["kind"] == "entry" for line in lines)


def test_an_empty_segment_is_no_fault(ottla: Cli, tmp_path: Path) -> None:
    (tmp_path / f"{SEGMENT}.log").touch()
    assert dump(ottla, tmp_path)[0] == 0


@pytest.mark.parametrize("data", [b"x" * 200, bytes(200), b"\xff" * 61])
def test_a_file_that_is_no_log_is_a_fault_and_no_crash(ottla: Cli, tmp_path: Path, data: bytes) -> None:
    (tmp_path / f"{SEGMENT}.log").write_bytes(data)
    assert dump(ottla, tmp_path, "--records")[0] == 1


def test_what_cannot_be_dumped_is_said(ottla: Cli, tmp_path: Path) -> None:
    assert ottla("log", "dump", str(tmp_path))[::2] == (1, f"ottla: {tmp_path} has no .log files\n")
    other = tmp_path / "meta.properties"
    other.touch()
    assert ottla("log", "dump", str(other))[0] == 2


def test_people_read_times_and_counts(ottla: Cli) -> None:
    code, out, _ = ottla("log", "dump", str(GOLDEN / "segments-0"), "--records")
    assert code == 0
    assert "next offset 30" in out and "T22:13:20" in out
