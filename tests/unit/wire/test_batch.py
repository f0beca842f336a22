"""Batch headers, whole batches, and the records in them: round trips and the rules of format v2."""

import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.batch import (
    BatchHeader,
    Codec,
    Malformed,
    ProducerStamp,
    Record,
    UnknownMagic,
    crc_ok,
    decode_records,
    encode_batch,
    iter_headers,
    keyless_records,
    new_records,
    patch_offsets,
    read_header,
    recompress,
    stamp_append_time,
    with_log_append_time,
)
from ottla.wire.batch_header import HEADER_BYTES, seal_in_place

NOW = 1_700_000_000_000


@st.composite
def record_lists(draw: st.DrawFn) -> tuple[int, list[Record]]:
    """Records as compaction may leave them: offsets with gaps, any order of timestamps."""
    base = draw(st.integers(0, 2**62))
    offset, records = base, []
    blobs = st.none() | st.binary(max_size=200)
    headers = st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3)
    for _ in range(draw(st.integers(1, 8))):
        offset += draw(st.integers(0, 300))
        timestamp = draw(st.integers(-1, 2**62) | st.integers(NOW - 5, NOW + 5))
        records.append(Record(offset, timestamp, draw(blobs), draw(blobs), tuple(draw(headers))))
        offset += 1
    return base, records


@given(record_lists(), st.sampled_from(Codec))
def test_records_come_back_as_they_were(drawn: tuple[int, list[Record]], codec: Codec) -> None:
    base, records = drawn
    batch = encode_batch(records, base_offset=base, codec=codec, leader_epoch=3)
    header = read_header(batch)
    assert crc_ok(batch, 0, header)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset) == (base, records[-1].offset)
    assert (header.record_count, header.codec, header.leader_epoch) == (len(records), codec, 3)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert decode_records(memoryview(batch)) == records


def test_a_header_stands_at_the_places_kafka_reads() -> None:
    batch = encode_batch(
        new_records([(b"k", b"v"), (None, None)], NOW), base_offset=0, producer=ProducerStamp(4000, 7, 100, True)
    )
    assert struct.unpack_from(">q", batch, 0) == (0,)
    assert struct.unpack_from(">i", batch, 8) == (len(batch) - 12,)
    assert batch[16] == 2
    assert struct.unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    assert struct.unpack_from(">h", batch, 21) == (0x10,)
    assert struct.unpack_from(">iqq", batch, 23) == (1, NOW, NOW)
    assert struct.unpack_from(">qhii", batch, 43) == (4000, 7, 100, 2)
    assert batch[61:] == bytes.fromhex("10 00 00 00 02 6b 02 76 000c 00 00 02 01 01 00")


def header_with(**fields: int) -> BatchHeader:
    return read_header(encode_batch(new_records([(b"k", b"v")], NOW)))._replace(**fields)


