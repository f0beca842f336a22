"""Formats of records in a plan: a column of bytes becomes a struct and an error, and back, by Arrow batches."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipelines.definitions import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from ottla.spark.formats.format import Format

VALUE, ERROR, ROW = "_value", "_error", "_row"
NAMES = ("json", "avro", "protobuf")
OPTIONS = frozenset({"schema", "schema.file", "message"})


class BadFormat(ValueError):
    """What is said about the format cannot be followed; the text says what to do."""


def open_format(kind: str, options: Options, columns: "StructType | None", directory: Path) -> "Format":
    """`columns` are those of JSON; Avro and Protobuf have theirs from the schema."""
    from ottla.spark.formats.format import BadSchema

    openers: dict[str, Callable[[], Format]] = {
        "json": lambda: _json(columns),
        "avro": lambda: _avro(options, directory),
        "protobuf": lambda: _protobuf(options, directory),
    }
    try:
        return openers[kind]()
    except BadSchema as bad:
        raise BadFormat(str(bad)) from None
    except OSError as failure:
        raise BadFormat(f"{failure.filename} cannot be read: {failure.strerror}") from None


def decoded(rows: "DataFrame", format_: "Format") -> "DataFrame":
    """With two more columns: the value as a struct, or why there is none."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*rows.schema, StructField(VALUE, spark_type(format_)), StructField(ERROR, StringType())])
    return rows.mapInArrow(partial(_decode_batches, format_), schema)


def encoded(rows: "DataFrame", format_: "Format") -> "DataFrame":
    """The struct in `_row` as the bytes of `value`; a row that the schema cannot hold ends the query."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    kept = [field for field in rows.schema if field.name != ROW]
    schema = StructType([*kept, StructField("value", BinaryType())])
    return rows.mapInArrow(partial(_encode_batches, format_), schema)


def spark_type(format_: "Format") -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    found = from_arrow_type(format_.type, prefer_timestamp_ntz=True)
    assert isinstance(found, StructType)
    return found


def _json(columns: "StructType | None") -> "Format":
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    from ottla.spark.formats.json_format import Json

    if columns is None:
        raise BadFormat("JSON needs the columns: (id bigint, …)")
    return Json(pa.struct([pa.field(one.name, to_arrow_type(one.dataType, timezone="UTC")) for one in columns]))


def _avro(options: Options, directory: Path) -> "Format":
    from ottla.spark.formats.avro_format import Avro

    if "schema" in options:
        return Avro.from_text(options["schema"])
    return Avro.from_file(_schema_file(options, directory, "orders.avsc"))


def _protobuf(options: Options, directory: Path) -> "Format":
    from ottla.spark.formats.proto_format import Protobuf

    return Protobuf.from_file(_schema_file(options, directory, "orders.proto"), options.get("message"))


def _schema_file(options: Options, directory: Path, example: str) -> Path:
    if "schema.file" not in options:
        raise BadFormat(f"the format needs a schema: schema.file = '{example}'")
    return directory / options["schema.file"]


def _decode_batches(format_: "Format", batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for batch in batches:
        found = format_.decode(batch.column("value"))
        arrays = [*batch.columns, found.results, found.errors]
        yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, VALUE, ERROR])


def _encode_batches(format_: "Format", batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for batch in batches:
        at = batch.schema.get_field_index(ROW)
        made = format_.encode(batch.column(at))
        if made.error_count:
            raise ValueError(f"a row does not fit the schema: {made.errors.drop_null()[0].as_py()}")
        columns = [column for index, column in enumerate(batch.columns) if index != at]
        names = [name for name in batch.schema.names if name != ROW]
        yield pa.RecordBatch.from_arrays([*columns, made.results], names=[*names, "value"])
