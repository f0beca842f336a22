"""JSON is written by kernels: as Python's own writer has it, and numbers and times as Arrow does."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.spark.formats.json_format import Json
from ottla.spark.formats.spark_types import arrow_type
from tests.unit.spark.formats.arbitrary import rows_of

EVERYTHING = arrow_type(
    "id bigint, small tinyint, n int, name string, share double, part float, ok boolean, price decimal(8,2), day date, "
    'raw binary, tags array<string>, who struct<a: int, `b "c"`: struct<c: string>>, '
    "deep map<string, array<map<string, struct<x: bigint>>>>, nothing struct<x: int>"
)
TIMES = arrow_type("at timestamp, bare timestamp_ntz")
_micros = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def as_json(kind: pa.DataType, value: Any, *, in_object: bool = False) -> str | None:
    """The text of a value, put together the slow way."""
    types = pa.types
    if value is None:
        return None if in_object else "null"
    if types.is_struct(kind):
        texts = [(field.name, as_json(field.type, value[field.name], in_object=True)) for field in kind]
        return "{" + ",".join(f"{quoted(name)}:{text}" for name, text in texts if text is not None) + "}"
    if types.is_map(kind):
        return "{" + ",".join(f"{quoted(name)}:{as_json(kind.item_type, item)}" for name, item in value) + "}"
    if types.is_list(kind):
        return "[" + ",".join(str(as_json(kind.value_type, part)) for part in value) + "]"
    if types.is_string(kind):
        return quoted(value)
    if types.is_binary(kind):
        return f'"{base64.b64encode(value).decode()}"'
    text = pa.array([value], kind).cast(pa.string())[0].as_py()
    return f'"{text}"' if types.is_date32(kind) else str(text)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return not isinstance(value, float) or value not in (float("inf"), float("-inf"))


@given(st.integers(0, 2**32))
def test_values_are_written_as_they_are_one_by_one(seed: int) -> None:
    values = rows_of(EVERYTHING, seed)
    found = Json(EVERYTHING).encode(values)
    found.results.validate(full=True)
    for value, record, error in zip(
        values.to_pylist(), found.results.to_pylist(), found.errors.to_pylist(), strict=True
    ):
        if value is None:
            assert (record, error) == (None, None)
        elif not is_finite(value):
            assert (record, error) == (None, "JSON has no number that is infinite or none")
        else:
            assert error is None
            assert record.decode() == as_json(EVERYTHING, value)


@given(st.lists(st.text(max_size=20) | st.text(st.characters(max_codepoint=127), max_size=20), max_size=5))
@example(["".join(map(chr, range(256))), "\u2028\U0001f600"])
def test_texts_are_escaped_as_python_does_it(texts: list[str]) -> None:
    kind = arrow_type("a string, m map<string, string>")
    rows = [{"a": text, "m": [(text, text)]} for text in texts]
    found = Json(kind).encode(pa.array(rows, kind)).results.to_pylist()
    assert [record.decode() for record in found] == [
        json.dumps({"a": text, "m": {text: text}}, ensure_ascii=False, separators=(",", ":")) for text in texts
    ]


@given(st.lists(st.none() | _micros, max_size=5))
@example([-62_135_596_800_000_000, -1, 0, 951_782_399_999_999, 951_782_400_000_000, 4_107_542_399_999_999])
def test_times_are_written_as_arrow_has_them(micros: list[int | None]) -> None:
    values = pa.StructArray.from_arrays(
        [pa.array(micros, pa.int64()).cast(field.type) for field in TIMES], fields=list(TIMES)
    )
    texts = [column.cast(pa.string()).to_pylist() for column in values.flatten()]
    expected = [
        {} if at is None else {"at": at.replace(" ", "T"), "bare": bare.replace(" ", "T")}
        for at, bare in zip(*texts, strict=True)
    ]
    assert [json.loads(record) for record in Json(TIMES).encode(values).results.to_pylist()] == expected


def test_times_of_more_digits_are_arrows() -> None:
    at = pa.array([253_402_300_800_000_000, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    values = pa.StructArray.from_arrays([at, at.cast(pa.timestamp("us"))], fields=list(TIMES))
    first, second = Json(TIMES).encode(values).results.to_pylist()
    assert json.loads(first)["at"] == at.cast(pa.string())[0].as_py().replace(" ", "T")
    assert json.loads(second)["at"] == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("number", [0, 9, 10, -1, 2**63 - 1, -(2**63), 10**18, 10**18 - 1, -(10**18)])
def test_integers_are_their_digits(number: int) -> None:
    kind = arrow_type("a bigint")
    assert Json(kind).encode(pa.array([{"a": number}], kind)).results.to_pylist() == [b'{"a":%d}' % number]


def test_what_is_written_is_read() -> None:
    kind = arrow_type("at timestamp, day date, price decimal(9,3), raw binary, m map<string, double>")
    row = {
        "at": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
        "day": date(2024, 2, 29),
        "price": Decimal("1.500"),
        "raw": b"\x00\xff",
        "m": [("a", 0.1)],
    }
    values = pa.array([row, None, dict.fromkeys(row)], kind)
    assert Json(kind).decode(Json(kind).encode(values).results).results.to_pylist() == values.to_pylist()
