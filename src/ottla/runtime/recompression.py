"""The form in which a batch is stored where the topic says which codec (`compression.type`)."""

from ottla.base.errors import ErrorCode, Refused
from ottla.base.limits import PRODUCED_DECOMPRESSED_BYTES_MAX
from ottla.base.topic_settings import LogConfig
from ottla.wire.batch import recompress
from ottla.wire.batch_header import BatchHeader, read_header
from ottla.wire.compression import Codec
from ottla.wire.malformed import Malformed

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def stored_form(data: memoryview, header: BatchHeader, config: LogConfig) -> tuple[memoryview, BatchHeader]:
    """The batch to write and its header, for a topic that does not leave the codec to its producers."""
    codec = _CODECS[config.compression_type]
    if header.codec == codec:
        return data, header
    try:
        stored = bytearray(recompress(data, codec, _level(codec, config), PRODUCED_DECOMPRESSED_BYTES_MAX))
    except Malformed as broken:
        raise Refused(ErrorCode.INVALID_RECORD, f"the batch cannot be decompressed: {broken}") from None
    return memoryview(stored), read_header(stored)


def _level(codec: Codec, config: LogConfig) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
