"""What a format is: it turns a column of bytes into values and back, and says of every row that it cannot, why.

A format never raises for what is in a row, however odd: that row gets an error, and its neighbours do not notice. It
raises `BadSchema`, in the constructor, for a schema that it cannot serve.
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

ERROR_CHARS_MAX = 300


class BadSchema(ValueError):
    """A schema that cannot be read, or says what Spark has no type for; the text says where."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Row by row the result, and what went wrong: where `errors` is not null the result is null.

    A null that comes in is a null that goes out, without an error: a tombstone is no fault.
    """

    results: pa.Array
    errors: pa.Array

    @property
    def error_count(self) -> int:
        return len(self.errors) - int(self.errors.null_count)


class Format(Protocol):
    """One way to write values as bytes. Holds no state between calls, and may be pickled."""

    @property
    def type(self) -> pa.DataType:
        """Of the values; what Spark calls it says `spark_types.ddl`."""

    def decode(self, column: pa.Array) -> Converted:
        """Bytes into values of `type`."""

    def encode(self, values: pa.Array) -> Converted:
        """Values of `type` into bytes."""


def all_well(results: pa.Array) -> Converted:
    return Converted(results, pa.nulls(len(results), pa.string()))


def with_errors(results: pa.Array, errors: dict[int, str]) -> Converted:
    """`errors` by row; the results of these rows are null already."""
    if not errors:
        return all_well(results)
    texts: list[str | None] = [None] * len(results)
    for row, text in errors.items():
        texts[row] = text[:ERROR_CHARS_MAX]
    return Converted(results, pa.array(texts, pa.string()))
