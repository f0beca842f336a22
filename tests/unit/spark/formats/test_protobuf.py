"""Protobuf: what Google's library writes is read into Spark's types, and what is written, the library reads."""

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.proto_files import compile_proto, find_message
from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import ddl
from ottla.spark.not_ready import NotReady

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NEW = 0; OLD = 5; }
message Buyer { string name = 1; optional int32 age = 2; message Inner { int32 x = 1; } }
message Order {
  int64 id = 1;
  uint32 count = 2;
  uint64 large = 3;
  sint32 delta = 4;
  double share = 5;
  float part = 6;
  bool ok = 7;
  string name = 8;
  bytes raw = 9;
  Kind kind = 10;
  optional string note = 11;
  Buyer buyer = 12;
  repeated Buyer others = 13;
  repeated int32 numbers = 14;
  repeated Kind kinds = 15;
  map<string, int64> counts = 16;
  map<int32, Buyer> buyers = 17;
  oneof paid { string card = 18; int64 cash = 19; }
  google.protobuf.Timestamp at = 20;
  google.protobuf.Duration took = 21;
  repeated google.protobuf.Timestamp times = 22;
  google.protobuf.Int32Value wrapped = 23;
}
"""
ORDER_DDL = (
    "struct<id: bigint, count: bigint, large: decimal(20,0), delta: int, share: double, part: float, ok: boolean, "
    "name: string, raw: binary, kind: string, note: string, buyer: struct<name: string, age: int>, "
    "others: array<struct<name: string, age: int>>, numbers: array<int>, kinds: array<string>, "
    "counts: map<string, bigint>, buyers: map<int, struct<name: string, age: int>>, card: string, "
    "cash: bigint, at: timestamp, took: interval day to second, times: array<timestamp>, wrapped: struct<value: int>>"
)

_int32, _int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_buyers = st.fixed_dictionaries({"name": st.text(max_size=5), "age": st.none() | _int32})
_times = st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC))
_paid = st.sampled_from([{"card": None, "cash": None}]) | st.one_of(
    st.text(max_size=3).map(lambda card: {"card": card, "cash": None}), _int64.map(lambda c: {"card": None, "cash": c})
)
_orders = st.builds(
    lambda order, paid: order | paid,
    st.fixed_dictionaries(
        {
            "id": _int64,
            "count": st.integers(0, 2**32 - 1),
            "large": st.integers(0, 2**64 - 1).map(Decimal),
            "delta": _int32,
            "share": st.floats(allow_nan=False),
            "part": st.floats(allow_nan=False, width=32),
            "ok": st.booleans(),
            "name": st.text(max_size=5),
            "raw": st.binary(max_size=5),
            "kind": st.sampled_from(["NEW", "OLD", "7"]),
            "note": st.none() | st.text(max_size=5),
            "buyer": st.none() | _buyers,
            "others": st.lists(_buyers, max_size=3),
            "numbers": st.lists(_int32, max_size=3),
            "kinds": st.lists(st.sampled_from(["NEW", "OLD"]), max_size=3),
            "counts": st.dictionaries(st.text(max_size=3), _int64, max_size=3),
            "buyers": st.dictionaries(_int32, _buyers, max_size=2),
            "at": st.none() | _times,
            "took": st.none() | st.timedeltas(timedelta(days=-90000), timedelta(days=90000)),
            "times": st.lists(_times, max_size=2),
            "wrapped": st.none() | st.fixed_dictionaries({"value": _int32}),
        }
    ),
    _paid,
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("proto") / "shop.proto"
    path.write_text(PROTO)
    return compile_proto(path)


def message_of(compiled: bytes, order: dict[str, Any]) -> bytes:
    """The order as a message, by Google's own way to make one."""
    message: Any = GetMessageClass(find_message(compiled, "shop.Order"))()
    plain = ("id", "count", "delta", "share", "part", "ok", "name", "raw", "note", "card", "cash")
    for name in plain:
        if order[name] is not None:
            setattr(message, name, order[name])
    message.large = int(order["large"])
    message.kind = {"NEW": 0, "OLD": 5, "7": 7}[order["kind"]]
    message.kinds.extend({"NEW": 0, "OLD": 5}[kind] for kind in order["kinds"])
    message.numbers.extend(order["numbers"])
    message.counts.update(order["counts"])
    for target, buyer in [
        *((message.others.add(), buyer) for buyer in order["others"]),
        *((message.buyers[key], buyer) for key, buyer in order["buyers"].items()),
        *([(message.buyer, order["buyer"])] if order["buyer"] is not None else []),
    ]:
        target.SetInParent()
        target.name = buyer["name"]
        if buyer["age"] is not None:
            target.age = buyer["age"]
    for when in order["times"]:
        message.times.add().FromDatetime(when)
    if order["at"] is not None:
        message.at.FromDatetime(order["at"])
    if order["took"] is not None:
        message.took.FromTimedelta(order["took"])
    if order["wrapped"] is not None:
        message.wrapped.value = order["wrapped"]["value"]
        message.wrapped.SetInParent()
    return bytes(message.SerializeToString(deterministic=True))


