"""Numbers of up to 128 bits as Avro has them, the largest byte first, and as Arrow does, the smallest first."""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import frozen
from ottla.spark.arrow.compiled import byte_at, compiled, set_byte

Bytes: TypeAlias = NDArray[np.uint8]
DECIMAL_BYTES = 16


def widen(data: Bytes, places: NDArray[np.int64], sizes: NDArray[np.int32]) -> NDArray[Any]:
    """Numbers of at most 16 bytes, which are believed to fit."""
    wide = np.empty(len(places) * DECIMAL_BYTES, np.uint8)
    _widen(data, places, sizes, wide)
    return wide


def narrow(column: pa.Array, size: int) -> tuple[pa.Array, NDArray[np.bool_]]:
    """As bytes: of that size, or -1 for as many as fastavro takes. Also says which do not fit."""
    count, first = len(column), column.offset * DECIMAL_BYTES
    data = np.zeros(0, np.uint8)
    if count:
        data = np.frombuffer(column.buffers()[1], np.uint8, count * DECIMAL_BYTES, first)
    sizes, is_bad = np.empty(count, np.int32), np.zeros(count, np.bool_)
    _measure(frozen(data), size, sizes, is_bad)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    content = np.empty(int(bounds[-1]), np.uint8)
    _narrow(frozen(data), bounds, content)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(content)]), is_bad


@compiled
def _measure(data: Bytes, size: int, sizes: NDArray[np.int32], is_bad: NDArray[np.bool_]) -> None:
    """A number takes a bit for its sign and those of its absolute value, in whole bytes."""
    source = np.int64(data.ctypes.data)
    for row in range(len(sizes)):
        start = row * DECIMAL_BYTES
        is_negative = byte_at(source, start + DECIMAL_BYTES - 1) > 127
        carry, bits = is_negative, 0
        for index in range(DECIMAL_BYTES):
            byte = np.int64(byte_at(source, start + index))
            if is_negative:
                byte = 255 - byte + np.int64(carry)
                carry = byte == 256
                byte &= 255
            width = 0
            while byte:
                byte >>= 1
                width += 1
            bits = 8 * index + width if width else bits
        wanted = (bits + 8) >> 3
        sizes[row] = min(wanted, DECIMAL_BYTES) if size < 0 else size
        is_bad[row] = wanted > (DECIMAL_BYTES if size < 0 else size)


@compiled
def _narrow(data: Bytes, bounds: NDArray[np.int32], out: Bytes) -> None:
    source, target = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for row in range(len(bounds) - 1):
        start, end = np.int64(bounds[row]), np.int64(bounds[row + 1])
        fill = np.uint8(255) if byte_at(source, row * DECIMAL_BYTES + DECIMAL_BYTES - 1) > 127 else np.uint8(0)
        for index in range(end - start):
            byte = fill
            if index < DECIMAL_BYTES:
                byte = byte_at(source, row * DECIMAL_BYTES + index)
            set_byte(target, end - 1 - index, byte)


@compiled
def _widen(data: Bytes, places: NDArray[np.int64], sizes: NDArray[np.int32], out: Bytes) -> None:
    source, target = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for row in range(len(places)):
        size = np.int64(sizes[row])
        fill = np.uint8(0)
        if size and byte_at(source, places[row]) > 127:
            fill = np.uint8(255)
        for index in range(DECIMAL_BYTES):
            byte = fill
            if index < size:
                byte = byte_at(source, places[row] + size - 1 - index)
            set_byte(target, row * DECIMAL_BYTES + index, byte)
