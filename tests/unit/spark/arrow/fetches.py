"""What a fetch may bring, drawn at random, and the rows that a decoder in plain Python makes of it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from ottla.spark.arrow.visible import ALL_OFFSETS, Window
from ottla.wire.batch import (
    NO_STAMP,
    BatchHeader,
    Codec,
    ProducerStamp,
    Record,
    decode_records,
    encode_batch,
    read_header,
    with_log_append_time,
)
from ottla.wire.batch_header import MAGIC

NOW = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]

_blobs = st.none() | st.binary(max_size=150)
_headers = st.lists(st.tuples(st.text(max_size=8), _blobs), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn, base: int, stamp: ProducerStamp = NO_STAMP, codec: int | None = None) -> bytes:
    """One batch from offset `base` on: as compaction may leave it, of any codec, in either kind of time."""
    offset, records = base, []
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.integers(0, 200))
        timestamp = draw(st.integers(-1, NOW) | st.integers(NOW - 5, NOW + 5))
        records.append(Record(offset, timestamp, draw(_blobs), draw(_blobs), draw(_headers)))
        offset += 1
    chosen = draw(st.sampled_from(Codec)) if codec is None else codec
    batch = encode_batch(records, base_offset=base, codec=chosen, producer=stamp)
    return with_log_append_time(batch, NOW + 7) if draw(st.booleans()) else batch


@st.composite
def logs(draw: st.DrawFn, codec: int | None = None) -> list[bytes]:
    """Some batches in a row, with gaps between them."""
    found, base = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        found.append(draw(batches(base, codec=codec)))
        base = read_header(found[-1]).next_offset + draw(st.integers(0, 3))
    return found


def rows_of(
    batches_seen: Iterable[bytes], window: Window = ALL_OFFSETS, topic: str = "orders", partition: int = 3
) -> list[Row]:
    return [
        row_of(record, topic, partition, read_header(batch).is_log_append_time)
        for batch in batches_seen
        for record in decode_records(batch)
        if window.start <= record.offset < window.end
    ]


def row_of(record: Record, topic: str, partition: int, is_append_time: bool) -> Row:
    return {
        "key": record.key,
        "value": record.value,
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": int(is_append_time),
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def empty_batch(base: int, last: int) -> bytes:
    """What compaction leaves of a batch whose records are all gone."""
    from ottla.wire.batch_header import seal_batch

    return seal_batch(BatchHeader(base, 0, 0, MAGIC, 0, 0, last - base, NOW, NOW, -1, -1, -1, 0), b"")


def joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(parts)
