"""Records stepped over must be the records that are read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.malformed import Malformed
from ottla.wire.records import Record, encode_records, split_records
from ottla.wire.scan import RECORDS_PER_PART, Content, record_bounds, scan_records, timestamp_delta

texts = st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=70) | st.just(bytes(20_000))
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
gaps = st.integers(1, 3) | st.sampled_from([60, 8000, 2**21])
times = st.integers(-(2**62), 2**62) | st.integers(-70, 70) | st.integers(8000, 9000)
records = st.lists(st.tuples(gaps, times, texts, texts, headers), max_size=6)


def encoded(drawn: list[tuple]) -> tuple[bytes, int, int]:  # type: ignore[type-arg]
    offset, found = -1, []
    for gap, *fields in drawn:
        offset += gap
        found.append(Record(offset, *fields))
    return encode_records(found, 0, 0), len(found), offset


def scanned(data: bytes, count: int, last_offset_delta: int) -> list[tuple]:  # type: ignore[type-arg]
    """In the shape that `split_records` gives."""
    found: list[tuple] = []  # type: ignore[type-arg]
    data = b"\x7f" + data + b"\x7f\x7f"  # what lies around it is none of its business
    for part in scan_records(Content(data, 1, len(data) - 2), count, last_offset_delta):
        found += [(delta, key, number in part.nulls) for number, (key, delta) in enumerate(zip(*part[:2], strict=True))]
    bounds = record_bounds(Content(data, 1, len(data) - 2), count)
    return [
        (timestamp_delta(data, start), delta, key, is_null, start - 1, end - 1)
        for (delta, key, is_null), (start, end) in zip(found, pairwise(bounds), strict=True)
    ]


def split(data: bytes, count: int, last_offset_delta: int) -> list[tuple]:  # type: ignore[type-arg]
    return [(*raw[:3], raw[3] is None, *raw[5:]) for raw in split_records(data, count, last_offset_delta)]


@given(records)
def test_a_scan_finds_what_reading_finds(drawn: list[tuple]) -> None:  # type: ignore[type-arg]
    data, count, last = encoded(drawn)
    assert scanned(data, count, last) == split(data, count, last)


@given(records, st.data())
def test_a_scan_refuses_what_reading_refuses(drawn: list[tuple], choices: st.DataObject) -> None:  # type: ignore[type-arg]
    data, count, last = encoded(drawn)
    damaged = bytearray(data)
    if damaged:
        for _ in range(choices.draw(st.integers(1, 2))):
            damaged[choices.draw(st.integers(0, min(len(damaged) - 1, 30)))] = choices.draw(st.integers(0, 255))
    damaged += choices.draw(st.sampled_from([b"", b"", b"\0"]))
    count += choices.draw(st.sampled_from([0, 0, 1, -1]))
    try:
        expected = split(bytes(damaged), count, last)
    except Malformed:
        with pytest.raises(Malformed):
            scanned(bytes(damaged), count, last)
    else:
        assert scanned(bytes(damaged), count, last) == expected


def test_a_large_batch_comes_in_parts() -> None:
    count = 2 * RECORDS_PER_PART + 1
    data, _, last = encoded([(1, 7, b"%d" % number, b"value", ()) for number in range(count)])
    parts = list(scan_records(Content(data, 0, len(data)), count, last))
    assert [len(part.keys) for part in parts] == [RECORDS_PER_PART, RECORDS_PER_PART, 1]
    assert scanned(data, count, last) == split(data, count, last)