def sorted_maps(order: dict[str, Any] | None) -> dict[str, Any] | None:
    if order is None:
        return None
    return order | {name: sorted(dict(order[name]).items()) for name in ("counts", "buyers")}


def test_the_types_are_those_of_spark(compiled: bytes) -> None:
    assert ddl(Protobuf(compiled, "Order").type) == ORDER_DDL


@given(st.lists(st.none() | _orders, max_size=4))
def test_messages_are_read_as_google_writes_them(compiled: bytes, orders: list[dict[str, Any] | None]) -> None:
    records = [None if order is None else message_of(compiled, order) for order in orders]
    found = Protobuf(compiled, "Order").decode(pa.array(records, pa.binary()))
    found.results.validate(full=True)
    assert found.errors.to_pylist() == [None] * len(orders)
    assert list(map(sorted_maps, found.results.to_pylist())) == list(map(sorted_maps, orders))


@given(st.lists(st.none() | _orders, min_size=1, max_size=4))
def test_messages_are_written_as_google_writes_them(compiled: bytes, orders: list[dict[str, Any] | None]) -> None:
    order_format = Protobuf(compiled, "Order")
    values = pa.array([sorted_maps(order) for order in orders], order_format.type)
    found = order_format.encode(values.slice(1))
    assert found.error_count == 0
    assert found.results.to_pylist() == [None if order is None else message_of(compiled, order) for order in orders[1:]]


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_noise_is_read_or_refused(compiled: bytes, records: list[bytes]) -> None:
    found = Protobuf(compiled, "Order").decode(pa.array(records, pa.binary()))
    found.results.validate(full=True)
    for result, error in zip(found.results, found.errors, strict=True):
        assert result.is_valid != error.is_valid


@given(st.lists(_orders, min_size=2, max_size=3), st.data())
def test_damaged_messages_leave_the_others_alone(
    compiled: bytes, orders: list[dict[str, Any]], data: st.DataObject
) -> None:
    records = [message_of(compiled, order) for order in orders]
    bad = bytearray(records[1])
    bad[data.draw(st.integers(0, len(bad))) :] = data.draw(st.binary(max_size=4))
    found = Protobuf(compiled, "Order").decode(pa.array([records[0], bytes(bad), *records[2:]], pa.binary()))
    assert found.errors.to_pylist()[0] is None
    assert sorted_maps(found.results[0].as_py()) == sorted_maps(orders[0])


def test_fields_that_are_not_there_have_their_default_or_are_null(compiled: bytes) -> None:
    (row,) = Protobuf(compiled, "Order").decode(pa.array([b""])).results.to_pylist()
    assert (row["id"], row["name"], row["kind"], row["numbers"], row["counts"]) == (0, "", "NEW", [], [])
    assert (row["note"], row["buyer"], row["card"], row["cash"], row["at"]) == (None,) * 5


def test_what_is_no_message_is_said(compiled: bytes) -> None:
    (error,) = Protobuf(compiled, "Order").decode(pa.array([b"\x08"])).errors.to_pylist()
    assert error.startswith("not a message shop.Order: ")


