"""Protobuf is written by kernels, and nobody can tell: records and errors are those of Google's library."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import mapped
from tests.unit.spark.formats.arbitrary import rows_of
from tests.unit.spark.formats.test_proto_reading import OLD
from tests.unit.spark.formats.test_protobuf import PROTO

SORTED = """
syntax = "proto3";
message Sorted {
  map<uint64, string> unsigned = 9;
  map<sint64, bytes> signed = 3;
  map<bool, double> flags = 1;
  map<string, Sub> subs = 4;
  message Sub { repeated fixed64 tight = 7; repeated sint32 small = 2; float f = 1; repeated string s = 3; }
}
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Protobuf]:
    place = tmp_path_factory.mktemp("proto")
    found = {}
    for name, text in (("Order", PROTO), ("Old", OLD), ("Sorted", SORTED)):
        (place / f"{name}.proto").write_text(text)
        found[name] = Protobuf.from_file(place / f"{name}.proto", name)
    return found


def bare(kind: pa.DataType) -> pa.DataType:
    return mapped(kind, lambda part: pa.int64() if pa.types.is_timestamp(part) or pa.types.is_duration(part) else part)


def check(by: Protobuf, plain: pa.Array) -> None:
    found, expected = by.encode(plain.cast(by.type)), by._encode(plain)
    found.results.validate(full=True)
    assert found.errors.to_pylist() == expected.errors.to_pylist()
    assert found.results.to_pylist() == expected.results.to_pylist()


@given(st.integers(0, 2**32), st.sampled_from(["Order", "Old", "Sorted"]))
def test_values_of_any_kind_are_written_as_by_google(messages: dict[str, Protobuf], seed: int, name: str) -> None:
    check(messages[name], rows_of(bare(messages[name].type), seed))


@pytest.mark.parametrize("keys", [[2**63, 1, 2**64 - 1, 5], list(range(200)), list(range(200))[::-1], [7, 7], [0]])
def test_maps_are_in_the_order_of_their_keys(messages: dict[str, Protobuf], keys: list[int]) -> None:
    sorted_ = messages["Sorted"]
    row: dict[str, Any] = dict.fromkeys(field.name for field in sorted_.type)
    row["unsigned"] = [(key, str(number)) for number, key in enumerate(keys)]
    row["signed"] = [(key % 2**40 - 90, b"") for key in keys]
    row["subs"] = [(str(key), {"f": 1.0, "small": [], "tight": [], "s": []}) for key in keys]
    check(sorted_, pa.array([row, None, row], sorted_.type))


def test_whole_values_do_not_need_google(messages: dict[str, Protobuf], monkeypatch: pytest.MonkeyPatch) -> None:
    order = messages["Order"]
    monkeypatch.setattr(order, "_encode", None)
    monkeypatch.setattr(order, "_decode", None)
    row = dict.fromkeys(field.name for field in order.type) | {
        "kind": "OLD",
        "others": [{"name": "a", "age": 1}, {"name": "", "age": None}],
        "counts": [("b", 1), ("a", -1)],
        "took": -1_500_000,
    }
    values = pa.array([row], bare(order.type)).cast(order.type)
    assert order.decode(order.encode(values).results).error_count == 0


def test_a_message_of_nothing_is_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "n.proto").write_text('syntax = "proto3"; message N { }')
    nothing = Protobuf.from_file(tmp_path / "n.proto")
    values = pa.array([{}, None], nothing.type)
    assert nothing.encode(values).results.to_pylist() == [b"", None]
    assert nothing.decode(pa.array([b"", None, b"\x08\x01"], pa.binary())).results.to_pylist() == [{}, None, {}]
