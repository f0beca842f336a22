"""Avro: what fastavro writes is read into Spark's types, and what is written, fastavro reads."""

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import arrow_type, ddl

BUYER = {"type": "record", "name": "Buyer", "fields": [{"name": "n", "type": "int"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "share", "type": "double"},
        {"name": "ok", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "buyer",
            "type": ["null", {"type": "record", "name": "Buyer", "fields": [{"name": "n", "type": "int"}]}],
        },
        {"name": "other", "type": ["null", "Buyer"]},
    ],
}
ORDER_DDL = (
    "struct<id: bigint, name: string, share: double, ok: boolean, kind: string, price: decimal(9,2), day: date, "
    "at: timestamp, exact: timestamp_ntz, hash: binary, tags: array<string>, counts: map<string, int>, "
    "buyer: struct<n: int>, other: struct<n: int>>"
)
MIXED: dict[str, Any] = {
    "type": "record",
    "name": "Mixed",
    "fields": [
        {"name": "wide", "type": ["int", "long"]},
        {
            "name": "one",
            "type": [
                "null",
                "string",
                {"type": "enum", "name": "E", "symbols": ["A", "B"]},
                {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "string", "boolean"]}]},
                {"type": "record", "name": "S", "fields": [{"name": "x", "type": "string"}]},
                {"type": "array", "items": ["bytes", "double"]},
                {"type": "map", "values": "R"},
                "long",
            ],
        },
    ],
}

_buyers = st.none() | st.fixed_dictionaries({"n": st.integers(-(2**31), 2**31 - 1)})
_orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(max_size=8),
        "share": st.floats(allow_nan=False),
        "ok": st.booleans(),
        "kind": st.sampled_from(["NEW", "OLD"]),
        "price": st.decimals(-9999999, 9999999, places=2),
        "day": st.dates(date(1, 1, 1)),
        "at": st.datetimes(datetime(1700, 1, 1), timezones=st.just(UTC)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
        ),
        "exact": st.none() | st.datetimes(datetime(1700, 1, 1)),
        "hash": st.binary(min_size=4, max_size=4),
        "tags": st.lists(st.none() | st.text(max_size=3), max_size=3),
        "counts": st.dictionaries(st.text(max_size=3), st.integers(0, 99), max_size=2),
        "buyer": _buyers,
        "other": _buyers,
    }
)


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def as_spark(order: dict[str, Any]) -> dict[str, Any]:
    return order | {"counts": list(order["counts"].items())}


@given(st.lists(st.none() | _orders, max_size=5))
def test_records_are_read_as_fastavro_writes_them(orders: list[dict[str, Any] | None]) -> None:
    column = pa.array([None if order is None else written(ORDER, order) for order in orders], pa.binary())
    found = Avro(ORDER).decode(column)
    found.results.validate(full=True)
    assert found.errors.to_pylist() == [None] * len(orders)
    assert found.results.to_pylist() == [None if order is None else as_spark(order) for order in orders]


@given(st.lists(st.none() | _orders, min_size=1, max_size=5))
def test_fastavro_reads_what_is_written(orders: list[dict[str, Any] | None]) -> None:
    kind = Avro(ORDER).type
    values = pa.array([None if order is None else as_spark(order) for order in orders], kind)
    found = Avro(ORDER).encode(values.slice(len(orders) - 1))
    assert found.error_count == 0
    (record,) = found.results.to_pylist()
    if orders[-1] is None:
        assert record is None
    else:
        assert schemaless_reader(BytesIO(record), parse_schema(ORDER), None) == orders[-1]


def test_the_types_are_those_of_spark() -> None:
    assert ddl(Avro(ORDER).type) == ORDER_DDL
    assert Avro(ORDER).type == arrow_type(ORDER_DDL)
    assert ddl(Avro(MIXED).type) == (
        "struct<wide: bigint, one: struct<member0: string, member1: string, member2: struct<x: struct<member0: string, "
        "member1: boolean>>, member3: struct<x: string>, member4: array<struct<member0: binary, member1: double>>, "
        "member5: map<string, struct<x: struct<member0: string, member1: boolean>>>, member6: bigint>>"
    )


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (None, None),
        ("text", {"member0": "text"}),
        (("E", "B"), {"member1": "B"}),
        (("R", {"x": True}), {"member2": {"x": {"member0": None, "member1": True}}}),
        (("S", {"x": "y"}), {"member3": {"x": "y"}}),
        ([b"b", 1.5], {"member4": [{"member0": b"b", "member1": None}, {"member0": None, "member1": 1.5}]}),
        ({"k": {"x": None}}, {"member5": [("k", {"x": None})]}),
        (7, {"member6": 7}),
    ],
)
def test_unions_become_structs_and_come_back(value: Any, member: dict[str, Any] | None) -> None:
    record = written(MIXED, {"wide": 2**40, "one": value})
    found = Avro(MIXED).decode(pa.array([record]))
    (row,) = found.results.to_pylist()
    assert row["wide"] == 2**40
    nothing = {f"member{index}": None for index in range(7)}
    assert row["one"] == (None if member is None else nothing | member)
    assert Avro(MIXED).encode(found.results).results.to_pylist() == [record]


