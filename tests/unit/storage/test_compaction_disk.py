"""What a round of compaction reads and forces to the disk, and when."""

from pathlib import Path

from ottla.storage.files import Files
from tests.unit.storage.compaction_world import (
    NOW,
    MortalFiles,
    MortalHandle,
    append,
    begin,
    compacted,
    filled,
    open_log,
    records,
)


def test_content_that_is_not_needed_is_not_read_again(tmp_path: Path) -> None:
    read = 0

    class CountingHandle(MortalHandle):
        def pread(self, size: int, position: int) -> bytes:
            nonlocal read
            read += size
            return super().pread(size, position)

    class CountingFiles(MortalFiles):
        def open(self, path: str, create: bool = False) -> MortalHandle:
            plain = Files.open(self, path, create)
            return CountingHandle(plain.fd, self, plain)

    log = open_log(tmp_path, compacted(segment_bytes=10**8), CountingFiles())
    for _ in range(8):
        append(log, [(b"a", b"x" * 2_000_000)])
    log.roll(NOW)
    cleaning = begin(log)
    cleaning.read_keys()
    keys_read, read = read, 0
    rewritten = cleaning.rewrite_next()
    assert rewritten is not None
    cleaning.swap(rewritten)
    assert keys_read > 16_000_000
    assert 2_000_000 < read < 4_000_000
    assert [record.offset for record in records(log)] == [7]


def test_the_recovery_point_waits_for_the_names_of_what_took_the_place_of_unflushed_segments(tmp_path: Path) -> None:
    done: list[str] = []

    class NotingFiles(MortalFiles):
        def sync_directory(self, path: str) -> None:
            done.append("names")

        def rename(self, old: str, new: str) -> None:
            done.append("rename")
            super().rename(old, new)

    log = open_log(tmp_path, compacted(), NotingFiles())
    filled(log)
    log.flush_rolled()
    filled(log)
    assert not log.segments[-2].is_synced
    cleaning = begin(log)
    cleaning.read_keys()
    rewritten = cleaning.rewrite_next()
    assert rewritten is not None
    done.clear()
    cleaning.swap(rewritten)
    assert set(done) == {"rename"}
    log.flush()
    assert done[-1] == "names"
    assert log.recovery_point == log.end_offset
