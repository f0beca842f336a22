"""Bytes that lie: what plain Python refuses is refused here, with the same words and the place, and nothing is read
beyond the end."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.spark.arrow.decode import RecordDecoder
from ottla.spark.arrow.schema import COLUMNS
from ottla.spark.arrow.visible import BadBatch, Fetched
from ottla.wire.batch import BatchHeader, Codec, Malformed, Record, decode_records, encode_batch, new_records
from ottla.wire.batch_header import LOG_APPEND_TIME, MAGIC, seal_batch
from ottla.wire.records import encode_records
from tests.unit.spark.arrow.fetches import NOW, rows_of

ALL = RecordDecoder(COLUMNS)
_bytes = st.sampled_from([0, 1, 2, 3, 14, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(0, 255)


def sealed(payload: bytes, count: int, last: int, attributes: int = 0, base_timestamp: int = NOW) -> bytes:
    header = BatchHeader(40, 0, 0, MAGIC, 0, attributes, last, base_timestamp, NOW, -1, -1, -1, count)
    return seal_batch(header, payload)


def check_against_plain_python(batch: bytes) -> None:
    try:
        expected = rows_of([batch])
    except Malformed as fault:
        if "UTF-8" in str(fault):
            with suppress(BadBatch):  # here it is mended; another fault may follow
                ALL.decode(Fetched("orders", 3, batch))
            return
        with pytest.raises(BadBatch) as caught:
            ALL.decode(Fetched("orders", 3, batch))
        assert str(caught.value) == f"orders-3: the batch at offset 40 is malformed: {fault}"
        assert caught.value.offset == 40
    except OverflowError:
        ALL.decode(Fetched("orders", 3, batch))  # a time that Python's datetime does not know
    else:
        found = ALL.decode(Fetched("orders", 3, batch))
        assert [row for rows in found.batches for row in rows.to_pylist()] == expected


@st.composite
def broken_payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    blobs = st.none() | st.binary(max_size=20)
    headers = st.lists(st.tuples(st.text("ab", max_size=3), blobs), max_size=2).map(tuple)
    count = draw(st.integers(1, 4))
    records = [Record(40 + i, NOW + i, draw(blobs), draw(blobs), draw(headers)) for i in range(count)]
    payload = bytearray(encode_records(records, 40, NOW))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(payload) - 1))
        match draw(st.sampled_from(["set", "insert", "delete", "cut"])):
            case "set":
                payload[at] = draw(_bytes)
            case "insert":
                payload[at:at] = draw(st.lists(_bytes, max_size=12).map(bytes))
            case "delete" if len(payload) > 1:
                del payload[at]
            case _ if at:
                del payload[at:]
    return bytes(payload), count


@settings(max_examples=600)
@given(broken_payloads(), st.integers(-1, 6), st.sampled_from([0, LOG_APPEND_TIME]))
def test_broken_records_are_refused_just_as_plain_python_does(
    drawn: tuple[bytes, int], last: int, attributes: int
) -> None:
    payload, count = drawn
    check_against_plain_python(sealed(payload, count, max(last, count - 1), attributes))


@settings(max_examples=400)
@given(st.lists(_bytes, max_size=60).map(bytes), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1))
@example(b"\x0e\x00" + b"\xff" * 9 + b"\x01" + b"\x00" * 5, 1, 0)
@example(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, 0)
@example(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00" * 20, 1, 0)
@example(b"\x0e\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", 1, 0)
@example(b"\x10\x00\x00\x00\x01\x01\xfe\xff", 1, 0)
def test_noise_is_refused_just_as_plain_python_does(payload: bytes, count: int, last: int) -> None:
    check_against_plain_python(sealed(payload, count, last))


@given(st.binary(max_size=300))
def test_any_bytes_are_taken_or_refused(noise: bytes) -> None:
    decoder = RecordDecoder(COLUMNS, check_crcs=False)
    with suppress(Malformed):
        decoder.decode(Fetched("orders", 3, noise))


@given(st.data())
def test_a_header_that_lies_is_refused(data: st.DataObject) -> None:
    batch = bytearray(encode_batch(new_records([(b"k", b"v")] * 3, NOW), codec=data.draw(st.sampled_from(Codec))))
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    try:
        expected = rows_of([bytes(batch)])
    except (Malformed, OverflowError):
        expected = None
    try:
        found = RecordDecoder(COLUMNS, check_crcs=False).decode(Fetched("orders", 3, batch, aborted=[(2**40, 0)]))
    except Malformed:
        return
    if expected is not None and found.row_count:
        assert [row for rows in found.batches for row in rows.to_pylist()] == expected


def test_a_checksum_that_does_not_fit_is_said() -> None:
    batch = bytearray(encode_batch(new_records([(b"k", b"v")], NOW)))
    batch[-1] ^= 1
    with pytest.raises(BadBatch, match="orders-3: the batch at offset 0 is malformed: its checksum does not fit"):
        ALL.decode(Fetched("orders", 3, batch))


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63)])
def test_a_time_beyond_64_bits_is_refused(delta: int) -> None:
    base = 2**62 if delta > 0 else -(2**62)
    payload = encode_records([Record(40, base + delta, None, None)], 40, base)
    with pytest.raises(BadBatch, match="a timestamp that does not fit into 64 bits"):
        ALL.decode(Fetched("orders", 3, sealed(payload, 1, 0, base_timestamp=base)))
    assert decode_records(sealed(payload, 1, 0, LOG_APPEND_TIME, base))


def test_offsets_that_no_log_has_are_refused() -> None:
    for base in (-1, 2**63 - 2):
        batch = bytearray(encode_batch(new_records([(b"k", b"v")] * 2, NOW)))
        batch[:8] = base.to_bytes(8, "big", signed=True)
        with pytest.raises(BadBatch, match="it ends at offset"):
            ALL.decode(Fetched("orders", 3, batch))


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    batch = encode_batch(new_records([(None, bytes(1_000_000))], NOW), codec=Codec.ZSTD)
    with pytest.raises(BadBatch, match="larger than 1000 bytes"):
        RecordDecoder(max_decompressed_bytes=1000).decode(Fetched("orders", 3, batch))


def test_old_formats_are_named() -> None:
    batch = bytearray(encode_batch(new_records([(b"k", b"v")], NOW)))
    batch[16] = 1
    with pytest.raises(Malformed, match="orders-3: record batch of format 1"):
        ALL.decode(Fetched("orders", 3, batch))
