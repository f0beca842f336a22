from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import Epoch, Offset, TopicName, TopicPartition
from ottla.core.replication.epochs import EpochEntry
from ottla.storage.checkpoint import (
    BadCheckpoint,
    OffsetCheckpoint,
    checkpoint_lines,
    checkpoint_text,
    decode_epochs,
    encode_epochs,
)
from ottla.storage.files import Files

KEYS = st.builds(TopicPartition, st.text("abc._-", min_size=1).map(TopicName), st.integers(0, 2**31 - 1))
OFFSETS = st.integers(0, 2**63 - 1).map(Offset)


def test_the_text_is_version_count_and_entries(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "c", Files())
    checkpoint.write({TopicPartition(TopicName("a-b"), 0): Offset(7), TopicPartition(TopicName("c"), 12): Offset(0)})
    assert (tmp_path / "c").read_text() == "0\n2\na-b 0 7\nc 12 0\n"
    assert not (tmp_path / "c.tmp").exists()


def test_a_missing_checkpoint_knows_nothing(tmp_path: Path) -> None:
    assert OffsetCheckpoint(tmp_path / "c", Files()).read() == {}


@given(st.dictionaries(KEYS, OFFSETS, max_size=5))
def test_offsets_come_back(tmp_path_factory: pytest.TempPathFactory, offsets: dict[TopicPartition, Offset]) -> None:
    checkpoint = OffsetCheckpoint(tmp_path_factory.getbasetemp() / "offsets", Files())
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0 1\nb 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\nx\n",
        b"0\n1\na 0 x\n",
        b"\xff\xfe",
        bytes(40),
    ],
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "c").write_bytes(text)
    with pytest.raises(BadCheckpoint):
        OffsetCheckpoint(tmp_path / "c", Files()).read()


@given(st.integers(0, 200))
def test_a_cut_checkpoint_is_refused_or_whole(length: int) -> None:
    whole = checkpoint_text(f"topic {number} {number}" for number in range(8))
    try:
        lines = checkpoint_lines(whole[:length], 3)
    except BadCheckpoint:
        return
    assert len(lines) == 8


def test_epochs_come_back() -> None:
    entries = [EpochEntry(Epoch(0), Offset(0)), EpochEntry(Epoch(3), Offset(70))]
    assert encode_epochs(entries) == b"0\n2\n0 0\n3 70\n"
    assert decode_epochs(encode_epochs(entries)) == entries


@pytest.mark.parametrize("text", [b"0\n2\n0 5\n0 9\n", b"0\n2\n0 5\n1 5\n", b"0\n2\n3 5\n1 9\n", b"0\n1\n0\n"])
def test_epochs_that_do_not_rise_are_refused(text: bytes) -> None:
    with pytest.raises(BadCheckpoint):
        decode_epochs(text)
