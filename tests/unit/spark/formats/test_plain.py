"""Bytes, text, and the frames of a schema registry."""

import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.framing import frame, unframe
from ottla.spark.formats.plain import Raw, Text

_blobs = st.lists(st.none() | st.binary(max_size=20), max_size=12)


@given(_blobs)
def test_raw_bytes_stay_as_they_are(values: list[bytes | None]) -> None:
    column = pa.array(values, pa.binary())
    for found in (Raw().decode(column), Raw().encode(column)):
        assert found.results.to_pylist() == values
        assert found.error_count == 0


@given(st.lists(st.none() | st.text(max_size=8).map(str.encode) | st.binary(max_size=8), max_size=12))
def test_text_is_what_python_takes_for_utf_8(values: list[bytes | None]) -> None:
    found = Text().decode(pa.array(values, pa.binary()))
    found.results.validate(full=True)
    for value, text, error in zip(values, found.results.to_pylist(), found.errors.to_pylist(), strict=True):
        try:
            expected = None if value is None else value.decode()
        except UnicodeDecodeError:
            assert text is None
            assert error is not None
        else:
            assert (text, error) == (expected, None)


def test_a_byte_that_is_no_utf_8_is_named() -> None:
    found = Text().decode(pa.array([b"good", b"ba\xffd", None], pa.binary()))
    assert found.results.to_pylist() == ["good", None, None]
    assert found.errors.to_pylist() == [None, "not UTF-8: byte 0xff at position 2", None]


def test_text_becomes_utf_8() -> None:
    assert Text().encode(pa.array(["é", None])).results.to_pylist() == ["é".encode(), None]


@given(_blobs, st.integers(-(2**31), 2**31 - 1))
def test_what_was_framed_is_unframed(values: list[bytes | None], schema_id: int) -> None:
    framed = frame(pa.array(values, pa.binary()), schema_id)
    assert framed.to_pylist() == [
        None if value is None else struct.pack(">bi", 0, schema_id) + value for value in values
    ]
    found = unframe(framed)
    assert found.content.to_pylist() == values
    assert found.schema_ids.to_pylist() == [None if value is None else schema_id for value in values]
    assert found.errors.null_count == len(values)


@given(_blobs, st.integers(0, 3))
def test_a_record_without_a_frame_is_an_error(values: list[bytes | None], first: int) -> None:
    found = unframe(pa.array([b"", *values], pa.binary()).slice(min(first, 1)))
    shown = ([b"", *values])[min(first, 1) :]
    for value, number, content, error in zip(shown, *(column.to_pylist() for column in found), strict=True):
        if value is None:
            assert (number, content, error) == (None, None, None)
        elif len(value) >= 5 and value[0] == 0:
            assert (number, content, error) == (struct.unpack(">i", value[1:5])[0], value[5:], None)
        else:
            assert (number, content) == (None, None)
            assert error.startswith(f"{len(value)} bytes" if len(value) < 5 else f"the first byte is {value[0]}")
