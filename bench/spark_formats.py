"""`python -m bench.spark_formats`: rates of the formats' functions, on one core, with no Spark and no broker."""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa

from bench.spark_codec import NOW, rate
from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.format import Format
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import arrow_type

ROWS = 50_000
COLUMNS = "id bigint, name string, amount double, at timestamp"
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; optional string name = 2; double amount = 3; google.protobuf.Timestamp at = 4; }
"""


def formats(directory: Path) -> dict[str, Format]:
    (directory / "order.proto").write_text(PROTO)
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}}
    listed = AVRO | {"fields": [*AVRO["fields"], tags]}
    return {
        "json": Json(arrow_type(COLUMNS)),
        "avro": Avro(AVRO),
        "avro with a list": Avro(listed),
        "protobuf": Protobuf.from_file(directory / "order.proto"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spark_formats", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rows = [
        {"id": number, "name": f"order {number}", "amount": number / 7, "at": NOW * 1000 + number, "tags": ["a", "b"]}
        for number in range(ROWS)
    ]
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        for title, each in formats(Path(directory)).items():
            values = pa.array([{field.name: row[field.name] for field in each.type} for row in rows], each.type)
            records = each.encode(values).results
            for way, work in (("decode", lambda: each.decode(records)), ("encode", lambda: each.encode(values))):  # noqa: B023
                print(f"{way} {title:20} {rate(work, ROWS, options.runs):6.2f} M rows/s", flush=True)


if __name__ == "__main__":
    main()
