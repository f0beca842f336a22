"""Formats on Spark's columns: what comes out of a worker is what the format says, also of nested types."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ottla.spark.formats.avro_format import Avro
from ottla.spark.formats.format import Format
from ottla.spark.formats.functions import decoded, encoded
from ottla.spark.formats.json_format import Json
from ottla.spark.formats.proto_format import Protobuf
from ottla.spark.formats.spark_types import arrow_type, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
  {"name": "counts", "type": {"type": "map", "values": "int"}},
  {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}}]}"""
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  map<string, int32> counts = 3;
  repeated string tags = 4;
}
"""
COLUMNS = "id bigint, at timestamp, price decimal(9,2), counts map<string, int>, tags array<string>"
ORDER = {
    "id": 7,
    "at": datetime(2024, 5, 6, 7, 8, 9, 120_000, tzinfo=UTC),
    "price": Decimal("12.50"),
    "counts": {"a": 1},
    "tags": ["x", "y"],
}


def json_format(_: Path) -> Format:
    return Json(arrow_type(COLUMNS))


def avro_format(_: Path) -> Format:
    return Avro.from_text(AVRO)


def proto_format(directory: Path) -> Format:
    (directory / "order.proto").write_text(PROTO)
    return Protobuf.from_file(directory / "order.proto")


@pytest.mark.parametrize("make", [json_format, avro_format, proto_format])
def test_spark_reads_and_writes_by_a_format(
    spark: "SparkSession", tmp_path: Path, make: Callable[[Path], Format]
) -> None:
    order_format = make(tmp_path)
    order: dict[str, Any] = {field.name: ORDER[field.name] for field in order_format.type}
    record = order_format.encode(pa.array([order], order_format.type)).results[0].as_py()
    rows = spark.createDataFrame([(1, record), (2, b"\xff\xff"), (3, None)], "n int, value binary")

    found = rows.select("n", decoded(F.col("value"), order_format).alias("d"))
    kind = found.schema["d"].dataType["result"].dataType.simpleString()
    assert kind == ddl(order_format.type).replace(": ", ":").replace(", ", ",")
    good, bad, null = found.orderBy("n").collect()
    as_read = good.d.result.asDict(recursive=True)
    assert as_read | {"at": as_read["at"].astimezone(UTC)} == order
    assert good.d.error is None
    assert (bad.d.result, bool(bad.d.error)) == (None, True)
    assert (null.d.result, null.d.error) == (None, None)

    again = found.select("n", encoded(F.col("d.result"), order_format).alias("e")).orderBy("n").collect()
    assert [row.e.result for row in again] == [bytearray(record), None, None]
    assert [row.e.error for row in again] == [None] * 3
