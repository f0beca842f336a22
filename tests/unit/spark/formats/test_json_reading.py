"""JSON is read by a kernel, and nobody can tell: values and errors are those of the slower readers."""

import json
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.spark.formats import json_read_kernels, json_words
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.spark_types import arrow_type
from tests.unit.spark.formats.arbitrary import rows_of

KIND = arrow_type(
    "id bigint, n tinyint, name string, share double, part float, ok boolean, price decimal(8,2), big decimal(38,4), "
    "day date, at timestamp, bare timestamp_ntz, raw binary, tags array<string>, "
    "who struct<a: int, b: struct<c: string>>, grid array<array<int>>, "
    "deep map<string, array<map<string, struct<x: bigint>>>>"
)
JSON = Json(KIND)
NAMES = [field.name for field in KIND]
ODD = [
    "1",
    "-0",
    "01",
    "1.",
    ".5",
    "1.5e3",
    "1E-2",
    "1e400",
    "1e-400",
    "-",
    "+1",
    "128",
    "-128",
    "-129",
    "9" * 19,
    "9" * 25,
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "12.345",
    "123456.78",
    "1234567.8",
    "0.00",
    "-0.10",
    "null",
    "true",
    "false",
    "nul",
    "True",
    "NaN",
    "Infinity",
    "-Infinity",
    '""',
    '"1"',
    '"12.5"',
    '" 1"',
    '"+1"',
    '"1e2"',
    '"a\\nb"',
    '"\\u00e9\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\ude00x"',
    '"\\x"',
    '"\\u12"',
    '"a',
    '"\t"',
    '"é"',
    '"YQ=="',
    '"YWI="',
    '"YWJj"',
    '"YQ="',
    '"Y==="',
    '"YQ==YQ=="',
    '"2024-02-29"',
    '"2023-02-29"',
    '"20240229"',
    '"0000-01-01"',
    '"9999-12-31"',
    '"2024-02-29T01:02:03Z"',
    '"2024-02-29 01:02:03"',
    '"2024-02-29T01:02:03.5"',
    '"2024-02-29T01:02:03.123456Z"',
    '"2024-02-29T01:02:03.1234567Z"',
    '"2024-02-29T01:02:03+02:00"',
    '"2024-02-29T24:00:00"',
    '"2024-02-29T23:59:60Z"',
    '"2024-02-29T01:02"',
    '"1583-01-01T00:00:00Z"',
    "[]",
    "{}",
    "[1]",
    '["a", null]',
    "[[1], null, []]",
    '{"a": 1}',
    "[1,]",
    '{"a": null, "b": {"c": "x"}}',
    '{"a": 1, "a": 2}',
    '{"k": [{"l": {"x": 1}}]}',
    '{"k": null}',
    '{"k": [], "k": [null]}',
    '{"a": "x", "b": {"c": 1}}',
    "[" * 70 + "]" * 70,
    "[" * 120 + "]" * 120,
    '{"a" : 1 ,\n"b":{} }',
    '{"\\u0061": 1}',
    "{,}",
]


def check(records: list[bytes | None], by: Json = JSON) -> None:
    column = pa.array(records, pa.binary())
    found = by.decode(column)
    found.results.validate(full=True)
    for row, record in enumerate(records):
        alone = by._decode(pa.array([record], pa.binary()))
        assert (record, found.errors[row].as_py()) == (record, alone.errors[0].as_py())
        assert found.results.slice(row, 1).equals(alone.results), record


def document(source: Random) -> bytes:
    """An object of odd values, of fields that are known or not, damaged now and then."""
    pairs = []
    for _ in range(source.randrange(4)):
        pairs.append(f'"{source.choice([*NAMES, "other", "id"])}":{source.choice(ODD)}')
    text = bytearray(f"{{{', '.join(pairs)}}}".encode())
    if source.random() < 0.3:
        at = source.randrange(len(text))
        text[at : at + source.randrange(3)] = source.choice(
            [b"", b'"', b"{", b"}", b",", b"\x00", b"\xff", b" ", b"\\"]
        )
    return bytes(text)


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_odd_documents_are_read_as_by_the_slower_readers(seed: int) -> None:
    source = Random(seed)
    check([document(source) for _ in range(4)] + [None])


@pytest.mark.parametrize("name", NAMES)
def test_every_odd_value_is_taken_or_refused_as_by_the_slower_readers(name: str) -> None:
    check([f'{{"{name}": {odd}}}'.encode() for odd in ODD])


def test_odd_values_that_nobody_asked_for_are_looked_at_all_the_same() -> None:
    check([f'{{"other": {odd}, "id": 1}}'.encode() for odd in ODD])
    check([f'{{"other": [{odd}, {{"x": {odd}}}], "id": "x"}}'.encode() for odd in ODD])


@given(st.binary(max_size=30) | st.text(max_size=20).map(str.encode))
@example(b"")
@example(b"null")
@example(b" {} ")
@example(b"{} {}")
def test_noise_is_read_or_refused(noise: bytes) -> None:
    check([noise, b"{" + noise, b'{"name":"' + noise + b'"}'])


@given(st.integers(0, 2**32))
def test_what_is_written_is_read_without_doubt(seed: int) -> None:
    kind = arrow_type(
        "id bigint, n tinyint, name string, ok boolean, price decimal(8,2), day date, raw binary, tags array<string>, "
        "who struct<a: int, b: struct<c: string>>, deep map<string, array<map<string, struct<x: bigint>>>>"
    )
    both, values = Json(kind), rows_of(kind, seed)
    records = both.encode(values).results
    assert both._reader is not None
    if len(values):
        read = both._reader.read(records)
        assert read is not None and len(read[1]) == 0 and not read[2]
        assert read[0].to_pylist() == values.to_pylist()


@given(st.lists(st.text(max_size=8), max_size=4))
def test_texts_with_escapes_are_read_as_python_does_it(texts: list[str]) -> None:
    kind = arrow_type("a string, m map<string, string>")
    rows = [{"a": text, "m": {text: text, "more": ""}} for text in texts]
    for is_ascii in (True, False):
        records = [json.dumps(row, ensure_ascii=is_ascii).encode() for row in rows]
        found = Json(kind).decode(pa.array(records, pa.binary()))
        expected: list[Any] = [{"a": row["a"], "m": list(row["m"].items())} for row in rows]  # type: ignore[attr-defined]
        assert found.results.to_pylist() == expected


def test_more_elements_than_there_was_room_for_are_read() -> None:
    check(
        [b'{"tags": ["' + b'","'.join([b"\\n"] * 3000) + b'"]}', b"{}", b'{"grid": [' + b"[1,2]," * 2000 + b"[]]}"] * 2
    )


def test_names_that_many_columns_have_are_told_apart() -> None:
    kind = arrow_type(", ".join(f"column{number} int" for number in range(200)))
    row = {f"column{number}": number for number in range(199, -1, -3)}
    check([json.dumps(row).encode(), b'{"column199": 1, "column199": null}'], Json(kind))


def test_what_is_compiled_of_the_words_is_known_by_the_kernels_that_call_them() -> None:
    """Kernels that were kept on disk are judged by their own module alone."""
    digest = sha256(Path(json_words.__file__).read_bytes()).hexdigest()[:16]
    assert digest == json_read_kernels.WORDS, "write the new digest into json_read_kernels"
