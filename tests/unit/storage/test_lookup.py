"""Looking up by time where a producer has written what nobody can read."""

from pathlib import Path

from ottla.base.topic_settings import LogConfig
from ottla.storage.lookup import TimedOffset
from ottla.wire.batch import Codec, Record, encode_batch, read_header
from ottla.wire.batch_header import seal_batch
from tests.unit.storage.compaction_world import NOW, open_log


def test_a_batch_with_unreadable_records_is_found_by_its_header(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    for index in range(3):
        batch = encode_batch([Record(i, NOW + 10 * index + i, b"k", b"v") for i in range(2)])
        if index == 1:
            batch = seal_batch(read_header(batch)._replace(attributes=Codec.ZSTD), b"no zstd")
        log.append(bytearray(batch), read_header(batch), 0, NOW)
    assert log.offset_for_timestamp(NOW) == TimedOffset(NOW, 0, 0)
    assert log.offset_for_timestamp(NOW + 2) == TimedOffset(NOW + 11, 3, 0)
    assert log.offset_for_timestamp(NOW + 12) == TimedOffset(NOW + 20, 4, 0)
    assert log.max_timestamp_offset() == TimedOffset(NOW + 21, 5, 0)
    log.truncate_to(4)
    assert log.max_timestamp_offset() == TimedOffset(NOW + 11, 3, 0)
    log.advance_start(3)
    assert log.max_timestamp_offset() == TimedOffset(NOW + 11, 3, 0)