def test_a_header_names_the_bits_of_its_attributes() -> None:
    header = header_with(attributes=0x7F & ~0x03)
    assert header.is_control and header.is_transactional and header.is_log_append_time and header.has_delete_horizon
    assert header.codec == Codec.ZSTD
    assert header.delete_horizon_ms == NOW
    plain = header_with(attributes=0)
    assert not (plain.is_control or plain.is_transactional or plain.is_log_append_time or plain.has_delete_horizon)
    assert plain.delete_horizon_ms is None


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (5, 2, 7), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-1, 4, -1)],
)
def test_the_last_sequence_wraps_to_zero(base: int, delta: int, last: int) -> None:
    assert header_with(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_a_leader_assigns_offset_and_epoch_without_breaking_the_checksum() -> None:
    batch = bytearray(b"before" + encode_batch(new_records([(b"k", b"v"), (b"k", b"w")], NOW)))
    patch_offsets(memoryview(batch), 6, 2**40, 9)
    header = read_header(batch, 6)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (2**40, 2**40 + 2, 9)
    assert crc_ok(batch, 6, header)
    assert [record.offset for record in decode_records(batch[6:])] == [2**40, 2**40 + 1]


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_replaces_every_timestamp_and_no_record(codec: Codec) -> None:
    records = [Record(0, NOW, b"k", b"v"), Record(1, NOW - 70_000, None, b"w")]
    batch = encode_batch(records, codec=codec)
    stamped = with_log_append_time(batch, NOW + 1)
    header = read_header(stamped)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW + 1
    assert crc_ok(stamped, 0, header)
    assert stamped[61:] == batch[61:]
    assert decode_records(stamped) == [record._replace(timestamp=NOW + 1) for record in records]
    in_place = bytearray(b"x" + batch)
    assert stamp_append_time(memoryview(in_place), 1, NOW + 1) == header
    assert in_place == b"x" + stamped


def test_a_batch_that_is_cut_off_is_not_stamped() -> None:
    with pytest.raises(Malformed):
        with_log_append_time(encode_batch(new_records([(b"k", b"v")], NOW))[:-1], NOW)


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_recompression_changes_the_codec_and_nothing_else(before: Codec, after: Codec) -> None:
    records = [Record(10 + i, NOW + i, b"k%d" % i, b"v" * i) for i in range(50)]
    batch = encode_batch(records, base_offset=10, codec=before, leader_epoch=4, producer=ProducerStamp(1, 2, 3))
    again = recompress(batch, after)
    header = read_header(again)
    assert header.codec == after
    assert crc_ok(again, 0, header)
    assert decode_records(again) == records
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**same) == read_header(batch)._replace(**same)


def test_headers_are_walked_batch_by_batch_up_to_a_cut_off_one() -> None:
    batches = [encode_batch(new_records([(b"k", b"v" * n)], NOW), base_offset=0) for n in (1, 50, 200)]
    data = b"".join(batches)
    starts = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    assert [at for at, _ in iter_headers(data)] == starts
    for cut in (1, 100, len(batches[2]) - 60, len(batches[2])):
        assert [at for at, _ in iter_headers(memoryview(data)[:-cut])] == starts[:2]
    assert list(iter_headers(b"")) == []


def test_a_walk_stops_with_an_error_at_bytes_that_are_no_batch() -> None:
    with pytest.raises(Malformed):
        list(iter_headers(bytes(200)))


@pytest.mark.parametrize("codec", Codec)
def test_the_checksum_covers_every_byte_behind_it(codec: Codec) -> None:
    batch = encode_batch(new_records([(b"k", b"v" * 30)], NOW), codec=codec)
    for at in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 0x40
        assert not crc_ok(damaged, 0, read_header(damaged))
    assert not crc_ok(batch[:-1], 0, read_header(batch))


@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_key_are_found(codec: Codec) -> None:
    pairs: Sequence[tuple[bytes | None, bytes | None]] = [(b"", b"a"), (None, b"b"), (b"k", None), (None, None)]
    batch = encode_batch(new_records(pairs, NOW), codec=codec)
    assert keyless_records(batch, read_header(batch)) == [1, 3]
    batch = encode_batch(new_records(pairs[::2], NOW), codec=codec)
    assert keyless_records(batch, read_header(batch)) == []


def test_a_batch_of_nothing_or_of_falling_offsets_is_not_written() -> None:
    one, two = new_records([(b"k", b"v"), (b"k", b"v")], NOW)
    for records in ([], [two, one], [one, one]):
        with pytest.raises(ValueError):
            encode_batch(records)
    with pytest.raises(ValueError):
        encode_batch([one], base_offset=1)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_by_name(magic: int) -> None:
    old_message = struct.pack(">qiIbbii", 0, 14 + 8, 0, magic, 0, -1, -1)
    for data in (old_message, old_message + bytes(100)):
        with pytest.raises(UnknownMagic, match=f"format {magic}"):
            read_header(data)


@given(record_lists())
def test_a_payload_that_is_in_its_place_is_sealed_there(drawn: tuple[int, list[Record]]) -> None:
    base, records = drawn
    batch = encode_batch(records, base_offset=base, leader_epoch=3, producer=ProducerStamp(4, 5, 6))
    buffer = bytearray(HEADER_BYTES) + batch[HEADER_BYTES:]
    seal_in_place(buffer, read_header(batch)._replace(batch_length=0, crc=0, magic=0))
    assert buffer == batch