def test_times_beyond_spark_are_errors_of_their_row(compiled: bytes) -> None:
    far: Any = GetMessageClass(find_message(compiled, "shop.Order"))()
    far.at.seconds = 2**60
    found = Protobuf(compiled, "Order").decode(pa.array([b"\x08\x01", far.SerializeToString()]))
    assert [row and row["id"] for row in found.results.to_pylist()] == [1, None]
    assert found.errors[1].as_py().startswith("not of Spark's types: ")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"card": "a", "cash": 1}, "one of card and cash can be given, not both"),
        ({"count": -1}, "range"),
        ({"large": Decimal(2**64)}, "large|range"),
        ({"kind": "NONE"}, "shop.Kind has no value NONE"),
        ({"numbers": [1, None]}, "numbers has a null among its elements"),
        ({"counts": [("a", None)]}, "counts has a null among its elements"),
    ],
)
def test_values_that_a_message_cannot_hold_are_errors(compiled: bytes, change: dict[str, Any], why: str) -> None:
    order_format = Protobuf(compiled, "Order")
    nothing = dict.fromkeys(field.name for field in order_format.type)
    found = order_format.encode(pa.array([nothing | change, nothing | {"id": 1}], order_format.type))
    assert found.results.to_pylist() == [None, b"\x08\x01"]
    assert found.errors[0].as_py().startswith("no message shop.Order: ")
    assert any(part in found.errors[0].as_py().lower() for part in why.lower().split("|"))


def test_messages_of_proto2_know_what_is_required(tmp_path: Path) -> None:
    path = tmp_path / "old.proto"
    path.write_text('syntax = "proto2"; message Old { required int32 a = 1; optional string b = 2 [default = "x"]; }')
    old = Protobuf.from_file(path)
    found = old.decode(pa.array([b"\x08\x05", b"", b"\x08\x05\x12\x01\xff"]))
    assert found.results.to_pylist() == [{"a": 5, "b": None}, None, None]
    assert found.errors[1].as_py() == "not a message Old: without a"
    assert found.errors[2].as_py() is not None
    assert old.encode(pa.array([{"a": None, "b": "y"}], old.type)).error_count == 1


def test_formats_can_be_pickled(compiled: bytes) -> None:
    again = pickle.loads(pickle.dumps(Protobuf(compiled, "Order")))
    assert again.decode(pa.array([b"\x08\x01"])).results[0].as_py()["id"] == 1


def test_descriptor_sets_are_read_from_files_and_messages_found_in_them(compiled: bytes, tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(compiled)
    for name, columns in (("shop.Buyer", 2), ("Buyer", 2), ("shop.Buyer.Inner", 1)):
        assert Protobuf.from_file(tmp_path / "shop.desc", name).type.num_fields == columns
    with pytest.raises(BadSchema, match=r"there is no message Byer\? There are shop\.Buyer, shop\.Order"):
        Protobuf.from_file(tmp_path / "shop.desc", "Byer")
    with pytest.raises(BadSchema, match="which message is meant"):
        Protobuf(compiled)


def test_well_known_types_need_not_be_in_the_set_but_others_do(compiled: bytes) -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled)
    own = descriptor_pb2.FileDescriptorSet(file=[file for file in files.file if file.package == "shop"])
    assert ddl(Protobuf(own.SerializeToString(), "Order").type) == ORDER_DDL
    own.file[0].dependency.append("elsewhere.proto")
    with pytest.raises(BadSchema, match=r"elsewhere\.proto is imported, but not in the descriptor set"):
        Protobuf(own.SerializeToString(), "Order")


def test_messages_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tree.proto"
    path.write_text('syntax = "proto3"; message Tree { repeated Tree children = 1; }')
    with pytest.raises(BadSchema, match=r"\$\.children\[\]: Tree contains itself"):
        Protobuf.from_file(path)


def test_a_file_that_does_not_compile_is_said_with_the_compilers_words(tmp_path: Path) -> None:
    path = tmp_path / "bad.proto"
    path.write_text('syntax = "proto3";\nmessage { }')
    with pytest.raises(BadSchema, match=r"bad\.proto does not compile: .*bad\.proto:2:9"):
        Protobuf.from_file(path)
    with pytest.raises(BadSchema, match="not a compiled descriptor set"):
        Protobuf(b"\xff")
    with pytest.raises(BadSchema, match="No such file"):
        Protobuf.from_file(tmp_path / "none.desc")


def test_without_a_compiler_there_is_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ottla.spark.formats.proto_files.find_spec", lambda _: None)
    with pytest.raises(NotReady, match=r"pip install 'ottla\[proto\]', or give a descriptor set"):
        Protobuf.from_file(tmp_path / "shop.proto")
