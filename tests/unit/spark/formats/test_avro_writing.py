"""Avro is written by kernels, and nobody can tell: records and errors are those of fastavro."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.avro_schema import parse
from ottla.spark.formats.avro_writing import writer
from tests.unit.spark.formats.arbitrary import rows_of
from tests.unit.spark.formats.test_avro_reading import FLAT, NESTED, _nested, _rows, written


def without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    return schema | {"fields": [field for field in schema["fields"] if field["name"] not in names]}


# Milliseconds have no place for all that 64 bits can say, and unions of numbers are left to fastavro.
AVRO = {"flat": Avro(without(FLAT, "at")), "nested": Avro(without(NESTED, "at", "wide"))}


def check(avro: Avro, values: pa.Array) -> None:
    bare = values.cast(avro._schema.bare)
    found, expected = avro.encode(values.cast(avro._schema.stored).cast(avro.type)), avro._encode(bare)
    found.results.validate(full=True)
    assert found.errors.to_pylist() == expected.errors.to_pylist()
    assert found.results.to_pylist() == expected.results.to_pylist()


@given(st.lists(_rows, min_size=1, max_size=4), st.lists(_nested, max_size=4), st.integers(0, 1))
def test_what_was_read_is_written_as_it_was(flat: list[Any], nested: list[Any], first: int) -> None:
    for name, schema, rows in (("flat", FLAT, flat), ("nested", NESTED, nested)):
        fields = without(schema, "at", "wide") if name == "nested" else without(schema, "at")
        records = [written(row, fields) for row in rows][first:]
        found = AVRO[name].encode(AVRO[name].decode(pa.array(records, pa.binary())).results)
        assert found.results.to_pylist() == records


@given(st.integers(0, 2**32), st.sampled_from(sorted(AVRO)))
def test_values_of_any_kind_are_written_as_by_fastavro(seed: int, name: str) -> None:
    check(AVRO[name], rows_of(AVRO[name]._schema.bare, seed))


def test_whole_values_do_not_need_fastavro() -> None:
    avro = Avro(FLAT)
    assert avro._part is not None
    assert writer(parse(["null", "float", "double"])) is None
    assert writer(parse(["null", "int", "long"])) is None


@pytest.mark.parametrize("count", [3, 65, 300])
def test_maps_are_written_in_their_order_however_many_pairs_they_have(count: int) -> None:
    avro = Avro({"type": "map", "values": "int"})
    pairs = [(str(number % 7) + str(number), number) for number in range(count)]
    check(avro, pa.array([pairs, [], pairs[::-1]], avro.type))


@pytest.mark.parametrize("size", [-1, 2, 4, 20])
@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 10**9, -(10**9)])
def test_decimals_take_the_bytes_that_fastavro_gives_them(size: int, number: int) -> None:
    kind = {"type": "bytes"} if size < 0 else {"type": "fixed", "name": "F", "size": size}
    digits = 10 if size < 0 or size > 4 else 4 if size == 2 else 9
    if abs(number) < 10**digits:
        avro = Avro({**kind, "logicalType": "decimal", "precision": digits, "scale": 1})
        check(avro, pa.array([Decimal(number).scaleb(-1), None], avro.type))
