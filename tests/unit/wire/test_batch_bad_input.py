"""Batches that a stranger may send: each is refused by name, none by a crash or a large allocation."""

import contextlib
import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ErrorCode, Refused
from ottla.wire.batch import (
    BatchHeader,
    Codec,
    Malformed,
    ProducerStamp,
    Record,
    decode_records,
    encode_batch,
    keyless_records,
    new_records,
    read_header,
)
from ottla.wire.batch_header import pack_header, seal_batch
from ottla.wire.compression import DecompressedTooLarge, compress
from ottla.wire.produced import check_produced
from ottla.wire.records import encode_varint

NOW = 1_700_000_000_000
GOOD = encode_batch(new_records([(b"k1", b"v1"), (b"k2", b"v2")], NOW), producer=ProducerStamp(4000, 0, 0))


def resealed(**fields: int) -> bytes:
    """GOOD with other header fields and a checksum that fits them."""
    return seal_batch(read_header(GOOD)._replace(**fields), GOOD[61:])


def with_raw_length(length: int) -> bytes:
    return GOOD[:8] + struct.pack(">i", length) + GOOD[12:]


def with_payload(payload: bytes, count: int = 1, codec: int = 0) -> bytes:
    header = read_header(encode_batch(new_records([(b"k", b"v")] * max(count, 1), NOW)))
    return seal_batch(header._replace(record_count=count, attributes=codec), compress(codec, payload))


def refusal(data: bytes | None) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        check_produced(None if data is None else memoryview(data))
    return caught.value.code


def test_a_sound_batch_passes() -> None:
    assert check_produced(memoryview(GOOD)) == read_header(GOOD)
    transactional = encode_batch(new_records([(b"k", b"v")], -1), producer=ProducerStamp(1, 0, 0, True))
    assert check_produced(transactional) == read_header(transactional)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_length_too_small_for_a_header_is_malformed(length: int) -> None:
    with pytest.raises(Malformed):
        read_header(with_raw_length(length))
    assert refusal(with_raw_length(length)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [len(GOOD) - 11, 2**31 - 1])
def test_a_batch_length_past_the_data_is_corrupt(length: int) -> None:
    assert refusal(with_raw_length(length)) == ErrorCode.INVALID_RECORD
    with pytest.raises(Malformed):
        decode_records(with_raw_length(length))


@pytest.mark.parametrize("left", [0, 1, 16, 17, 60])
def test_a_header_that_is_cut_off_is_malformed(left: int) -> None:
    with pytest.raises(Malformed):
        read_header(GOOD[:left])
    with pytest.raises(Malformed):
        read_header(GOOD, len(GOOD) - left)
    assert refusal(GOOD[:left]) == ErrorCode.INVALID_RECORD


def test_a_position_in_front_of_the_data_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_header(GOOD, -61)


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_another_magic_is_refused(magic: int) -> None:
    expected = ErrorCode.INVALID_RECORD if magic in (0, 1) else ErrorCode.CORRUPT_MESSAGE
    assert refusal(GOOD[:16] + bytes((magic,)) + GOOD[17:]) == expected


def test_no_batch_and_two_batches_are_refused() -> None:
    assert refusal(None) == ErrorCode.INVALID_RECORD
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(GOOD + GOOD) == ErrorCode.INVALID_RECORD
    assert refusal(GOOD + b"\0") == ErrorCode.INVALID_RECORD


