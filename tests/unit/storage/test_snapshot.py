from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.producers import ProducerSnapshot
from ottla.storage.files import Files
from ottla.storage.snapshot import BadSnapshot, SnapshotFiles, decode_snapshot, encode_snapshot

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
ENTRIES = st.lists(
    st.builds(ProducerSnapshot, LONG, st.integers(-(2**15), 2**15 - 1), INT, LONG, INT, LONG, INT, LONG), max_size=4
)
ENTRY = ProducerSnapshot(5, 1, 2, 30, 2, 1000, -1, -1)


def test_an_entry_has_46_bytes_behind_a_checksummed_head() -> None:
    body = pack(">i", 1) + pack(">qhiqiqiq", *ENTRY)
    assert encode_snapshot([ENTRY]) == pack(">hI", 1, crc32c(body)) + body
    assert len(body) == 4 + 46


@given(ENTRIES)
def test_entries_come_back(entries: list[ProducerSnapshot]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(ENTRIES, st.data())
def test_a_flipped_bit_or_a_cut_is_noticed(entries: list[ProducerSnapshot], data: st.DataObject) -> None:
    whole = encode_snapshot(entries)
    damaged = bytearray(whole)
    damaged[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for bad in (bytes(damaged), whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"):
        with pytest.raises(BadSnapshot):
            decode_snapshot(bad)


def snapshots(directory: Path, *offsets: int) -> SnapshotFiles:
    files = SnapshotFiles(Files(), str(directory))
    for offset in offsets:
        files.take(offset, [ENTRY._replace(last_offset=offset)], sync=False)
    return files


def test_a_snapshot_is_named_after_the_first_offset_it_does_not_cover(tmp_path: Path) -> None:
    snapshots(tmp_path, 42)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000042.snapshot"]


def test_the_newest_sound_snapshot_in_range_is_loaded_and_damaged_ones_go(tmp_path: Path) -> None:
    files = snapshots(tmp_path, 10, 20, 30, 40)
    Path(files.path(30)).write_bytes(b"torn")
    found = files.load_latest(above=5, up_to=35)
    assert found is not None
    assert (found[0], found[1][0].last_offset) == (20, 20)
    assert files.offsets == [10, 20, 40]
    assert not Path(files.path(30)).exists()
    assert files.load_latest(above=20, up_to=35) is None


def test_strays_go_but_those_of_segments_and_the_newest_behind_all_stay(tmp_path: Path) -> None:
    files = snapshots(tmp_path, 0, 7, 10, 15, 22, 30)
    files.remove_strays([0, 10, 20])
    assert files.offsets == [0, 10, 30]
    files.remove_strays([0, 10, 30, 40])
    assert files.offsets == [0, 10, 30]
