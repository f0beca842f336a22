"""JSON: what the reader of blocks takes, the judge of single rows takes, too, and every row stands for itself."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.json_values import NotFitting, parser
from ottla.spark.formats.spark_types import arrow_type

EVERYTHING = arrow_type(
    "id bigint, small tinyint, name string, share double, ok boolean, price decimal(8,2), day date, at timestamp, "
    "bare timestamp_ntz, tags array<string>, who struct<a: int, b: struct<c: string>>, list array<struct<n: int>>"
)
WITH_MAPS = arrow_type("id int, names map<string, bigint>, deep map<string, array<map<string, string>>>, raw binary")
SMALL = arrow_type("a bigint, b string, c array<double>, d struct<a: boolean>, e decimal(5,1), f timestamp, g date")


def decoded(kind: pa.DataType, *documents: bytes | str | None) -> tuple[list[Any], list[str | None]]:
    raw = [document.encode() if isinstance(document, str) else document for document in documents]
    found = Json(kind).decode(pa.array(raw, pa.binary()))
    assert found.results.type == kind
    found.results.validate(full=True)
    return found.results.to_pylist(), found.errors.to_pylist()


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, null among them; finite, and such as survive the way through JSON."""
    types = pa.types
    some: st.SearchStrategy[Any]
    if types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    elif types.is_map(kind):
        some = st.dictionaries(st.text(max_size=4), values_of(kind.item_type), max_size=3).map(
            lambda d: list(d.items())
        )
    elif types.is_list(kind):
        some = st.lists(values_of(kind.value_type), max_size=3)
    else:
        some = {
            pa.int64(): st.integers(-(2**63), 2**63 - 1),
            pa.int32(): st.integers(-(2**31), 2**31 - 1),
            pa.int8(): st.integers(-128, 127),
            pa.string(): st.text(max_size=8),
            pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
            pa.bool_(): st.booleans(),
            pa.decimal128(8, 2): st.decimals(-999999, 999999, places=2),
            pa.decimal128(5, 1): st.decimals(-9999, 9999, places=1),
            pa.date32(): st.dates(date(1, 1, 1)),
            pa.timestamp("us", "UTC"): st.datetimes(datetime(1700, 1, 1), timezones=st.just(UTC)),
            pa.timestamp("us"): st.datetimes(datetime(1700, 1, 1)),
            pa.binary(): st.binary(max_size=6),
        }[kind]
    return st.none() | some


@given(st.data(), st.sampled_from([EVERYTHING, WITH_MAPS]))
def test_values_come_back_as_they_were(data: st.DataObject, kind: pa.DataType) -> None:
    values = pa.array(data.draw(st.lists(values_of(kind), max_size=6)), kind)
    written = Json(kind).encode(values)
    assert written.error_count == 0
    for document in written.results.to_pylist():
        assert document is None or isinstance(json.loads(document), dict)
    found = Json(kind).decode(written.results)
    assert found.errors.to_pylist() == [None] * len(values)
    assert found.results.to_pylist() == values.to_pylist()


@given(st.data())
def test_slices_are_written_as_what_they_show(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([EVERYTHING, WITH_MAPS]))
    values = pa.array(data.draw(st.lists(values_of(kind), min_size=2, max_size=6)), kind)
    part = values.slice(1, data.draw(st.integers(0, len(values) - 1)))
    written = Json(kind).encode(part)
    assert Json(kind).decode(written.results).results.to_pylist() == part.to_pylist()


_snippets = st.sampled_from(
    [
        "1", "-0", "1.5", "1.0", "1e2", "1e400", "9223372036854775808", "01", "NaN", "-Infinity", "Inf", "null",
        "true", '"x"', '"1"', '"1.25"', '"NaN"', '" 1 "', '"2024-01-02"', '"2024-01-02T03:04:05Z"',
        '"2024-01-02 03:04:05.123456+02:00"', '"x\\ud800"', '"\\ud83d\\ude00"', '"\t"', '"\\q"', "[]", "[1,2.5]",
        "[1,", '["x"]', "{}", '{"a":true}', '{"a":1}', "[[1]]", "[null]", "é", '"\\u0000"', "\x00", "//", '"a":',
        ",", "}", "{", "\n", " ", '"\n"', '"\\', "]",
    ]
)  # fmt: skip
_members = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "z", "\\u0061"]), _snippets), max_size=4
)
_documents = (
    _members.map(lambda members: "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}")
    | st.lists(_snippets, max_size=6).map("".join)
).map(str.encode)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    document = bytearray(draw(_documents))
    if document and draw(st.booleans()):
        document[draw(st.integers(0, len(document) - 1))] = draw(st.integers(0, 255))
    return bytes(document)


