"""Avro is read by a kernel, and nobody can tell: results and errors are fastavro's."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.avro_reading import reader
from ottla.spark.formats.avro_schema import parse

NOTE = {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}
FLAT: dict[str, Any] = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "share", "type": ["null", "double"]},
        {"name": "part", "type": "float"},
        {"name": "ok", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD", "GONE"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "note", "type": ["null", NOTE]},
        {"name": "again", "type": "Note"},
        {"name": "nothing", "type": {"type": "record", "name": "Empty", "fields": []}},
    ],
}
BARE = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}
NESTED: dict[str, Any] = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "grid", "type": {"type": "array", "items": {"type": "array", "items": "long"}}},
        {"name": "counts", "type": ["null", {"type": "map", "values": {"type": "array", "items": "int"}}]},
        {"name": "notes", "type": {"type": "map", "values": NOTE}},
        {"name": "wide", "type": ["int", "null", "long"]},
        {
            "name": "any",
            "type": [
                "string",
                "null",
                "Note",
                {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
                {"type": "array", "items": ["bytes", "double"]},
                "boolean",
            ],
        },
        {"name": "big", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}},
        {"name": "at", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}},
    ],
}
AVRO = {name: Avro(schema) for name, schema in (("flat", FLAT), ("nested", NESTED), ("note", NOTE), ("decimal", BARE))}
AVRO |= {name: Avro(name) for name in ("string", "double")}

TIMES = {"day": pa.int32(), "at": pa.int64(), "exact": pa.int64()}

_int32, _int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_notes = st.fixed_dictionaries({"text": st.text(max_size=6)})
_rows = st.fixed_dictionaries(
    {
        "id": _int64,
        "small": st.none() | _int32,
        "name": st.none() | st.text(max_size=6),
        "raw": st.binary(max_size=6),
        "share": st.none() | st.floats(allow_nan=False),
        "part": st.floats(width=32, allow_nan=False),
        "ok": st.booleans(),
        "kind": st.sampled_from(["NEW", "OLD", "GONE"]),
        "hash": st.binary(min_size=3, max_size=3),
        "price": st.decimals(-9999999, 9999999, places=2),
        "day": st.none() | st.integers(-700_000, 2_900_000),
        "at": st.integers(-(2**53), 2**53),
        "exact": _int64,
        "note": st.none() | _notes,
        "again": _notes,
        "nothing": st.just({}),
    }
)


_nested = st.fixed_dictionaries(
    {
        "tags": st.lists(st.none() | st.text(max_size=4), max_size=4),
        "grid": st.lists(st.lists(_int64, max_size=3), max_size=3),
        "counts": st.none() | st.dictionaries(st.text(max_size=2), st.lists(_int32, max_size=2), max_size=3),
        "notes": st.dictionaries(st.text(max_size=2), _notes, max_size=3),
        "wide": st.none() | _int64,
        "any": st.none()
        | st.text(max_size=3)
        | st.tuples(st.just("Note"), _notes)
        | st.tuples(st.just("Colour"), st.sampled_from(["RED", "BLUE"]))
        | st.lists(st.binary(max_size=3) | st.floats(allow_nan=False), max_size=3)
        | st.booleans(),
        "big": st.decimals(-(10**34), 10**34, places=3),
        "at": st.lists(st.integers(-(2**53), 2**53), max_size=2),
    }
)


def written(row: dict[str, Any], schema: dict[str, Any] = FLAT) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), row)
    return out.getvalue()


@st.composite
def records(draw: st.DrawFn, rows: st.SearchStrategy[dict[str, Any]], schema: dict[str, Any]) -> bytes | None:
    record = bytearray(written(draw(rows), schema))
    match draw(st.sampled_from(["whole", "whole", "null", "cut", "more", "change", "insert"])):
        case "null":
            return None
        case "cut":
            del record[draw(st.integers(0, len(record) - 1)) :]
        case "more":
            record += draw(st.binary(min_size=1, max_size=12))
        case "change":
            record[draw(st.integers(0, len(record) - 1))] = draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
        case "insert":
            at = draw(st.integers(0, len(record)))
            record[at:at] = draw(
                st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80\x00", b"\xff\xff\xff\xff\x1f"])
            )
    return bytes(record)


def check(avro: Avro, column: pa.Array) -> None:
    found, expected = avro.decode(column), avro._decode(column)
    found.results.validate(full=True)
    assert found.errors.to_pylist() == expected.errors.to_pylist()
    assert found.results.equals(expected.results)


@given(st.lists(records(_rows, FLAT), max_size=3), st.integers(0, 1))
def test_the_kernel_reads_what_fastavro_reads(drawn: list[bytes | None], first: int) -> None:
    check(AVRO["flat"], pa.array(drawn, pa.binary()).slice(min(first, len(drawn))))


@settings(max_examples=200)
@given(st.lists(records(_nested, NESTED), max_size=4), st.integers(0, 1))
def test_the_kernel_reads_lists_maps_and_unions_as_fastavro_does(drawn: list[bytes | None], first: int) -> None:
    check(AVRO["nested"], pa.array(drawn, pa.binary()).slice(min(first, len(drawn))))


@given(st.lists(_nested, min_size=1, max_size=5))
def test_nested_records_do_not_need_fastavro(rows: list[dict[str, Any]]) -> None:
    by_kernel = reader(parse(NESTED))
    assert by_kernel is not None
    read = by_kernel.read(pa.array([written(row, NESTED) for row in rows]))
    assert read is not None
    assert len(read[1]) == 0


def test_blocks_of_lists_may_say_their_size_and_be_many() -> None:
    blocks = bytes([3, 4, 2, 4]) + bytes([2, 6]) + bytes([0])  # two elements in two bytes, and one more
    check(Avro({"type": "array", "items": "int"}), pa.array([blocks, blocks[:-1], b"\x01"]))


def test_counts_that_are_lies_allocate_nothing() -> None:
    claims = [written({"n": 2**40}, {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})]
    for schema in ({"type": "array", "items": "string"}, {"type": "map", "values": "long"}):
        found = Avro(schema).decode(pa.array([*claims, b"\x00"]))
        assert [error is None for error in found.errors.to_pylist()] == [False, True]


def test_more_elements_than_there_was_room_for_are_read() -> None:
    schema = {"type": "array", "items": {"type": "array", "items": "int"}}
    rows = [[[1, 2]] * 3, [], [[3] * 5000] * 2, [[]] * 4000, [[4]]]
    found = Avro(schema).decode(pa.array([written(row, schema) for row in rows]))
    assert found.results.to_pylist() == rows


@settings(max_examples=200)
@given(st.lists(st.none() | st.binary(max_size=40), max_size=8), st.sampled_from(sorted(AVRO)))
@example([b"\x00\x00\x00\x00"], "decimal")
@example([b"\x7f\xff\xff\xff"], "decimal")
@example([b"\xff"], "string")
@example([b"\x02\xff", b"\x02a"], "string")
def test_noise_is_read_as_fastavro_reads_it(noise: list[bytes | None], name: str) -> None:
    check(AVRO[name], pa.array(noise, pa.binary()))


@given(st.lists(_rows, min_size=1, max_size=5))
def test_whole_records_do_not_need_fastavro(rows: list[dict[str, Any]]) -> None:
    by_kernel = reader(parse(FLAT))
    assert by_kernel is not None
    read = by_kernel.read(pa.array([written(row) for row in rows]))
    assert read is not None
    found, doubtful = read
    assert len(doubtful) == 0
    for name in (
        "id",
        "small",
        "name",
        "raw",
        "share",
        "part",
        "ok",
        "kind",
        "hash",
        "price",
        "note",
        "again",
        "nothing",
    ):
        assert found.field(name).to_pylist() == [row[name] for row in rows]
    assert found.field("at").cast(pa.int64()).to_pylist() == [row["at"] for row in rows]


@pytest.mark.parametrize("schema", [["null", "float", "double"], ["string", "string"]])
def test_other_schemas_are_left_to_fastavro(schema: Any) -> None:
    assert reader(parse(schema)) is None
