"""A full disk: an error to the producer, nothing acknowledged lost, reads go on; all is well again with room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire.batch import encode_batch, new_records

from .client import EARLIEST, LATEST, Answered, Client
from .faults import remount, small_disk
from .ledger import Ledger, Stamp, sealed_value
from .load import check_partition
from .node import DidNotStart, NodeProcess

ROOM_SECONDS_MAX = 30.0
SETTINGS = {
    "log.segment.delete.delay.ms": "10",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "10",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
SEGMENTS = {"segment.bytes": str(1 << 20)}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with small_disk(tmp_path / "disk", "12m") as disk:
        node = NodeProcess(tmp_path / "node", SETTINGS, [disk / "data"])
        node.start()
        yield node
        node.discard()


class Filler:
    """Writes records to one partition, and knows which of them were acknowledged."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.ledger = Ledger(topic)
        self._numbers = 0

    def append(self, value_bytes: int = 20_000) -> None:
        stamps = [Stamp(1, self._numbers + at) for at in range(4)]
        self._numbers += len(stamps)
        self.ledger.numbers_sent[1] = self._numbers
        values = [(None, sealed_value(stamp, value_bytes)) for stamp in stamps]
        base_offset = self.client.produce(self.topic, 0, encode_batch(new_records(values, time.time_ns() // 10**6)))
        self.ledger.note_acked(base_offset, stamps)

    def fill(self) -> ErrorCode:
        """Append until not even a small batch finds room; the error."""
        for value_bytes in (20_000, 400):
            error = self._fill(value_bytes)
        return error

    def _fill(self, value_bytes: int) -> ErrorCode:
        for _ in range(1_000):
            try:
                self.append(value_bytes)
            except Answered as answer:
                return answer.code
        raise AssertionError("the disk does not get full")

    def append_when_there_is_room(self) -> None:
        deadline = time.monotonic() + ROOM_SECONDS_MAX
        while True:
            try:
                self.append()
                return
            except Answered as answer:
                # The second while the log is just being opened; a client retries after either.
                assert answer.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                assert time.monotonic() < deadline, "there is no room yet"
                time.sleep(0.05)

    def check(self) -> None:
        check_partition(self.client, self.topic, 0, self.ledger)


def test_a_full_disk_is_an_error_to_the_producer_and_reads_go_on(node: NodeProcess) -> None:
    with Client(node.port) as client:
        client.create_topic("full", 1, SEGMENTS)
        filler = Filler(client, "full")
        for _ in range(5):
            assert filler.fill() == ErrorCode.KAFKA_STORAGE_ERROR
        filler.check()
    assert node.is_running
    assert len(filler.ledger.acked) > 100


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_nothing_acknowledged_is_lost_when_a_full_node_ends(node: NodeProcess, way: str) -> None:
    """Where not even a start finds room it says so, and the next one finds everything."""
    with Client(node.port) as client:
        client.create_topic("full", 1, SEGMENTS)
        filler = Filler(client, "full")
        filler.fill()
        filler.fill()
    getattr(node, way)()
    _start_where_it_is_full(node)
    with Client(node.port) as client:
        filler.client = client
        filler.check()


def test_deleting_a_topic_makes_room(node: NodeProcess) -> None:
    with Client(node.port) as client:
        for name in ("kept", "doomed"):
            client.create_topic(name, 1, {**SEGMENTS, "file.delete.delay.ms": "10"})
        kept, doomed = Filler(client, "kept"), Filler(client, "doomed")
        kept.append()
        doomed.fill()
        assert kept.fill() == ErrorCode.KAFKA_STORAGE_ERROR
        client.delete_topic("doomed")
        kept.append_when_there_is_room()
        kept.check()


def test_retention_makes_room(node: NodeProcess) -> None:
    with Client(node.port) as client:
        client.create_topic("full", 1, {**SEGMENTS, "file.delete.delay.ms": "10"})
        filler = Filler(client, "full")
        filler.fill()
        client.set_config("full", "retention.bytes", str(3 << 20))
        filler.append_when_there_is_room()
        filler.check()
        assert client.list_offset("full", 0, EARLIEST) > 0


def test_deleting_records_makes_room(node: NodeProcess) -> None:
    with Client(node.port) as client:
        client.create_topic("full", 1, {**SEGMENTS, "file.delete.delay.ms": "10"})
        filler = Filler(client, "full")
        filler.fill()
        end = client.list_offset("full", 0, LATEST)
        assert client.delete_records("full", 0, end - 8) == end - 8
        filler.append_when_there_is_room()
        filler.check()


def test_changes_of_metadata_are_refused_on_a_full_disk_and_nothing_is_half_done(node: NodeProcess) -> None:
    created = []
    with Client(node.port) as client:
        client.create_topic("full", 1, SEGMENTS)
        filler = Filler(client, "full")
        filler.fill()
        with pytest.raises(Answered) as refused:
            for number in range(100):  # a page that was begun has room for some
                client.create_topic(f"late-{number}")
                created.append(f"late-{number}")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert set(client.topics()) == {"full", *created}
        filler.check()
        _make_room(node)
        client.create_topic("after")
        for name in [*created, "after"]:  # also those that were created when there was no room for their logs
            Filler(client, name).append_when_there_is_room()
    node.kill()
    node.start()
    with Client(node.port) as client:
        assert set(client.topics()) == {"full", "after", *created}
        filler.client = client
        filler.check()
        for name in [*created, "after"]:
            assert client.list_offset(name, 0, LATEST) > 0


def _start_where_it_is_full(node: NodeProcess) -> None:
    try:
        node.start()
    except DidNotStart as failure:
        last_line = str(failure).splitlines()[-1]
        assert "No space left on device" in last_line and "Traceback" not in str(failure)
        _make_room(node)
        node.start()


def _make_room(node: NodeProcess) -> None:
    """What an operator would do first."""
    remount(node.data_dir.parent, "size=40m")
