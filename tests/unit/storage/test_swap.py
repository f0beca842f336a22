"""A crash between any two steps of a compaction or a deletion."""

import shutil
from pathlib import Path

import pytest

from ottla.base.topic_settings import LogConfig
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.storage.segment import SUFFIXES
from ottla.storage.swap import CLEANED, DELETED, SWAP, offset_in
from tests.unit.storage.batches import append, bases, batch

COMPACTED = LogConfig(cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=50)


def opened(directory: Path, *, clean: bool = True) -> Log:
    return Log.open(LogPlace(directory, "t", 0), COMPACTED, LogStart(clean), 0)


def filled(directory: Path) -> list[int]:
    """A cleanly closed log of 20 batches in several segments; returns where they begin."""
    log = opened(directory)
    for timestamp in range(20):
        append(log, batch(timestamp=timestamp))
    log.close()
    return [segment.base_offset for segment in log.segments]


def rename(directory: Path, base_offset: int, suffix: str, new: str = "") -> None:
    for own in SUFFIXES:
        path = directory / "t-0" / f"{base_offset:020d}{own}{suffix}"
        if path.exists():
            path.rename(path.with_name(f"{base_offset:020d}{own}{new}"))


def compact_by_hand(directory: Path, bases_of_segments: list[int], suffix: str) -> None:
    """Write the first two segments as one that holds only the batches at 0 and 5, under `suffix`."""
    scratch = directory / "scratch"
    log = opened(scratch)
    for offset in range(bases_of_segments[2]):
        append(log, batch(timestamp=offset))
        if offset not in (0, 5):
            log.truncate_to(offset)
            log.end_offset = offset + 1
    log.close()
    for own in SUFFIXES:
        path = scratch / "t-0" / f"{0:020d}{own}"
        if path.exists():
            shutil.copy(path, directory / "t-0" / f"{path.name}{suffix}")


def litter(directory: Path) -> list[str]:
    return [path.name for path in (directory / "t-0").iterdir() if path.name.endswith((CLEANED, SWAP, DELETED))]


def test_what_was_being_deleted_is_gone(tmp_path: Path) -> None:
    found = filled(tmp_path)
    rename(tmp_path, found[0], "", DELETED)
    log = opened(tmp_path)
    assert bases(log) == list(range(found[1], 20))
    assert litter(tmp_path) == []


def test_a_segment_that_was_being_written_is_dropped(tmp_path: Path) -> None:
    found = filled(tmp_path)
    compact_by_hand(tmp_path, found, CLEANED)
    assert bases(opened(tmp_path)) == list(range(20))
    assert litter(tmp_path) == []


def test_a_swap_that_came_after_what_was_still_being_written_is_dropped(tmp_path: Path) -> None:
    """Two segments came of one, and only the later of them was whole: neither counts."""
    found = filled(tmp_path)
    compact_by_hand(tmp_path, found, SWAP)
    (tmp_path / "t-0" / f"{0:020d}.log{CLEANED}").write_bytes(b"half")
    assert bases(opened(tmp_path)) == list(range(20))
    assert litter(tmp_path) == []


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_whole_swap_takes_its_place_however_far_the_deletion_came(tmp_path: Path, deleted: int, clean: bool) -> None:
    found = filled(tmp_path)
    compact_by_hand(tmp_path, found, SWAP)
    for base_offset in found[:deleted]:
        rename(tmp_path, base_offset, "", DELETED)
    log = opened(tmp_path, clean=clean)
    assert bases(log) == [0, 5, *range(found[1] if found[1] > 5 else found[2], 20)]
    assert litter(tmp_path) == []
    log.close(clean=False)
    assert bases(opened(tmp_path, clean=False)) == bases(log)


def test_a_swap_whose_log_already_has_its_name_brings_its_indexes(tmp_path: Path) -> None:
    found = filled(tmp_path)
    before = (tmp_path / "t-0" / f"{found[0]:020d}.index").read_bytes()
    path = tmp_path / "t-0" / f"{found[0]:020d}.index"
    path.rename(path.with_name(path.name + SWAP))
    assert bases(opened(tmp_path)) == list(range(20))
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["x.log", "1.log", f"{7:020d}.log.swap", f"{7:020d}.logs", "0" * 19 + "x.log"])
def test_other_names_name_no_offset(name: str) -> None:
    assert offset_in(name, ".log") is None
    assert offset_in(f"{7:020d}.log", ".log") == 7
