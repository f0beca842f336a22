"""Directories that Apache Kafka wrote: opened, recovered, and compared byte for byte with what we make of them."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.base.types import TopicName, TopicPartition
from ottla.storage.checkpoint import OffsetCheckpoint
from ottla.storage.directory import LogDirectory
from ottla.storage.files import Files
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.storage.segment import CorruptLog
from ottla.wire.batch import decode_records, iter_headers
from tests.unit.storage.batches import everything

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka"
TOPICS = sorted(path.name.removesuffix("-0") for path in GOLDEN.glob("[a-z]*-0"))
INDEXES = (".index", ".timeindex", ".txnindex")


def config_of(topic: str) -> LogConfig:
    """What the topic was created with, as far as the shape of its files goes."""
    policy = ("compact",) if topic == "compacted" else ("delete",)
    return LogConfig(cleanup_policy=policy, index_interval_bytes=100 if topic == "segments" else 4096)


@cache
def expected() -> dict[str, list[dict[str, Any]]]:
    records: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "expected.json").read_text())["records"]
    return records


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "kafka")
    return tmp_path / "kafka"


def opened(directory: Path, topic: str, *, clean: bool) -> Log:
    key = TopicPartition(TopicName(topic), 0)
    start_offset = OffsetCheckpoint(directory / "log-start-offset-checkpoint", Files()).read().get(key, 0)
    return Log.open(LogPlace(directory, topic, 0), config_of(topic), LogStart(clean, 0, start_offset), 0)


def offsets_read(log: Log) -> list[tuple[int, int, str | None]]:
    """Offset, timestamp and value of what an uncommitted reader sees."""
    data = everything(log)
    return [
        (record.offset, record.timestamp, None if record.value is None else record.value.decode())
        for at, header in iter_headers(data)
        if not header.is_control
        for record in decode_records(data[at : at + header.size])
        if record.offset >= log.start_offset
    ]


def times_of_everything(log: Log) -> list[tuple[int, int]]:
    """Offset and timestamp, transaction markers too: a look-up by time finds them as Kafka's does."""
    data = everything(log)
    records = (record for at, header in iter_headers(data) for record in decode_records(data[at : at + header.size]))
    return [(record.offset, record.timestamp) for record in records if record.offset >= log.start_offset]


def names_and_bytes(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in suffixes}


def test_there_is_something_to_compare_with() -> None:
    assert {"segments", "transactions", "compacted", "trimmed", "append-time", "codec-zstd"} <= set(TOPICS)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_partition_of_kafka_is_read(copy: Path, topic: str, clean: bool) -> None:
    log = opened(copy, topic, clean=clean)
    assert log.has_recovered is not clean
    wanted = [(record["offset"], record["timestamp"], record["value"]) for record in expected()[topic]]
    assert offsets_read(log) == wanted
    times = times_of_everything(log)
    for offset, timestamp, _ in wanted:
        found = log.offset_for_timestamp(timestamp)
        assert found is not None
        assert found.offset == next(o for o, t in times if t >= timestamp)
        assert log.read(offset, 1, log.end_offset).size > 0


@pytest.mark.parametrize("topic", TOPICS)
def test_recovery_rebuilds_the_indexes_as_kafka_wrote_them(copy: Path, topic: str) -> None:
    partition = copy / f"{topic}-0"
    written = names_and_bytes(partition, *INDEXES)
    for path in partition.iterdir():
        if path.suffix in INDEXES:
            path.unlink()
    opened(copy, topic, clean=False).close()
    assert names_and_bytes(partition, *INDEXES) == written


@pytest.mark.parametrize("topic", TOPICS)
def test_opening_and_closing_cleanly_changes_no_byte(copy: Path, topic: str) -> None:
    partition = copy / f"{topic}-0"
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    opened(copy, topic, clean=True).close()
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


@pytest.mark.parametrize("topic", ["segments", "transactions", "append-time"])
def test_replaying_the_batches_gives_the_producers_that_kafka_knew(copy: Path, topic: str) -> None:
    known = opened(copy, topic, clean=True).producers.snapshot()
    assert known
    for path in (copy / f"{topic}-0").glob("*.snapshot"):
        path.unlink()
    assert sorted(opened(copy, topic, clean=False).producers.snapshot()) == sorted(known)


def test_appending_the_same_batches_writes_the_same_files(copy: Path, tmp_path: Path) -> None:
    """Segments, both indexes, producer snapshots and the epoch checkpoint, rolled where Kafka rolled."""
    theirs = opened(copy, "segments", clean=True)
    data, rolls = everything(theirs), [segment.base_offset for segment in theirs.segments[1:]]
    ours = Log.open(LogPlace(tmp_path, "segments", 0), config_of("segments"), LogStart(), 0)
    for at, header in iter_headers(data):
        if header.base_offset in rolls:
            ours.roll(0)
        batch = bytearray(data[at : at + header.size])
        batch[:8] = bytes(8)
        ours.append(memoryview(batch), header, header.leader_epoch, 0)
    ours.close()
    written = {path.name: path.read_bytes() for path in (copy / "segments-0").iterdir()}
    del written["partition.metadata"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "segments-0").iterdir()} == written


def test_the_aborted_transactions_are_known(copy: Path) -> None:
    log = opened(copy, "transactions", clean=True)
    aborted = log.aborted_transactions(0, log.end_offset)
    assert aborted
    producers = {p.producer_id for p in log.producers}
    assert {entry.producer_id for entry in aborted} <= producers
    assert all(entry.first_offset < entry.last_offset < entry.last_stable_offset for entry in aborted)


def test_the_directory_of_kafka_is_taken_over(copy: Path) -> None:
    directory = LogDirectory.open(copy, 1)
    assert directory.was_clean or not (GOLDEN / ".kafka_cleanshutdown").exists()
    found = {(partition.topic, partition.partition): partition.topic_id for partition in directory.partitions()}
    assert {(topic, 0) for topic in TOPICS} == set(found)
    assert None not in found.values()
    assert directory.start_offsets[TopicPartition(TopicName("trimmed"), 0)] == 13
    assert directory.high_watermarks[TopicPartition(TopicName("segments"), 0)] == 30


def test_the_metadata_log_of_kafka_is_read(copy: Path) -> None:
    log = Log.open(LogPlace(copy, "__cluster_metadata", 0), LogConfig(), LogStart(clean=True), 0)
    assert log.end_offset > 0
    assert len(everything(log)) == log.size


def test_a_damaged_byte_in_a_log_of_kafka_ends_it_there(copy: Path) -> None:
    path = copy / "codec-none-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    second = list(iter_headers(bytes(data)))[1]
    data[second[0] + 100] ^= 1
    path.write_bytes(data)
    log = opened(copy, "codec-none", clean=False)
    assert log.end_offset == second[1].base_offset
    with pytest.raises(CorruptLog):
        log.segments[0].read(second[0], 100)
