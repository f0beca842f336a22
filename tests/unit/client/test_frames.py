import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.frames import FrameReader
from ottla.wire.malformed import Malformed

FRAME_BYTES_MAX = 5_000_000


def framed(payloads: list[bytes]) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[bytes]:
    """As the socket would, which never gives more than there is room for."""
    frames, at, turn = [], 0, 0
    while at < len(data):
        room = reader.buffer()
        assert len(room) > 0
        count = min(len(room), len(data) - at, cuts[turn % len(cuts)] if cuts else len(data))
        room[:count] = data[at : at + count]
        frames += [bytes(frame) for frame in reader.advance(count)]
        at, turn = at + count, turn + 1
    return frames


@given(
    payloads=st.lists(st.binary(min_size=4, max_size=200), max_size=30),
    cuts=st.lists(st.integers(1, 70), max_size=10),
    scratch_bytes=st.integers(4, 300),
)
def test_frames_come_out_whole_however_the_stream_is_cut(
    payloads: list[bytes], cuts: list[int], scratch_bytes: int
) -> None:
    reader = FrameReader(FRAME_BYTES_MAX, scratch_bytes)
    assert feed(reader, framed(payloads), cuts) == payloads
    assert not reader.is_within_frame


def test_a_frame_larger_than_every_buffer_comes_out_whole() -> None:
    payloads = [b"small", bytes(range(256)) * 15_000, b"after"]
    assert feed(FrameReader(FRAME_BYTES_MAX), framed(payloads), [100_000]) == payloads


def test_memory_follows_what_has_arrived_not_what_is_claimed() -> None:
    reader = FrameReader(2**31 - 1)
    reader.buffer()[:4] = (2**31 - 1).to_bytes(4, "big")
    reader.advance(4)
    assert len(reader.buffer()) <= 1024 * 1024
    assert reader.is_within_frame


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES_MAX + 1])
def test_a_size_that_no_answer_has_is_refused(size: int) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.buffer()[:4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(Malformed, match=f"an answer of {size} bytes"):
        reader.advance(4)
