"""Formats as functions on Spark's columns: what goes in and comes out of a worker are Arrow's batches, never rows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.spark.formats.format import Converted, Format

if TYPE_CHECKING:
    from pyspark.sql import Column

RESULT, ERROR = "result", "error"


def decoded(column: "Column", by: Format) -> "Column":
    """A struct of `result`, of the format's type, and `error`, a text: one of them is null, for a null both."""
    return _function(column, by.decode, _pair(by.type))


def encoded(column: "Column", by: Format) -> "Column":
    """A struct of `result`, bytes, and `error`."""
    return _function(column, by.encode, _pair(pa.binary()))


def as_struct(converted: Converted) -> pa.Array:
    return pa.StructArray.from_arrays([converted.results, converted.errors], names=[RESULT, ERROR])


def _pair(kind: pa.DataType) -> pa.DataType:
    return pa.struct([(RESULT, kind), (ERROR, pa.string())])


def _function(column: "Column", convert: Callable[[pa.Array], Converted], kind: pa.DataType) -> "Column":
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_type

    def converted(values: pa.Array) -> pa.Array:
        return as_struct(convert(values))

    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]
    made: Column = arrow_udf(converted, from_arrow_type(kind, prefer_timestamp_ntz=True))(column)
    return made
