"""The four codecs of record batches, by their number in the batch attributes; output is bounded before it is made.

A compressed batch is a claim by a stranger: every codec here decompresses in steps and stops at `max_bytes`.
Java frames snappy in the xerial way (its own header, then length-prefixed raw blocks); librdkafka sends raw snappy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeAlias

import lz4.frame
import zstandard

from ottla.wire.malformed import Malformed

Bytes: TypeAlias = bytes | bytearray | memoryview

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_STEP_BYTES = 64 * 1024
_STEP_BYTES_MAX = 8 * 1024 * 1024
_SNAPPY_RATIO_MAX = 22
"""Three bytes of raw snappy make 64 at most: a length header that claims more is a lie, told to make us allocate."""


_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_HEADER_BYTES_MAX = 18


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressedTooLarge(Malformed):
    """The content is larger than the reader is willing to hold; it may be a bomb."""


def compress(codec: int, data: Bytes, level: int | None = None) -> bytes:
    """`data` in the form Java's clients write; `level` is the codec's own scale, None its default."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return zlib.compress(data, -1 if level is None else level, wbits=31)
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        return lz4.frame.compress(  # type: ignore[no-any-return]
            data, level or 0, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
        )
    if codec == Codec.ZSTD:
        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    raise ValueError(f"no compression codec has number {codec}")


def decompress(codec: int, data: Bytes, max_bytes: int) -> bytes:
    """The content of `data`; raises Malformed when it is damaged, incomplete, or longer than `max_bytes`."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise Malformed(f"compression codec {codec} does not exist")
    return decompressor(data, max_bytes)


def _plain(data: Bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _gunzip(data: Bytes, max_bytes: int) -> bytes:
    """All members of the stream: Java's reader, too, goes on behind the first."""
    parts, left = [], max_bytes
    while data:
        member = zlib.decompressobj(31)
        try:
            part = member.decompress(data, left + 1)
        except zlib.error as error:
            raise Malformed(f"gzip: {error}") from None
        left -= len(part)
        if left < 0:
            raise _too_large(max_bytes)
        if not member.eof:
            raise Malformed("gzip: the stream ends early")
        parts.append(part)
        data = member.unused_data
    if not parts:
        raise Malformed("gzip: no data")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _cramjam() -> Any:
    """Loaded for the first snappy batch that is opened: most nodes never open one, and it takes a megabyte or two."""
    import cramjam

    return cramjam


def _compress_xerial(data: Bytes) -> bytes:
    snappy, parts = _cramjam().snappy, [_XERIAL_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(data: Bytes, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        return _unsnappy_block(view, max_bytes)
    parts, at, left = [], 0, max_bytes
    while at < len(view):
        if bytes(view[at : at + 8]) == XERIAL_MAGIC:  # concatenated streams: the header may come again
            at += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if size > len(view) - at:
            raise Malformed(f"snappy: a block of {size} bytes where {max(len(view) - at, 0)} are left")
        parts.append(_unsnappy_block(view[at : at + size], left))
        left -= len(parts[-1])
        at += size
    if at > len(view):
        raise Malformed("snappy: the stream ends early")
    return b"".join(parts)


def _unsnappy_block(block: memoryview, max_bytes: int) -> bytes:
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise Malformed(f"snappy: {len(block)} bytes cannot hold the {size} they claim")
        if size > max_bytes:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise Malformed(f"snappy: {error}") from None


def _unlz4(data: Bytes, max_bytes: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    source: Bytes = data

    def step(size: int) -> bytes:
        nonlocal source
        if frame.eof:
            return b""
        try:
            part: bytes = frame.decompress(source, max_length=size)
        except RuntimeError as error:
            raise Malformed(f"lz4: {error}") from None
        source = b""
        if not part and not frame.eof:
            raise Malformed("lz4: the frame ends early")
        return part

    content = _gather(step, len(data), max_bytes)
    if frame.unused_data:
        raise Malformed("lz4: bytes behind the frame")
    return content


def _unzstd(data: Bytes, max_bytes: int) -> bytes:
    """By stream, since streaming writers (Java's among them) leave the content size out of the frame."""
    _check_zstd_frames(data)
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:

        def step(size: int) -> bytes:
            try:
                return reader.read(size)
            except zstandard.ZstdError as error:
                raise Malformed(f"zstd: {error}") from None

        return _gather(step, len(data), max_bytes)


def _check_zstd_frames(data: Bytes) -> None:
    """Walk frames and blocks (RFC 8878): the stream reader takes a truncated frame for the end of the content."""
    view, at = memoryview(data), 0
    while at < len(view):
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
            continue
        try:
            frame = zstandard.get_frame_parameters(view[at : at + _ZSTD_HEADER_BYTES_MAX])
            at += zstandard.frame_header_size(view[at : at + _ZSTD_HEADER_BYTES_MAX])
        except zstandard.ZstdError as error:
            raise Malformed(f"zstd: {error}") from None
        last = False
        while not last and at < len(view):
            block = int.from_bytes(view[at : at + 3], "little")
            last = bool(block & 1)
            is_repeat = block >> 1 & 3 == 1  # one byte, to be repeated `size` times
            at += 3 + (1 if is_repeat else block >> 3)
        if not last:
            raise Malformed("zstd: the frame ends early")
        at += 4 * frame.has_checksum
    if at != len(view) or not at:
        raise Malformed("zstd: the stream ends early")


def _gather(step: Callable[[int], bytes], compressed_size: int, max_bytes: int) -> bytes:
    """Call `step(size)`, which gives at most `size` bytes and none at the end, until that end."""
    parts, left = [], max_bytes
    size = max(_STEP_BYTES, min(4 * compressed_size, _STEP_BYTES_MAX))
    while part := step(min(size, left + 1)):
        left -= len(part)
        if left < 0:
            raise _too_large(max_bytes)
        parts.append(part)
        size = min(2 * size, _STEP_BYTES_MAX)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the content is larger than {max_bytes} bytes")


_DECOMPRESSORS: dict[int, Callable[[Bytes, int], bytes]] = {
    Codec.NONE: _plain,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
