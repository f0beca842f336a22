"""Bytes as they are, and text."""

import pyarrow as pa

from ottla.spark.formats.format import Converted, all_well, with_errors


class Raw:
    """The bytes themselves."""

    type = pa.binary()

    def decode(self, column: pa.Array) -> Converted:
        return all_well(column.cast(pa.binary()))

    def encode(self, values: pa.Array) -> Converted:
        return all_well(values.cast(pa.binary()))


class Text:
    """UTF-8."""

    type = pa.string()

    def decode(self, column: pa.Array) -> Converted:
        column = column.cast(pa.binary())
        bad = not_utf8(column)
        return with_errors(without(column, bad).cast(pa.string()), bad)

    def encode(self, values: pa.Array) -> Converted:
        return all_well(values.cast(pa.string()).cast(pa.binary()))


def not_utf8(column: pa.BinaryArray) -> dict[int, str]:
    """The rows that are not UTF-8, and why not. Costs Python per row only if there are some."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return {row: fault for row, value in enumerate(column.to_pylist()) if (fault := _fault(value))}
    return {}


def without(column: pa.Array, rows: dict[int, str]) -> pa.Array:
    """The column with nulls in these rows."""
    if not rows:
        return column
    is_kept = [True] * len(column)
    for row in rows:
        is_kept[row] = False
    return pa.compute.if_else(pa.array(is_kept), column, pa.scalar(None, column.type))


def _fault(value: bytes | None) -> str | None:
    try:
        if value is not None:
            value.decode("utf-8")
    except UnicodeDecodeError as fault:
        return f"not UTF-8: byte 0x{fault.object[fault.start]:02x} at position {fault.start}"
    return None
