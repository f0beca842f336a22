"""Columns as columns of JSON text, the way that `json_values` reads it, a column at a time.

Fields that are null are left out, as Spark's to_json does it.
"""

import base64
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats.format import BadSchema
from ottla.spark.formats.spark_types import ddl

Texts: TypeAlias = Callable[[pa.Array], pa.Array]
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_EMPTY = pa.scalar("")


def check_writable(kind: pa.DataType, path: str = "$") -> None:
    """Raises BadSchema for a type that JSON has nothing for."""
    types = pa.types
    if types.is_struct(kind):
        for field in kind:
            check_writable(field.type, f"{path}.{field.name}")
    elif types.is_list(kind):
        check_writable(kind.value_type, f"{path}[]")
    elif types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise BadSchema(f"{path}: the names in a JSON object are strings, not {ddl(kind.key_type)}")
        check_writable(kind.item_type, f"{path}[]")
    elif not any(is_kind(kind) for is_kind, _ in _SCALARS):
        raise BadSchema(f"{path}: JSON has nothing for {ddl(kind)}")


def is_all_finite(column: pa.Array) -> bool:
    """Whether JSON has numbers for all that is in the column."""
    types = pa.types
    if types.is_struct(column.type):
        return all(map(is_all_finite, column.flatten()))
    if types.is_map(column.type):
        _, items = _of_lists(column, lambda whole: whole.items)
        return is_all_finite(items)
    if types.is_list(column.type):
        return is_all_finite(column.flatten())
    if types.is_floating(column.type):
        return pc.all(pc.is_finite(column), min_count=0).as_py() is not False
    return True


def texts_of(column: pa.Array) -> pa.Array:
    """The text of every value; null where the value is null."""
    types = pa.types
    if types.is_struct(column.type):
        return _struct(column)
    if types.is_map(column.type):
        bounds, keys = _of_lists(column, lambda whole: whole.keys)
        _, items = _of_lists(column, lambda whole: whole.items)
        pairs = _joined(_quoted(keys), pa.scalar(":"), pc.fill_null(texts_of(items), "null"))
        return _listed("{", bounds, pairs, column, "}")
    if types.is_list(column.type):
        bounds, values = _of_lists(column, lambda whole: whole.values)
        return _listed("[", bounds, pc.fill_null(texts_of(values), "null"), column, "]")
    return next(texts for is_kind, texts in _SCALARS if is_kind(column.type))(column)


def _struct(column: pa.StructArray) -> pa.Array:
    if not column.type.num_fields:
        return _like(column, pa.array(["{}"] * len(column), pa.string()))
    parts = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        part = _joined(pa.scalar(f",{encode_basestring(field.name)}:"), texts_of(values))
        parts.append(pc.fill_null(part, ""))
    inner = pc.utf8_slice_codeunits(_joined(*parts), 1)  # without the first comma
    return _like(column, _joined(pa.scalar("{"), inner, pa.scalar("}")))


def _listed(opening: str, bounds: pa.Array, texts: pa.Array, column: pa.Array, closing: str) -> pa.Array:
    inner = pc.binary_join(pa.ListArray.from_arrays(bounds, texts), ",")
    return _like(column, _joined(pa.scalar(opening), inner, pa.scalar(closing)))


def _of_lists(column: pa.Array, part: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Where each list starts and ends, and what of its elements; lists that are null are empty."""
    bounds = column.offsets.to_numpy()
    values = part(column).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    return pa.array((bounds - bounds[0]).astype(np.int32)), values


def _like(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _EMPTY)


def _quoted(column: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    needs_escape = pc.match_substring_regex(column, _NEEDS_ESCAPE)
    if not pc.any(needs_escape, min_count=0).as_py():
        return _joined(quote, column, quote)
    return pa.array([None if text is None else encode_basestring(text) for text in column.to_pylist()], pa.string())


def _in_quotes(column: pa.Array) -> pa.Array:
    return _joined(pa.scalar('"'), column.cast(pa.string()), pa.scalar('"'))


def _times(column: pa.Array) -> pa.Array:
    return pc.replace_substring(_in_quotes(column), " ", "T", max_replacements=1)


def _base64(column: pa.Array) -> pa.Array:
    return _in_quotes(
        pa.array([None if value is None else base64.b64encode(value) for value in column.to_pylist()], pa.binary())
    )


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Texts], ...] = (
    (pa.types.is_signed_integer, _plain),
    (pa.types.is_floating, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_string, _quoted),
    (pa.types.is_decimal128, _plain),
    (pa.types.is_binary, _base64),
    (pa.types.is_date32, _in_quotes),
    (pa.types.is_timestamp, _times),
)
