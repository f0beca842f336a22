"""Our record batches against those of two clients that nobody here wrote, in both directions."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.wire.batch import Codec, ProducerStamp, Record, crc_ok, decode_records, encode_batch, read_header
from ottla.wire.produced import check_produced

NOW = 1_700_000_000_000
blobs = st.none() | st.binary(max_size=400)
headers = st.lists(st.tuples(st.text(max_size=12), blobs), max_size=3).map(tuple)
contents = st.lists(st.tuples(st.integers(-100_000, 100_000), blobs, blobs, headers), min_size=1, max_size=20)
Content = list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]
ORACLES = [(AioBuilder, AioBatch, codec) for codec in Codec] + [
    # python-snappy is not here, and kafka-python's snappy needs it
    (KafkaPythonBuilder, KafkaPythonBatch, codec)
    for codec in Codec
    if codec != Codec.SNAPPY
]


def as_records(content: Content) -> list[Record]:
    return [Record(i, NOW + delta, key, value, names) for i, (delta, key, value, names) in enumerate(content)]


@pytest.mark.parametrize(("builder", "batch", "codec"), ORACLES)
@settings(max_examples=40)
@given(content=contents, repeat=st.sampled_from([1, 40]))
def test_we_read_what_other_clients_write(
    builder: Any, batch: Any, codec: Codec, content: Content, repeat: int
) -> None:
    records = as_records(content * repeat)
    theirs = builder(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=4000,
        producer_epoch=3,
        base_sequence=2**31 - 5,
        batch_size=10_000_000,
    )
    for record in records:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    data = bytes(theirs.build())
    assert decode_records(data) == records
    header = check_produced(data)
    assert crc_ok(data, 0, header)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, 2**31 - 5)
    assert header.max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize(("builder", "batch", "codec"), ORACLES)
@settings(max_examples=40)
@given(content=contents, repeat=st.sampled_from([1, 40]))
def test_other_clients_read_what_we_write(
    builder: Any, batch: Any, codec: Codec, content: Content, repeat: int
) -> None:
    base = 2**40
    records = [record._replace(offset=base + record.offset) for record in as_records(content * repeat)]
    data = encode_batch(records, base_offset=base, codec=codec, producer=ProducerStamp(7, 1, 99))
    theirs = batch(bytearray(data))
    assert theirs.validate_crc()
    assert theirs.compression_type == codec
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (7, 1, 99)
    assert theirs.next_offset == read_header(data).next_offset
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == records
