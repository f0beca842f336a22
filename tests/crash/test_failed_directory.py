"""Several log directories, one of which fails or is away: the others go on, and it may come back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire.batch import encode_batch, new_records

from .client import EARLIEST, LATEST, Answered, Client
from .faults import traced
from .node import DidNotStart, NodeProcess

TOPIC = "spread"
PARTITIONS = 6
BATCHES = 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Three directories, two partitions in each, five records in each of these."""
    node = NodeProcess(tmp_path, data_dirs=[tmp_path / name for name in ("first", "second", "third")])
    node.start()
    with Client(node.port) as client:
        client.create_topic(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            for _ in range(BATCHES):
                append(client, partition)
    yield node
    node.discard()


def append(client: Client, partition: int) -> int:
    records = new_records([(None, b"partition %d" % partition)], time.time_ns() // 1_000_000)
    return client.produce(TOPIC, partition, encode_batch(records), acks=1)


def partitions_in(directory: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{TOPIC}-[0-9]")}


def assert_offline(client: Client, partition: int) -> None:
    for attempt in (append, lambda client, partition: client.fetch(TOPIC, partition, 0)):
        with pytest.raises(Answered) as refused:
            attempt(client, partition)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def assert_serves(client: Client, partition: int) -> None:
    end = client.list_offset(TOPIC, partition, LATEST)
    assert client.list_offset(TOPIC, partition, EARLIEST) == 0
    assert end >= BATCHES
    assert append(client, partition) == end
    assert len(list(client.batches(TOPIC, partition))) == end + 1


def assert_only_these_serve(node: NodeProcess, offline: set[int]) -> None:
    with Client(node.port) as client:
        for partition in range(PARTITIONS):
            (assert_offline if partition in offline else assert_serves)(client, partition)


def test_partitions_are_spread_over_the_directories(node: NodeProcess) -> None:
    assert [len(partitions_in(directory)) for directory in node.data_dirs] == [2, 2, 2]


def test_a_write_that_fails_takes_its_directory_offline_and_no_other(node: NodeProcess, tmp_path: Path) -> None:
    doomed = partitions_in(node.data_dirs[1])
    path = node.data_dirs[1] / f"{TOPIC}-{min(doomed)}" / f"{0:020d}.log"
    inject = ("-e", "trace=pwrite64,pwritev", "-P", str(path), "-e", "inject=pwrite64,pwritev:error=EIO")
    with (
        Client(node.port) as client,
        traced(node.pid, tmp_path / "trace", *inject),
        pytest.raises(Answered) as refused,
    ):
        append(client, min(doomed))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert_only_these_serve(node, doomed)
    _assert_changes_begin_nothing_anew(node, doomed)
    assert node.stop() == 0
    node.start()
    assert_only_these_serve(node, set())


def _assert_changes_begin_nothing_anew(node: NodeProcess, offline: set[int]) -> None:
    """Creating, configuring and growing topics beside them goes on, and does not touch them."""
    with Client(node.port) as client:
        client.set_config(TOPIC, "retention.ms", "123456789")
        client.create_topic("another", 4)
        assert client.topics() == {TOPIC: PARTITIONS, "another": 4}
        for partition in range(4):
            records = new_records([(None, b"another")], time.time_ns() // 1_000_000)
            assert client.produce("another", partition, encode_batch(records)) == 0
    assert_only_these_serve(node, offline)


@pytest.mark.parametrize(("calls", "size"), [("sendfile", 100_000), ("pread64,sendfile", 10)])
def test_a_read_that_fails_ends_nothing_but_that_answer(
    node: NodeProcess, tmp_path: Path, calls: str, size: int
) -> None:
    """Large slices leave by sendfile; small ones are read, and if that fails leave like large ones."""
    with Client(node.port) as client:
        records = new_records([(None, b"x" * size)], time.time_ns() // 1_000_000)
        offset = client.produce(TOPIC, 0, encode_batch(records))
    inject = ("-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO")
    with (
        traced(node.pid, tmp_path / "trace", *inject),
        Client(node.port) as client,
        pytest.raises((ConnectionError, Answered)),
    ):
        client.fetch(TOPIC, 0, offset)
    assert node.is_running
    with Client(node.port) as client:
        for partition in range(1, PARTITIONS):
            if partition not in partitions_in(_home_of(node, 0)):
                assert_serves(client, partition)


def _home_of(node: NodeProcess, partition: int) -> Path:
    return next(path for path in node.data_dirs if partition in partitions_in(path))


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("how", ["moved away", "a file in its place", "emptied"])
def test_partitions_of_a_directory_that_is_away_wait_for_it(node: NodeProcess, how: str, end: str) -> None:
    """`emptied` is what an unmounted disk looks like."""
    away = node.data_dirs[2]
    lost = partitions_in(away)
    getattr(node, end)()
    kept = away.with_name("kept")
    away.rename(kept)
    if how == "a file in its place":
        away.write_text("not a directory")
    if how == "emptied":
        away.mkdir()
    for _ in range(2):  # that it is away is not forgotten when it is away for long
        node.start()
        assert_only_these_serve(node, lost)
        assert not any(lost & partitions_in(path) for path in node.data_dirs if path.is_dir())
        getattr(node, end)()
    if away.is_dir():
        shutil.rmtree(away)
    else:
        away.unlink()
    kept.rename(away)
    node.start()
    assert_only_these_serve(node, set())


def test_without_the_metadata_log_a_node_says_so_in_one_line_and_does_not_start(node: NodeProcess) -> None:
    assert node.stop() == 0
    node.data_dirs[0].rename(node.data_dirs[0].with_name("kept"))
    node.data_dirs[0].write_text("not a directory")
    before = len(node.log_text)
    with pytest.raises(DidNotStart):
        node.start()
    printed = node.log_text[before:].strip().splitlines()
    assert node.exit_code == 1
    assert len(printed) == 1 and str(node.data_dirs[0]) in printed[0]


def _fails_with(node: NodeProcess, message: str) -> None:
    assert node.wait_exit() == 1
    assert "Traceback" not in node.log_text
    last_line = node.log_text.strip().splitlines()[-1]
    assert last_line.startswith("ottla: ") and message in last_line


def test_a_node_whose_metadata_log_fails_says_so_and_ends(node: NodeProcess, tmp_path: Path) -> None:
    """A change that cannot be synced is not answered with success, and is not half there afterwards."""
    path = node.data_dirs[0] / "__cluster_metadata-0" / f"{0:020d}.log"
    inject = ("-e", "trace=fsync,fdatasync", "-P", str(path), "-e", "inject=fsync,fdatasync:error=EIO")
    with Client(node.port) as client, traced(node.pid, tmp_path / "trace", *inject):
        with pytest.raises((Answered, ConnectionError)):
            client.create_topic("unsynced")
        _fails_with(node, "Input/output error")
    node.start()
    with Client(node.port) as client:
        found = client.topics()
        assert found.pop("unsynced", 1) == 1
        assert found == {TOPIC: PARTITIONS}
    assert_only_these_serve(node, set())


def test_a_node_that_has_lost_all_its_directories_says_so_and_ends(node: NodeProcess, tmp_path: Path) -> None:
    inject = ("-e", "trace=pwrite64,pwritev", "-e", "inject=pwrite64,pwritev:error=EIO")
    with Client(node.port) as client, traced(node.pid, tmp_path / "trace", *inject):
        for partition in range(PARTITIONS):
            with pytest.raises((Answered, ConnectionError)):
                append(client, partition)
        _fails_with(node, "Input/output error")
    node.start()
    assert_only_these_serve(node, set())
