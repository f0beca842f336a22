"""Arrow's columns as Python's values, for libraries that take one record at a time; faster than `to_pylist`."""

from itertools import pairwise
from typing import Any

import pyarrow as pa


def rows_of(column: pa.Array) -> list[Any]:
    """Structs and maps as dictionaries, lists as lists, the rest as `to_pylist` has it."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [rows_of(part) for part in column.flatten()]
        found = [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)] if parts else None
        return _with_nulls(column, found if found is not None else [{} for _ in range(len(column))])
    if pa.types.is_map(kind):
        bounds = column.offsets.to_pylist()
        first, size = bounds[0], bounds[-1] - bounds[0]
        keys, items = rows_of(column.keys.slice(first, size)), rows_of(column.items.slice(first, size))
        pairs = pairwise(bounds)
        maps = [
            dict(zip(keys[at - first : end - first], items[at - first : end - first], strict=True)) for at, end in pairs
        ]
        return _with_nulls(column, maps)
    if pa.types.is_list(kind):
        bounds = column.offsets.to_pylist()
        first = bounds[0]
        values = rows_of(column.values.slice(first, bounds[-1] - first))
        lists = [values[at - first : end - first] for at, end in pairwise(bounds)]
        return _with_nulls(column, lists)
    plain: list[Any] = column.to_pylist()
    return plain


def _with_nulls(column: pa.Array, rows: list[Any]) -> list[Any]:
    if not column.null_count:
        return rows
    return [row if is_there else None for row, is_there in zip(rows, column.is_valid().to_pylist(), strict=True)]
