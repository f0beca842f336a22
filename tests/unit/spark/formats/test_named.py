"""Formats by their names and options."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.named import FORMATS, Wanted, format_named
from ottla.spark.formats.spark_types import arrow_type, ddl

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "r.avsc").write_text(SCHEMA)
    (tmp_path / "r.proto").write_text('syntax = "proto3"; message R { int64 id = 1; }')
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("raw", {}, "binary"),
        ("string", {}, "string"),
        ("json", {}, "struct<a: int>"),
        ("avro", {"schema": "r.avsc"}, "struct<id: bigint>"),
        ("avro", {"schema": SCHEMA}, "struct<id: bigint>"),
        ("protobuf", {"schema": "r.proto"}, "struct<id: bigint>"),
        ("protobuf", {"schema": "r.proto", "message": "R"}, "struct<id: bigint>"),
    ],
)
def test_a_format_is_made_of_its_name(directory: Path, name: str, options: dict[str, str], kind: str) -> None:
    wanted = Wanted(options=options, columns=arrow_type("a int"), directory=directory)
    made = format_named(name, wanted)
    assert ddl(made.type) == kind
    assert options.keys() <= FORMATS[name].options
    nothing = made.decode(pa.nulls(2, pa.binary()))
    assert (nothing.results.to_pylist(), nothing.errors.to_pylist()) == ([None] * 2, [None] * 2)
    assert made.decode(pa.array([], pa.binary())).results.type == made.type
    assert made.encode(pa.array([], made.type)).results.to_pylist() == []


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("xml", {}, "there is no format xml; there are raw, string, json, avro, protobuf"),
        ("json", {}, "json needs columns"),
        ("avro", {}, r"avro needs the option schema: a file \(\.avsc\), or the schema itself"),
        ("avro", {"schema": "none.avsc"}, r"none\.avsc"),
        ("protobuf", {"schema": " "}, "protobuf needs the option schema"),
        ("protobuf", {"schema": "r.proto", "message": "S"}, "there is no message S"),
    ],
)
def test_what_is_missing_is_said(directory: Path, name: str, options: dict[str, str], why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        format_named(name, Wanted(options=options, directory=directory))
