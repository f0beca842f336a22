"""Arrow's columns into records without a Python object for each.

A *part* of a record is written in two steps, each for the whole column: it is measured, which adds to the sizes of the
records, and gives back what puts it there once all are measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of, frozen
from ottla.spark.formats import put_kernels as kernels

Longs: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Put: TypeAlias = Callable[[Bytes, Longs], None]
"""Puts a part of every record into the bytes, and moves on their cursors."""

_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """The places of a column: which are to be written, how many bytes they take, and which of them cannot be."""

    is_live: Bytes
    sizes: Longs
    is_bad: Bytes

    @classmethod
    def over(cls, is_live: Bytes) -> "Scope":
        return cls(is_live, np.zeros(len(is_live), np.int64), np.zeros(len(is_live), np.uint8))

    def some(self, is_live: Bytes) -> "Scope":
        """The same records, of which fewer have a part."""
        return replace(self, is_live=is_live)

    def given(self, column: pa.Array) -> "Scope":
        """Where the column is not null."""
        return self.some(self.is_live & valid(column)) if column.null_count else self

    def demanded(self, column: pa.Array) -> "Scope":
        """Where the column is not null, and else it is bad."""
        given = self.given(column)
        if given is not self:
            self.refuse(self.is_live > given.is_live)
        return given

    def refuse(self, where: NDArray[np.bool_]) -> None:
        self.is_bad[where & (self.is_live != 0)] = 1


Part: TypeAlias = Callable[[pa.Array, Scope], Put]


def written(part: Part, column: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Records, null in the rows that are also given: those could not be written here."""
    scope = Scope.over(valid(column))
    put = part(column, scope)
    doubtful = np.flatnonzero(scope.is_bad & scope.is_live)
    if len(doubtful):
        scope = Scope.over(scope.is_live & ~scope.is_bad)
        put = part(column, scope)
    bounds = np.zeros(len(column) + 1, np.int64)
    np.cumsum(scope.sizes, out=bounds[1:])
    if bounds[-1] > _BYTES_MAX:
        raise OverflowError("more than two gigabytes of records in one batch of rows; let there be fewer in it")
    out = np.empty(int(bounds[-1]), np.uint8)
    put(out, bounds[:-1].copy())
    bits = None if scope.is_live.all() else pa.py_buffer(np.packbits(scope.is_live, bitorder="little"))
    buffers = [bits, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers), doubtful


def numbers(values: Longs, scope: Scope, how: int, *, tag: int = 0, skips_zero: bool = False) -> Put:
    values, is_live = frozen(values), frozen(scope.is_live.view())
    kernels.measure_numbers(values, is_live, tag, how, int(skips_zero), scope.sizes)
    return lambda out, cursors: kernels.put_numbers(values, is_live, tag, how, int(skips_zero), out, cursors)


def blobs(column: pa.Array, scope: Scope, how: int, *, tag: int = 0, skips_empty: bool = False) -> Put:
    found, is_live, skips = blobs_of(column), frozen(scope.is_live.view()), int(skips_empty)
    kernels.measure_blobs(found.bounds, is_live, tag, how, skips, scope.sizes)
    return lambda out, cursors: kernels.put_blobs(found.bounds, found.data, is_live, tag, how, skips, out, cursors)


def in_order(puts: list[Put]) -> Put:
    def put(out: Bytes, cursors: Longs) -> None:
        for each in puts:
            each(out, cursors)

    return put


@dataclass(frozen=True, slots=True)
class Elements:
    """Where the elements of each list are among those of all; `scope` is theirs."""

    bounds: Longs
    first: int
    scope: Scope

    @classmethod
    def of(cls, column: pa.Array, scope: Scope) -> "Elements":
        """Lists or maps; `scope` is where they are written."""
        bounds = column.offsets.to_numpy().astype(np.int64)
        first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
        is_live = np.zeros(count, np.uint8)
        bounds -= first
        kernels.spread(frozen(bounds), frozen(scope.is_live.view()), is_live)
        return cls(bounds, first, Scope.over(is_live))

    def cut(self, values: pa.Array) -> pa.Array:
        return values.slice(self.first, len(self.scope.is_live))

    def around(self, put: Put, scope: Scope, how: int, *, tag: int = 0) -> Put:
        """Once the elements are measured."""
        bounds, is_live, inner = self.bounds, frozen(scope.is_live.view()), frozen(self.scope.sizes)
        is_bad_inside = frozen(self.scope.is_bad)
        kernels.measure_lists(bounds, is_live, inner, is_bad_inside, tag, how, scope.sizes, scope.is_bad)

        def put_all(out: Bytes, cursors: Longs) -> None:
            inside = np.zeros(len(inner), np.int64)
            kernels.put_lists(bounds, is_live, inner, tag, how, out, cursors, inside)
            put(out, inside)

        return put_all


def sorted_pairs(elements: Elements, keys: pa.Array, scope: Scope) -> Longs:
    """The order of the pairs of every map by their keys; maps in which a key comes twice are bad."""
    order = np.arange(len(keys))
    if pa.types.is_string(keys.type):
        found = blobs_of(keys)
        places, sizes, data = found.bounds[:-1].astype(np.int64), np.diff(found.bounds).astype(np.int64), found.data
    else:
        places, sizes, data = longs_of(keys), np.zeros(0, np.int64), frozen(np.zeros(0, np.uint8))
    kernels.sort_pairs(
        elements.bounds, frozen(scope.is_live.view()), frozen(places), frozen(sizes), data, order, scope.is_bad
    )
    return order


def valid(column: pa.Array) -> Bytes:
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    found: Bytes = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    return found


def longs_of(column: pa.Array) -> Longs:
    """Numbers of any kind as their bits; what is null is anything."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
        kind = column.type
    if not len(column):
        return np.zeros(0, np.int64)
    stored = np.dtype(f"u{kind.bit_width // 8}" if pa.types.is_float32(kind) else f"i{column.type.bit_width // 8}")
    data = column.buffers()[1]
    found: NDArray[Any] = np.frombuffer(data, stored, len(column), column.offset * stored.itemsize)
    return found.astype(np.int64)
