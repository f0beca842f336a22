"""Arrow's columns as kernels want them: where each value starts and ends, which are there, and the bytes."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


class Bits(NamedTuple):
    """A bitmap of what is not null, from bit `first` on; no bytes at all when nothing is null."""

    bytes: NDArray[np.uint8]
    first: int


class Blobs(NamedTuple):
    """A column of byte strings: number i is data[bounds[i]:bounds[i + 1]]."""

    bounds: NDArray[np.int32]
    bits: Bits
    data: NDArray[np.uint8]


class Lists(NamedTuple):
    """A column of lists: number i holds the elements from bounds[i] up to bounds[i + 1]."""

    bounds: NDArray[np.int32]
    bits: Bits


def blobs_of(column: pa.Array) -> Blobs:
    """Strings and bytes of any of Arrow's kinds; copied only where the kind is not that of Spark."""
    column = column.cast(pa.binary())
    if not len(column):
        return no_blobs(0)
    _, bounds, data = column.buffers()
    return Blobs(_view(bounds, np.int32, column.offset, len(column) + 1), bits_of(column), _view(data, np.uint8))


def no_blobs(count: int) -> Blobs:
    """A column that is null in every row."""
    bits = Bits(frozen(np.zeros((count + 7) // 8, np.uint8)), 0)
    return Blobs(frozen(np.zeros(count + 1, np.int32)), bits, frozen(np.zeros(0, np.uint8)))


def bits_of(column: pa.Array) -> Bits:
    if not column.null_count:
        return Bits(frozen(np.zeros(0, np.uint8)), 0)
    return Bits(_view(column.buffers()[0], np.uint8), column.offset)


def frozen(numbers: NDArray) -> NDArray:  # type: ignore[type-arg]
    """Not to be written: for numba what can be written is of another type, and would be compiled for once more."""
    if not numbers.flags.aligned or not numbers.flags.c_contiguous:
        numbers = numbers.copy()
    numbers.flags.writeable = False
    return numbers


def _view(buffer: pa.Buffer | None, kind: DTypeLike, first: int = 0, count: int = -1) -> NDArray:  # type: ignore[type-arg]
    if buffer is None or not buffer.size:
        return frozen(np.zeros(0, kind))
    return frozen(np.frombuffer(buffer, kind, count, first * np.dtype(kind).itemsize))
