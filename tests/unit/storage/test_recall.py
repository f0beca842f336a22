"""After a restart a producer's last five batches are known again, though a snapshot holds only the last of them."""

import os
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode, Refused
from ottla.base.topic_settings import LogConfig
from ottla.core.producers.table import Duplicate
from ottla.storage.log import Log, LogPlace, LogStart
from ottla.storage.recall import RETRY_MS_MAX
from ottla.wire.batch import ProducerStamp
from ottla.wire.batch_header import read_header
from tests.unit.storage.batches import append, batch

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
NOW_MS = 1_000
PRODUCERS, BATCHES = 3, 9


def sent(producer: int, number: int) -> bytearray:
    """Two records each, sequences from 0 on."""
    return bytearray(batch(2, timestamp=NOW_MS, stamp=ProducerStamp(producer, 0, 2 * number), size=60))


def opened(directory: Path, start: LogStart, now_ms: int = NOW_MS) -> Log:
    return Log.open(LogPlace(directory, "t", 0), CONFIG, start, now_ms)


def written(directory: Path) -> tuple[Log, dict[tuple[int, int], int]]:
    """A log to which the producers wrote in turns, and the base offset of each batch."""
    log = opened(directory, LogStart())
    offsets = {(p, number): append(log, sent(p, number)) for number in range(BATCHES) for p in range(PRODUCERS)}
    assert len(log.segments) > 2
    return log, offsets


def assert_last_five_are_known(log: Log, offsets: dict[tuple[int, int], int]) -> None:
    for producer in range(PRODUCERS):
        for number in range(BATCHES - 5, BATCHES):
            found = log.producers.check(read_header(sent(producer, number)))
            assert isinstance(found, Duplicate) and found.base_offset == offsets[producer, number]
        with pytest.raises(Refused) as refused:
            log.producers.check(read_header(sent(producer, BATCHES - 6)))
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert log.producers.check(read_header(sent(producer, BATCHES))) is None


def test_after_a_clean_stop(tmp_path: Path) -> None:
    log, offsets = written(tmp_path)
    log.close()
    log = opened(tmp_path, LogStart(clean=True))
    assert not log.has_recovered
    assert_last_five_are_known(log, offsets)


@pytest.mark.parametrize("back", [0, 1, 2])
def test_after_a_crash_that_only_the_last_segments_are_read_for(tmp_path: Path, back: int) -> None:
    log, offsets = written(tmp_path)
    recovery_point = log.segments[-1 - back].base_offset
    log.close(clean=False)
    assert_last_five_are_known(opened(tmp_path, LogStart(recovery_point=recovery_point)), offsets)


def test_after_a_truncation(tmp_path: Path) -> None:
    log, offsets = written(tmp_path)
    append(log, sent(0, BATCHES))
    log.truncate_to(log.end_offset - 2)
    assert_last_five_are_known(log, offsets)


def test_batches_of_an_earlier_epoch_are_not_recalled(tmp_path: Path) -> None:
    log = opened(tmp_path, LogStart())
    append(log, sent(0, 0))
    append(log, bytearray(batch(2, timestamp=NOW_MS, stamp=ProducerStamp(0, 1, 0))))
    log.close()
    log = opened(tmp_path, LogStart(clean=True))
    producer = log.producers.get(0)
    assert producer is not None and [one.first_offset for one in producer.batches] == [2]


def test_an_old_log_is_not_searched(tmp_path: Path) -> None:
    log, _ = written(tmp_path)
    log.close()
    for path in Path(log.place.path).glob("*.log"):
        os.utime(path, (1, 1))
    log = opened(tmp_path, LogStart(clean=True), now_ms=1_000 + RETRY_MS_MAX + 1)
    assert [len(producer.batches) for producer in log.producers] == [1] * PRODUCERS
