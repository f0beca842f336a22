"""Protobuf is read by a kernel, and nobody can tell: results and errors are those of Google's library."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.spark.formats.proto_files import compile_proto
from ottla.spark.formats.proto_format import Protobuf
from tests.unit.spark.formats.test_protobuf import PROTO, _orders, message_of

OLD = """
syntax = "proto2";
enum Closed { ONE = 1; TWO = 2; MINUS = -1; }
message Old {
  required int32 id = 1;
  repeated sint64 loose = 2;
  repeated fixed32 tight = 3 [packed = true];
  optional Closed closed = 4 [default = TWO];
  repeated Closed many = 5 [packed = true];
  message Part { required string name = 1; repeated Part2 parts = 2; }
  message Part2 { optional sfixed64 x = 1; map<bool, fixed64> flags = 3; }
  optional Part part = 100;
  repeated Part parts = 2000;
  oneof one { Part a = 20; Part2 b = 21; sfixed32 c = 22; }
}
"""
GROUPS = 'syntax = "proto2"; message G { repeated group Item = 1 { optional int32 x = 2; } optional int32 y = 3; }'


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("proto") / "shop.proto"
    path.write_text(PROTO)
    return compile_proto(path)


@pytest.fixture(scope="module")
def order(shop: bytes) -> Protobuf:
    return Protobuf(shop, "Order")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Protobuf:
    path = tmp_path_factory.mktemp("proto") / "old.proto"
    path.write_text(OLD)
    return Protobuf.from_file(path, "Old")


def plain(value: Any) -> Any:
    """Maps without an order, and numbers that are none equal to themselves."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        is_map = all(isinstance(part, tuple) for part in value)
        return sorted((key, repr(plain(part))) for key, part in value) if is_map else [plain(part) for part in value]
    return repr(value)


def check(by: Protobuf, records: list[bytes | None]) -> None:
    column = pa.array(records, pa.binary())
    found, expected = by.decode(column), by._decode(column)
    found.results.validate(full=True)
    assert found.errors.to_pylist() == expected.errors.to_pylist()
    assert list(map(plain, found.results.to_pylist())) == list(map(plain, expected.results.to_pylist()))


_varint = st.integers(0, 2**64 - 1) | st.integers(0, 300)


def varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes(found) + bytes((number,))


@st.composite
def _fields(draw: st.DrawFn, depth: int = 0) -> bytes:
    """What looks like fields, of numbers that the messages here know or do not."""
    record = bytearray()
    for _ in range(draw(st.integers(0, 4))):
        number = draw(st.integers(1, 25) | st.sampled_from([100, 2000, 2**29 - 1]))
        kind = draw(st.sampled_from([0, 0, 1, 2, 2, 2, 5, 3, 4, 6]))
        record += varint(number << 3 | kind)
        match kind:
            case 0:
                record += varint(draw(_varint))
            case 1:
                record += draw(st.binary(min_size=8, max_size=8))
            case 5:
                record += draw(st.binary(min_size=4, max_size=4))
            case 2:
                inside = draw(st.binary(max_size=12) if depth > 1 else _fields(depth + 1) | st.binary(max_size=12))
                record += varint(len(inside) + draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2**40]))) + inside
    return bytes(record)


@settings(max_examples=200)
@given(st.lists(st.none() | _fields(), max_size=4))
@example([b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"])
@example([b"\x88\x80\x00\x05", b"\x00\x01", b"\x0b\x0c"])
@example([b"\x62\x00\x62\x02\x10\x01"])
@example([b"\x92\x01\x01a\x98\x01\x05"])
def test_fields_of_any_kind_are_read_as_by_google(order: Protobuf, records: list[bytes | None]) -> None:
    check(order, records)


@settings(max_examples=200)
@given(st.lists(st.none() | _fields(), max_size=4))
@example([b"\x08\x01\x20\x03", b"\x08\x01\x20\x02", b"\x08\x01\x2a\x02\x01\x07"])
@example([b"\x08\x01\x1a\x05abcde", b"\x08\x01\xa2\x06\x00"])
def test_fields_of_any_kind_are_read_as_by_google_also_in_proto2(old: Protobuf, records: list[bytes | None]) -> None:
    check(old, [None if record is None else b"\x08\x07" + record for record in records])
    check(old, records)


@given(st.lists(_orders, min_size=1, max_size=3), st.data())
def test_damaged_messages_are_read_as_by_google(
    shop: bytes, order: Protobuf, drawn: list[dict[str, Any]], data: st.DataObject
) -> None:
    records = [message_of(shop, each) for each in drawn]
    bad = bytearray(records[0])
    match data.draw(st.sampled_from(["cut", "change", "insert", "twice"])):
        case "cut":
            del bad[data.draw(st.integers(0, len(bad))) :]
        case "change":
            at = data.draw(st.integers(0, max(len(bad) - 1, 0)))
            bad[at : at + 1] = data.draw(st.binary(max_size=2))
        case "insert":
            at = data.draw(st.integers(0, len(bad)))
            bad[at:at] = data.draw(st.binary(max_size=3))
        case "twice":
            bad += records[-1]
    check(order, [bytes(bad), *records])


@given(st.lists(_orders, min_size=1, max_size=4))
def test_whole_messages_do_not_need_google(shop: bytes, order: Protobuf, drawn: list[dict[str, Any]]) -> None:
    assert order._reader is not None
    read = order._reader.read(pa.array([message_of(shop, each) for each in drawn]))
    assert read is not None
    assert len(read[1]) == 0


def test_messages_with_groups_are_left_to_google(tmp_path: Path) -> None:
    (tmp_path / "g.proto").write_text(GROUPS)
    groups = Protobuf.from_file(tmp_path / "g.proto", "G")
    assert groups._reader is None
    check(groups, [b"\x0b\x10\x05\x0c\x18\x01", b"\x0b", None])


def test_more_elements_than_there_was_room_for_are_read(order: Protobuf) -> None:
    numbers = b"\x72" + varint(5000) + b"\x01" * 5000
    others = b"\x6a\x02\x0a\x00" * 3000
    check(order, [numbers, others, b"", numbers + others, numbers])