def test_two_members_of_a_union_are_an_error() -> None:
    values = pa.array([{"wide": 1, "one": {"member0": "a", "member6": 5}}], Avro(MIXED).type)
    assert "a union has one member, not member0 and member6" in Avro(MIXED).encode(values).errors[0].as_py()


@given(st.lists(_orders, min_size=1, max_size=3), st.data())
def test_damaged_records_leave_the_others_alone(orders: list[dict[str, Any]], data: st.DataObject) -> None:
    records = [written(ORDER, order) for order in orders]
    at = data.draw(st.integers(0, len(records) - 1))
    bad = bytearray(records[at])
    match data.draw(st.sampled_from(["cut", "more", "change"])):
        case "cut":
            del bad[data.draw(st.integers(0, len(bad) - 1)) :]
        case "more":
            bad += data.draw(st.binary(min_size=1, max_size=5))
        case "change":
            bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    alone = Avro(ORDER).decode(pa.array([bytes(bad)]))
    records[at] = bytes(bad)
    found = Avro(ORDER).decode(pa.array(records))
    for row, order in enumerate(orders):
        if row != at:
            assert found.errors[row].as_py() is None
            assert found.results[row].as_py() == as_spark(order)
    assert found.errors[at].as_py() == alone.errors[0].as_py()
    assert (found.errors[at].as_py() is None) or found.results[at].as_py() is None


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_noise_is_read_or_refused(records: list[bytes]) -> None:
    for schema in (ORDER, MIXED, {"type": "array", "items": "int"}):
        found = Avro(schema).decode(pa.array(records, pa.binary()))
        for result, error in zip(found.results, found.errors, strict=True):
            assert result.is_valid != error.is_valid


@pytest.mark.parametrize(
    ("record", "why"),
    [(b"\x02\x04", "ends early"), (b"\x02\x06abc\x00", "1 bytes are left over"), (b"\x02\x02\xff", "utf-8")],
)
def test_the_error_says_what_is_wrong(record: bytes, why: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]}
    (error,) = Avro(schema).decode(pa.array([record])).errors.to_pylist()
    assert error.startswith("not a record of the Avro schema: ")
    assert why in error


def test_nulls_where_the_schema_has_none_are_errors_when_written() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    found = Avro(schema).encode(pa.array([{"a": "x"}, {"a": None}, None], Avro(schema).type))
    assert found.results.to_pylist() == [b"\x02x", None, None]
    assert found.errors[1].as_py().startswith("the Avro schema does not take it")
    assert found.errors[2].as_py() is None


def test_records_of_an_older_schema_are_read_into_the_newer() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
    }
    found = Avro(new, written_as=old).decode(pa.array([written(old, {"a": 5, "gone": "x"})]))
    assert found.results.to_pylist() == [{"a": 5, "b": "none"}]


def test_numbers_with_more_digits_than_the_decimal_are_errors() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    records = [written("bytes", value.to_bytes(4, "big")) for value in (1234, 12345678)]
    found = Avro(schema).decode(pa.array(records))
    assert found.results.to_pylist() == [Decimal("12.34"), None]
    assert found.errors[0].as_py() is None
    assert found.errors[1].as_py() is not None


def test_a_schema_file_is_read_with_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shop.Buyer.avsc").write_text(
        json.dumps({"type": "record", "name": "shop.Buyer", "fields": [{"name": "n", "type": "int"}]})
    )
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "buyer", "type": "shop.Buyer"}]}
    (tmp_path / "shop.Order.avsc").write_text(json.dumps(order))
    assert ddl(Avro.from_file(tmp_path / "shop.Order.avsc").type) == "struct<buyer: struct<n: int>>"


def test_formats_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(Avro(MIXED)))
    assert again.type == Avro(MIXED).type


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("nonsense", "not an Avro schema"),
        ({"type": "record"}, "not an Avro schema"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
            r"\$\.next: R contains itself",
        ),
        ({"type": "array", "items": "null"}, "elements of no bytes"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]},
            r"\$\.a: Spark has no column of type null",
        ),
        (["int", "long", "string"], "numbers that cannot be told from one another"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, "a decimal of 40 digits"),
    ],
)
def test_schemas_that_cannot_be_served_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        Avro(schema)


def test_schema_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSchema, match=r"none\.avsc: "):
        Avro.from_file(tmp_path / "none.avsc")
    (tmp_path / "bad.avsc").write_text("{")
    with pytest.raises(BadSchema, match=r"bad\.avsc"):
        Avro.from_file(tmp_path / "bad.avsc")
    with pytest.raises(BadSchema, match="not an Avro schema"):
        Avro.from_text("{")