@settings(max_examples=500)
@given(st.lists(st.none() | spoilt(), min_size=1, max_size=8))
@example([b'{"a":1}{"a":2}', b"", b'{"a":3}'])
@example([b"null", b"5", b"[]"])
@example([b'{"a":1\x00}', b'{"a":2}'])
@example([b'{"b":"\\\n"}', b"{\n}"])
def test_every_row_is_judged_alone_and_as_plain_python_judges(documents: list[bytes | None]) -> None:
    judge = parser(SMALL)
    values, errors = decoded(SMALL, *documents)
    for document, value, error in zip(documents, values, errors, strict=True):
        try:
            expected = None if document is None else judge(document)
        except NotFitting:
            assert (value, error is not None) == (None, True)
        else:
            assert error is None, (document, error)
            assert [value] == pa.array([expected], SMALL).to_pylist()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("", "empty, where a JSON object is needed"),
        ("[1]", "no JSON object: it starts with '[1]'"),
        ('{"a":1', "the JSON object ends early"),
        ('{"a":1}{"a":2}', "more than one JSON object"),
        ('{"a":' + "[" * 200 + "]" * 200 + "}", "JSON nested deeper than 100 levels"),
        ('{"a":NaN}', "not JSON: a control character, or a number that is NaN or infinite"),
        ('{"b":"\x01"}', "not JSON: a control character, or a number that is NaN or infinite"),
        ('{"a":1 "b":2}', "not JSON: Expecting ',' delimiter at position 7"),
        ('{"a":1.5}', "$.a: 1.5 is no bigint"),
        ('{"a":"1"}', '$.a: "1" is no bigint'),
        ('{"b":["x"]}', "$.b: an array is no string"),
        ('{"c":[1,true]}', "$.c[]: true is no double"),
        ('{"d":{"a":0}}', "$.d.a: 0 is no boolean"),
        ('{"d":[]}', "$.d: an array is no object"),
        ('{"e":12345.6}', "$.e: 12345.6 is no decimal(5,1)"),
        ('{"e":1.25}', "$.e: 1.25 is no decimal(5,1)"),
        ('{"f":"soon"}', '$.f: "soon" is no timestamp'),
        ('{"g":"2024-02-30"}', '$.g: "2024-02-30" is no date'),
        ('{"a":1,"a":2}', "$.a: it comes twice"),
        ('{"b":"\\ud800"}', "not JSON: half of a surrogate pair"),
        (b'{"b":"\xff"}', "not UTF-8: byte 0xff at position 6"),
    ],
)
def test_a_bad_row_says_why_and_its_neighbours_do_not_notice(document: str | bytes, why: str) -> None:
    good = '{"a":1,"other":{"x":[1]}}'
    row = {"a": 1, "b": None, "c": None, "d": None, "e": None, "f": None, "g": None}
    values, errors = decoded(SMALL, *[good] * 40, document, *[good] * 40)
    assert errors == [None] * 40 + [errors[40]] + [None] * 40
    assert why in (errors[40] or "")
    assert values == [row] * 40 + [None] + [row] * 40


def test_bad_rows_are_found_wherever_they_are_in_a_large_block() -> None:
    documents = [f'{{"a":{"1.5" if number % 37 == 5 else number}}}' for number in range(3000)]
    values, errors = decoded(arrow_type("a bigint"), *documents)
    assert [row for row, error in enumerate(errors) if error] == [row for row in range(3000) if row % 37 == 5]
    assert all(value is None or value["a"] == row for row, value in enumerate(values))


def test_many_blocks_make_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.spark.formats.json_format._BLOCK_ROWS", 7)
    monkeypatch.setattr("ottla.spark.formats.json_format._BLOCK_BYTES", 60)
    documents = [f'{{"a": {number}, "b": "{"x" * (number % 80)}"}}' for number in range(100)]
    values, errors = decoded(arrow_type("a bigint, b string"), *documents)
    assert errors == [None] * 100
    assert values == [json.loads(document) for document in documents]


def test_pretty_json_is_one_record() -> None:
    document = json.dumps({"a": 1, "b": "x", "c": [1.5, None]}, indent=2)
    values, errors = decoded(arrow_type("a int, b string, c array<double>"), document, None, document)
    assert values == [{"a": 1, "b": "x", "c": [1.5, None]}, None, {"a": 1, "b": "x", "c": [1.5, None]}]
    assert errors == [None, None, None]


def test_a_null_is_null_and_no_error() -> None:
    assert decoded(arrow_type("a int"), "null", None, " null\n") == ([None] * 3, [None] * 3)


def test_decimals_keep_every_digit() -> None:
    kind = arrow_type("d decimal(38,18)")
    values, _ = decoded(kind, '{"d":12345678901234567890.123456789012345678}', '{"d":"-0.000000000000000001"}')
    assert [row["d"] for row in values] == [Decimal("12345678901234567890.123456789012345678"), Decimal("-1E-18")]
    written = Json(kind).encode(pa.array(values, kind)).results
    assert Json(kind).decode(written).results.to_pylist() == values


def test_numbers_that_json_does_not_have_are_errors_when_written() -> None:
    kind = arrow_type("a array<double>, b map<string, double>")
    rows = [{"a": [1.0]}, {"a": [1.0, float("nan")]}, None, {"a": None, "b": [("k", float("-inf"))]}, {"a": []}]
    found = Json(kind).encode(pa.array(rows, kind))
    why = "JSON has no number that is infinite or none"
    assert found.errors.to_pylist() == [None, why, None, why, None]
    assert found.results.to_pylist() == [b'{"a":[1]}', None, None, None, b'{"a":[]}']


def test_nulls_are_left_out_but_for_those_in_arrays_and_maps() -> None:
    kind = arrow_type("a int, b array<int>, c map<string, int>, d struct<e: int>")
    rows = [{"a": None, "b": [1, None], "c": [("k", None)], "d": {"e": None}}, {}]
    found = Json(kind).encode(pa.array(rows, kind))
    assert found.results.to_pylist() == [b'{"b":[1,null],"c":{"k":null},"d":{}}', b"{}"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("bigint", "a JSON record is an object"),
        ("struct<a: map<int, string>>", r"\$\.a: the names in a JSON object are strings, not int"),
        ("struct<a: array<interval day to second>>", r"\$\.a\[\]: JSON has nothing for interval"),
    ],
)
def test_types_that_json_has_nothing_for_are_refused(text: str, why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        Json(arrow_type(text))


def test_a_type_without_columns_takes_any_object() -> None:
    assert decoded(arrow_type("struct<>"), '{"x":1}', "[]")[0] == [{}, None]