def test_a_wrong_checksum_is_corrupt() -> None:
    assert refusal(GOOD[:-1] + bytes((GOOD[-1] ^ 1,))) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(GOOD[:17] + bytes(4) + GOOD[21:]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("base_offset", [-1, 1, 2**63 - 1])
def test_a_base_offset_other_than_zero_is_refused(base_offset: int) -> None:
    assert refusal(struct.pack(">q", base_offset) + GOOD[8:]) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"last_offset_delta": 0},
        {"last_offset_delta": 2},
        {"last_offset_delta": -1},
        {"last_offset_delta": 2**31 - 1},
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": 0},
        {"record_count": -1, "last_offset_delta": -2},
        {"attributes": 5},
        {"attributes": 6},
        {"attributes": 7},
        {"attributes": 0x20},
        {"attributes": 0x40},
        {"attributes": 0x80},
        {"attributes": -0x8000},
        {"attributes": 0x10, "producer_id": -1},
        {"base_sequence": -1},
        {"producer_epoch": -1},
    ],
    ids=str,
)
def test_headers_that_contradict_themselves_are_refused(fields: dict[str, int]) -> None:
    assert refusal(resealed(**fields)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("fields", [{"attributes": 8}, {"max_timestamp": -2}, {"base_timestamp": -2}], ids=str)
def test_timestamps_that_a_producer_may_not_set_are_refused(fields: dict[str, int]) -> None:
    assert refusal(resealed(**fields)) == ErrorCode.INVALID_TIMESTAMP


def test_a_timestamp_may_be_as_late_as_the_format_allows() -> None:
    latest = 2**63 - 1
    record = Record(0, latest, b"k", b"v")
    assert decode_records(encode_batch([record])) == [record]


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62)])
def test_a_timestamp_delta_that_overflows_is_malformed(base: int, delta: int) -> None:
    body = b"\0" + encode_varint(delta) + b"\x00\x01\x01\x00"
    batch = with_payload(encode_varint(len(body)) + body)
    with pytest.raises(Malformed):
        decode_records(seal_batch(read_header(batch)._replace(base_timestamp=base), batch[61:]))


KEY, VALUE, NO_HEADERS = b"\x02k", b"\x02v", b"\x00"


