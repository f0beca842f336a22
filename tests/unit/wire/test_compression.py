"""The four codecs: round trips, every framing that clients write, damage, and bombs."""

import contextlib
import random
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.compression import XERIAL_MAGIC, Codec, DecompressedTooLarge, compress, decompress
from ottla.wire.malformed import Malformed

COMPRESSING = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
TEXT = b'{"user": 17, "city": "Praha"}' * 9000
NOISE = random.Random(1).randbytes(200_000)


@given(st.sampled_from(Codec), st.binary(max_size=300), st.integers(1, 500))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes, repeats: int) -> None:
    content = data * repeats
    assert decompress(codec, memoryview(compress(codec, content)), len(content)) == content


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("content", [b"", b"x", TEXT, NOISE], ids=["empty", "one byte", "text", "noise"])
def test_content_of_exactly_the_bound_is_read_and_one_byte_more_is_not(codec: Codec, content: bytes) -> None:
    packed = compress(codec, content)
    assert decompress(codec, packed, len(content)) == content
    if content:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, packed, len(content) - 1)


@pytest.mark.parametrize("level", [1, 3, 9])
@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_level_is_readable(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_before_it_takes_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb, 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024


def test_a_snappy_length_that_lies_is_refused_before_it_is_allocated() -> None:
    claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    for data in (claims_4_gib, compress(Codec.SNAPPY, b"")[:16] + len(claims_4_gib).to_bytes(4, "big") + claims_4_gib):
        with pytest.raises(Malformed):
            decompress(Codec.SNAPPY, data, 2**31)


@pytest.mark.parametrize("codec", (Codec.GZIP, Codec.LZ4, Codec.ZSTD))
@pytest.mark.parametrize("content", [b"x", TEXT, NOISE], ids=["one byte", "text", "noise"])
def test_a_stream_that_ends_early_is_refused(codec: Codec, content: bytes) -> None:
    packed = compress(codec, content)
    for length in {*range(min(len(packed), 40)), len(packed) // 2, *range(max(len(packed) - 40, 0), len(packed))}:
        with pytest.raises(Malformed):
            decompress(codec, packed[:length], len(content))


def test_a_snappy_block_that_ends_early_is_refused() -> None:
    packed = compress(Codec.SNAPPY, NOISE[:10_000])
    for length in (17, 19, 20, 500, len(packed) - 1):
        with pytest.raises(Malformed):
            decompress(Codec.SNAPPY, packed[:length], 10_000)


@given(st.sampled_from(COMPRESSING), st.binary(max_size=80))
def test_arbitrary_bytes_are_malformed_or_small(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert len(decompress(codec, data, 10_000)) <= 10_000


@given(st.sampled_from(COMPRESSING), st.binary(max_size=200), st.data())
def test_damage_is_malformed_or_small(codec: Codec, content: bytes, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, content * 5))
    for _ in range(3):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Malformed):
        assert len(decompress(codec, packed, 10_000)) <= 10_000


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_unknown_codecs_are_malformed_to_read_and_an_error_to_write(codec: int) -> None:
    with pytest.raises(Malformed):
        decompress(codec, b"x", 10)
    with pytest.raises(ValueError):
        compress(codec, b"x")


def test_gzip_reads_all_members() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two"), 6) == b"onetwo"
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.GZIP, compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two"), 5)


def test_gzip_is_a_gzip_stream_and_not_zlib() -> None:
    with pytest.raises(Malformed):
        decompress(Codec.GZIP, zlib.compress(b"x"), 10)


def test_snappy_is_written_in_the_xerial_framing_with_blocks_of_32_kib() -> None:
    packed = compress(Codec.SNAPPY, NOISE)
    assert packed.startswith(XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1)))
    size = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == NOISE[: 32 * 1024]


def test_snappy_reads_raw_blocks_and_concatenated_xerial_streams() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT
    twice = compress(Codec.SNAPPY, b"one") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, twice, 6) == b"onetwo"


def test_lz4_is_written_in_independent_blocks_of_64_kib() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert info["block_size"] == 64 * 1024
    assert not info["block_linked"]
    assert info["content_size"] == 0


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
def test_lz4_reads_every_valid_frame(block_size: int, linked: bool, checksums: bool) -> None:
    frame = lz4.frame.compress(
        TEXT, block_size=block_size, block_linked=linked, content_checksum=checksums, block_checksum=checksums
    )
    assert decompress(Codec.LZ4, frame, len(TEXT)) == TEXT


def test_lz4_refuses_bytes_behind_the_frame() -> None:
    with pytest.raises(Malformed):
        decompress(Codec.LZ4, compress(Codec.LZ4, b"x") + b"more", 100)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("content", [b"", TEXT, bytes(500_000), NOISE], ids=["empty", "text", "zeros", "noise"])
def test_zstd_reads_streams_without_a_content_size(checksum: bool, content: bytes) -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False, write_checksum=checksum).compressobj()
    packed = b"".join(stream.compress(content[at : at + 70_000]) for at in range(0, len(content), 70_000))
    packed += stream.flush()
    assert decompress(Codec.ZSTD, packed, len(content)) == content


def test_zstd_reads_several_frames_and_skippable_ones() -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    packed = compress(Codec.ZSTD, b"one") + skippable + compress(Codec.ZSTD, b"two")
    assert decompress(Codec.ZSTD, packed, 6) == b"onetwo"
    with pytest.raises(Malformed):
        decompress(Codec.ZSTD, packed + skippable[:-1], 6)
