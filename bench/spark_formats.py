"""`python -m bench.spark_formats`: rates of the formats' functions, on one core, with no Spark and no broker.

Time is that of the processor, so that what else the machine does counts for less. Each kernel stands beside the library
that takes one record at a time, and which reads and writes what the kernel does not.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.spark_codec import NOW
from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.format import Format
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import arrow_type

ROWS, ROWS_BY_LIBRARY = 50_000, 5_000
FLAT = "id bigint, customer string, amount double, at timestamp, count int, ok boolean, note string, kind string"
NESTED = f"{FLAT}, tags array<string>, lines array<struct<what: string, count: int>>, marks map<string, bigint>"
AVRO_FLAT: list[Any] = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": ["null", "string"]},
    {"name": "amount", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "count", "type": "int"},
    {"name": "ok", "type": "boolean"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
]
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "what", "type": "string"}, {"name": "count", "type": "int"}],
}
AVRO_NESTED = [
    *AVRO_FLAT,
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "lines", "type": {"type": "array", "items": LINE}},
    {"name": "marks", "type": {"type": "map", "values": "long"}},
]
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
enum Kind { NEW = 0; OLD = 1; }
message Line { string what = 1; int32 count = 2; }
message Flat {
  int64 id = 1; optional string customer = 2; double amount = 3; google.protobuf.Timestamp at = 4;
  int32 count = 5; bool ok = 6; optional string note = 7; Kind kind = 8;
}
message Nested {
  int64 id = 1; optional string customer = 2; double amount = 3; google.protobuf.Timestamp at = 4;
  int32 count = 5; bool ok = 6; optional string note = 7; Kind kind = 8;
  repeated string tags = 9; repeated Line lines = 10; map<string, int64> marks = 11;
}
"""


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer {number % 1000}",
        "amount": number / 7,
        "at": NOW * 1000 + number,
        "count": number % 10,
        "ok": number % 2 == 0,
        "note": None if number % 3 else "a note",
        "kind": "OLD" if number % 2 else "NEW",
        "tags": ["a", "bc"],
        "lines": [{"what": "nail", "count": number % 100}, {"what": "hammer", "count": 1}],
        "marks": [("x", number), ("y", 1)],
    }


def formats(directory: Path) -> dict[str, Format]:
    (directory / "order.proto").write_text(PROTO)
    return {
        "json, 8 columns": Json(arrow_type(FLAT)),
        "json, nested": Json(arrow_type(NESTED)),
        "avro, 8 columns": Avro({"type": "record", "name": "Flat", "fields": AVRO_FLAT}),
        "avro, nested": Avro({"type": "record", "name": "Nested", "fields": AVRO_NESTED}),
        "protobuf, 8 columns": Protobuf.from_file(directory / "order.proto", "Flat"),
        "protobuf, nested": Protobuf.from_file(directory / "order.proto", "Nested"),
    }


def rate(work: Callable[[], object], rows: int, runs: int) -> float:
    """Millions of rows a second of the processor's time, of the best run."""
    work()
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return rows / best / 1e6


def by_library(each: Format, records: pa.Array, values: pa.Array) -> dict[str, Callable[[], object]]:
    """The same without a kernel, where there is such a way."""
    match each:
        case Avro():
            bare = values.cast(each._schema.bare)
            return {"decode": lambda: each._decode(records), "encode": lambda: each._encode(bare)}
        case Protobuf():
            bare = values.cast(each.bare)
            return {"decode": lambda: each._decode(records), "encode": lambda: each._encode(bare)}
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spark_formats", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rows = [row(number) for number in range(ROWS)]
    print(f"{'millions of rows a second':40}    here   library")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        for title, each in formats(Path(directory)).items():
            values = pa.array([{field.name: one[field.name] for field in each.type} for one in rows], each.type)
            records = each.encode(values).results
            few = by_library(each, records[:ROWS_BY_LIBRARY], values[:ROWS_BY_LIBRARY])
            for way, work in (("decode", lambda: each.decode(records)), ("encode", lambda: each.encode(values))):  # noqa: B023
                theirs = f"{rate(few[way], ROWS_BY_LIBRARY, 2):9.2f}" if way in few else ""
                print(f"{way} {title:33} {rate(work, ROWS, options.runs):7.2f} {theirs}", flush=True)
        wrong = pa.array(
            [b'{"id": "x%d", "customer": "c", "amount": 1.5}' % number for number in range(ROWS_BY_LIBRARY)]
        )
        mistaken = Json(arrow_type(FLAT))
        print(f"{'decode json, all of a wrong type':40} {rate(lambda: mistaken.decode(wrong), len(wrong), 2):7.2f}")


if __name__ == "__main__":
    main()