def framed(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


BAD_PAYLOADS = {
    "no data": b"",
    "record length negative": b"\x01" + bytes(20),
    "record length zero": b"\x00" + bytes(20),
    "record length past the data": encode_varint(100) + bytes(20),
    "record length of 2^31-1": encode_varint(2**31 - 1) + bytes(20),
    "record length of 2^63-1": encode_varint(2**63 - 1) + bytes(20),
    "record longer than its fields": framed(b"\0\0\0" + KEY + VALUE + NO_HEADERS + b"\0"),
    "record shorter than its fields": encode_varint(7) + b"\0\0\0" + KEY + VALUE + NO_HEADERS,
    "key length below -1": framed(b"\0\0\0" + b"\x03" + VALUE + NO_HEADERS),
    "key length past the data": framed(b"\0\0\0" + b"\x7ek" + VALUE + NO_HEADERS),
    "key length of 2^31-1": framed(b"\0\0\0" + encode_varint(2**31 - 1) + b"k" + VALUE + NO_HEADERS),
    "value length below -1": framed(b"\0\0\0" + KEY + encode_varint(-1000) + NO_HEADERS),
    "value length past the data": framed(b"\0\0\0" + KEY + b"\x7ev" + NO_HEADERS),
    "value length of 2^63-1": framed(b"\0\0\0" + KEY + encode_varint(2**63 - 1) + b"v" + NO_HEADERS),
    "header count negative": framed(b"\0\0\0" + KEY + VALUE + b"\x01"),
    "header count of 2^31-1": framed(b"\0\0\0" + KEY + VALUE + encode_varint(2**31 - 1)),
    "header key null": framed(b"\0\0\0" + KEY + VALUE + b"\x02" + b"\x01" + b"\x02v"),
    "header key past the record": framed(b"\0\0\0" + KEY + VALUE + b"\x02" + b"\x20h" + b"\x02v"),
    "header key not UTF-8": framed(b"\0\0\0" + KEY + VALUE + b"\x02" + b"\x02\xff" + b"\x02v"),
    "header value below -1": framed(b"\0\0\0" + KEY + VALUE + b"\x02" + b"\x02h" + b"\x03"),
    "header value past the record": framed(b"\0\0\0" + KEY + VALUE + b"\x02" + b"\x02h" + b"\x20v"),
    "varint without an end": b"\xff" * 30,
    "varint of eleven bytes": b"\x80" * 10 + b"\x01" + bytes(30),
    "offset delta negative": framed(b"\0\0\x01" + KEY + VALUE + NO_HEADERS),
    "offset delta past the batch": framed(b"\0\0\x02" + KEY + VALUE + NO_HEADERS),
    "more data than records": framed(b"\0\0\0" + KEY + VALUE + NO_HEADERS) + b"\0",
    "fewer data than fields": framed(b"\0\0\0" + KEY)[:-1],
}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("payload", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS.keys())
def test_records_that_contradict_their_lengths_are_malformed(payload: bytes, codec: Codec) -> None:
    batch = with_payload(payload, codec=codec)
    with pytest.raises(Malformed):
        decode_records(batch)
    with pytest.raises(Malformed):
        keyless_records(batch, read_header(batch))


@pytest.mark.parametrize("count", [-1, 0, 2, 3, 2**31 - 1])
def test_a_count_that_is_not_the_number_of_records_is_malformed(count: int) -> None:
    body = framed(b"\0\0\0" + KEY + VALUE + NO_HEADERS)
    header = read_header(with_payload(body))._replace(record_count=count, last_offset_delta=2**31 - 1)
    with pytest.raises(Malformed):
        decode_records(seal_batch(header, body))


def test_offsets_that_stand_still_are_malformed() -> None:
    with pytest.raises(Malformed):
        decode_records(with_payload(framed(b"\0\0\0" + KEY + VALUE + NO_HEADERS) * 2, count=2))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_payload_that_is_not_what_its_codec_bits_say_is_malformed(codec: Codec) -> None:
    with pytest.raises(Malformed):
        decode_records(resealed(attributes=codec))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_malformed(codec: int) -> None:
    with pytest.raises(Malformed):
        decode_records(resealed(attributes=codec))


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_grows_past_the_bound_is_refused(codec: Codec) -> None:
    batch = encode_batch(new_records([(b"k", bytes(100_000))], NOW), codec=codec)
    assert len(decode_records(batch, 110_000)) == 1
    with pytest.raises(DecompressedTooLarge):
        decode_records(batch, 100_000)
    with pytest.raises(DecompressedTooLarge):
        keyless_records(batch, read_header(batch), 100_000)


def test_claimed_sizes_are_not_allocated() -> None:
    tracemalloc.start()
    for payload in BAD_PAYLOADS.values():
        with pytest.raises(Malformed):
            decode_records(with_payload(payload))
    for count in (2**31 - 1, -1):
        with pytest.raises(Malformed):
            decode_records(resealed(record_count=count))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1024 * 1024


@given(st.integers(61, len(GOOD) - 1), st.integers(0, 255))
def test_any_byte_of_the_records_may_be_anything(at: int, byte: int) -> None:
    """With a checksum that fits: what passes for a batch has as many records as it says."""
    payload = bytearray(GOOD[61:])
    payload[at - 61] = byte
    try:
        records = decode_records(seal_batch(read_header(GOOD), bytes(payload)))
    except Malformed:
        return
    assert [record.offset for record in records] == [0, 1]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_a_batch(data: bytes) -> None:
    for read in (decode_records, read_header):
        with contextlib.suppress(Malformed):
            read(data)
    assert refusal(data) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=12, max_size=12))
def test_arbitrary_headers_around_good_records_never_crash(numbers: list[int]) -> None:
    base, epoch, attributes, last, *rest = numbers
    fields = BatchHeader(base, 0, epoch, 2, 0, attributes, last, *rest[:6])
    batch = seal_batch(fields, GOOD[61:])
    assert batch[21:61] == pack_header(fields)[21:]
    assert crc32c(batch[21:]) == read_header(batch).crc
    with contextlib.suppress(Malformed):
        decode_records(batch)
    with contextlib.suppress(Refused):
        check_produced(batch)


def test_a_batch_of_very_many_records_is_checked_without_holding_them() -> None:
    batch = encode_batch(new_records([(b"", None)] * 50_000, NOW), codec=Codec.ZSTD)
    assert len(batch) < 200_000
    tracemalloc.start()
    assert keyless_records(batch, read_header(batch)) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000


def test_of_very_many_keyless_records_the_first_ones_are_named() -> None:
    batch = encode_batch(new_records([(None, b"")] * 5000, NOW))
    assert keyless_records(batch, read_header(batch)) == list(range(100))
