"""What a start makes of a metadata directory, whole or not."""

from pathlib import Path

import pytest

from ottla.core.metadata.records import NoOpRecord
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.member import QuorumSetup
from ottla.core.quorum.messages import SnapshotId
from ottla.runtime.quorum_codec import Voter, encode_snapshot, metadata_batch
from ottla.runtime.quorum_files import QuorumFiles
from ottla.runtime.quorum_opening import Opened, QuorumPlace, open_quorum
from ottla.storage.files import Files
from ottla.wire.batch_header import read_header


class Directory:
    def __init__(self, path: Path) -> None:
        voters = (Voter(1, b"d" * 16),)
        self.place = QuorumPlace(
            directory=path,
            voters=voters,
            setup=QuorumSetup(node_id=1, voters=frozenset((1,))),
            bootstrap=(NoOpRecord(),),
        )
        self.files = QuorumFiles(path, Files())

    def open(self) -> Opened:
        return open_quorum(self.place, self.files)

    def snapshot(self, end_offset: int, epoch: int) -> None:
        self.files.write_snapshot(SnapshotId(end_offset, epoch), encode_snapshot([], None, epoch, 1))


def append(opened: Opened, epoch: int, count: int) -> None:
    batch = metadata_batch([NoOpRecord()] * count, opened.log.end_offset, epoch, 1)
    opened.log.append(bytearray(batch), read_header(batch), epoch, 1)


def test_an_empty_directory_gets_the_snapshot_that_a_cluster_begins_with(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    opened = directory.open()
    assert directory.files.snapshots() == [SnapshotId(0, 0)]
    assert (opened.state, opened.shape.end_offset, opened.shape.epochs) == (ElectionState(), 0, [])


def test_the_shape_is_that_of_the_log_from_its_oldest_snapshot_on(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    opened = directory.open()
    for epoch, count in ((1, 4), (3, 2), (6, 5)):
        append(opened, epoch, count)
    opened.log.close()
    shape = directory.open().shape
    assert (shape.start, shape.epochs, shape.end_offset) == (SnapshotId(0, 0), [(1, 0), (3, 4), (6, 6)], 11)
    directory.files.remove_snapshot(SnapshotId(0, 0))
    for end, epoch, expected in ((2, 1, [(1, 2), (3, 4), (6, 6)]), (4, 1, [(3, 4), (6, 6)]), (8, 6, [(6, 8)])):
        directory.snapshot(end, epoch)
        shape = directory.open().shape
        assert (shape.start, shape.epochs, shape.end_offset) == (SnapshotId(end, epoch), expected, 11)
        directory.files.remove_snapshot(SnapshotId(end, epoch))
    directory.snapshot(11, 6)
    shape = directory.open().shape
    assert (shape.start, shape.epochs, shape.last_epoch) == (SnapshotId(11, 6), [], 6)


def test_a_log_that_ends_below_its_snapshot_goes_on_behind_it(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    append(directory.open(), 1, 5)
    directory.snapshot(40, 2)
    opened = directory.open()
    assert (opened.log.start_offset, opened.log.end_offset) == (40, 40)
    assert (opened.shape.start, opened.shape.end_offset, opened.shape.last_epoch) == (SnapshotId(40, 2), 40, 2)
    assert directory.files.snapshots() == [SnapshotId(40, 2)]
    append(opened, 3, 2)
    opened.log.close()
    assert directory.open().shape.epochs == [(3, 40)]


def test_a_log_that_begins_behind_its_oldest_snapshot_is_not_opened(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    opened = directory.open()
    opened.log.truncate_fully_and_start_at(7)
    append(opened, 1, 2)
    opened.log.close()
    with pytest.raises(ValueError, match="a part of it is missing"):
        directory.open()


def test_a_torn_end_is_cut_off(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    opened = directory.open()
    append(opened, 1, 3)
    append(opened, 2, 3)
    opened.log.close()
    segment = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    shape = directory.open().shape
    assert (shape.end_offset, shape.epochs) == (3, [(1, 0)])
