import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base.types import TopicName, TopicPartition
from ottla.storage.directory import DirectoryUnusable, LogDirectory, takes_offline
from ottla.storage.files import SyncFailed
from ottla.storage.meta_properties import new_uuid

KEY = TopicPartition(TopicName("a.topic-1"), 3)


def reopened(directory: LogDirectory, *, clean: bool) -> LogDirectory:
    directory.close(clean)
    return LogDirectory.open(directory.path, directory.node_id)


def test_a_new_directory_founds_a_cluster_and_keeps_its_identity(tmp_path: Path) -> None:
    first = LogDirectory.open(tmp_path / "new", 1)
    second = reopened(first, clean=False)
    assert (second.id, second.cluster_id) == (first.id, first.cluster_id)
    assert second.id != second.cluster_id


def test_a_directory_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    mine = LogDirectory.open(tmp_path, 1, cluster := new_uuid())
    mine.close(clean=False)
    for node_id, cluster_id in ((2, cluster), (1, new_uuid())):
        with pytest.raises(DirectoryUnusable):
            LogDirectory.open(tmp_path, node_id, cluster_id)
    LogDirectory.open(tmp_path, 1, cluster)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = LogDirectory.open(tmp_path, 1)
    with pytest.raises(DirectoryUnusable, match="in use"):
        LogDirectory.open(tmp_path, 1)
    first.close(clean=False)
    LogDirectory.open(tmp_path, 1)


def test_a_directory_in_use_is_refused_to_another_process_with_the_locks_that_java_takes(tmp_path: Path) -> None:
    held = LogDirectory.open(tmp_path, 1)
    lock = f"import fcntl; fcntl.lockf(open({str(tmp_path / '.lock')!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert "BlockingIOError" in subprocess.run([sys.executable, "-c", lock], capture_output=True, text=True).stderr
    held.close(clean=False)
    assert subprocess.run([sys.executable, "-c", lock], capture_output=True, text=True).stderr == ""


def test_the_clean_marker_counts_once(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    assert not directory.was_clean
    directory.close(clean=True, broker_epoch=17)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 17}
    again = LogDirectory.open(tmp_path, 1)
    assert (again.was_clean, again.broker_epoch) == (True, 17)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert not reopened(again, clean=False).was_clean


def test_an_offline_directory_is_never_marked_clean(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    directory.mark_offline(OSError(errno.EIO, "the disk is gone"))
    assert not directory.is_online
    assert "the disk is gone" in directory.offline_reason
    assert not reopened(directory, clean=True).was_clean


def test_partitions_are_found_with_their_topic_ids(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    topic_id = new_uuid()
    path = directory.ensure_partition(KEY, topic_id)
    for name in ("__cluster_metadata-0", "no_partition", "topic-x", "t-1.0123456789abcdef0123456789abcdef-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "bare-0").mkdir()
    again = reopened(directory, clean=False)
    assert again.partitions() == [(KEY.topic, KEY.partition, topic_id, path), ("bare", 0, None, tmp_path / "bare-0")]
    assert again.holds(KEY)
    assert again.partition_count == 2


def test_a_partition_of_an_earlier_topic_of_that_name_is_set_aside(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    old = directory.ensure_partition(KEY, new_uuid())
    (old / "00000000000000000000.log").write_bytes(b"old")
    topic_id = new_uuid()
    new = directory.ensure_partition(KEY, topic_id)
    assert new == old
    assert not (new / "00000000000000000000.log").exists()
    assert [found.topic_id for found in directory.partitions()] == [topic_id]
    assert [path.name.endswith("-stray") for path in tmp_path.glob("*-stray")] == [True]


def test_a_discarded_partition_frees_its_name_and_is_deleted_later(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    longest = TopicPartition(TopicName("t" * 249), 0)
    directory.ensure_partition(longest, new_uuid())
    doomed = directory.discard(longest)
    assert len(doomed.name) <= 255
    assert not directory.holds(longest)
    again = reopened(directory, clean=True)
    assert again.discarded() == [doomed]
    again.delete(doomed)
    assert again.discarded() == []
    assert not doomed.exists()


def test_a_new_partition_inherits_no_offsets_from_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    other = TopicPartition(TopicName("other"), 0)
    directory.ensure_partition(KEY, new_uuid())
    directory.write_start_offsets({KEY: 13, other: 2})
    directory.write_recovery_points({KEY: 20})
    again = reopened(directory, clean=True)
    again.ensure_partition(KEY, new_uuid())
    assert KEY not in again.start_offsets
    assert KEY not in again.recovery_points
    after_crash = reopened(again, clean=False)
    assert (after_crash.start_offsets, after_crash.recovery_points) == ({other: 2}, {})


def test_checkpoints_are_read_at_the_next_start_and_damaged_ones_forgotten(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, 1)
    directory.write_recovery_points({KEY: 5})
    directory.write_start_offsets({KEY: 2})
    directory.write_high_watermarks({KEY: 9})
    directory.write_cleaner_offset(KEY, 0)
    directory.write_cleaner_offset(KEY, 1)
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"0\n2\n")
    again = reopened(directory, clean=False)
    assert (again.recovery_points, again.start_offsets) == ({KEY: 5}, {})
    assert (again.high_watermarks, again.cleaner_offsets) == ({KEY: 9}, {KEY: 1})


def test_a_full_disk_refuses_and_a_broken_one_goes_offline() -> None:
    assert not takes_offline(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert not takes_offline(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert takes_offline(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert takes_offline(OSError(errno.EROFS, os.strerror(errno.EROFS)))
    assert takes_offline(SyncFailed(errno.ENOSPC, os.strerror(errno.ENOSPC)))
