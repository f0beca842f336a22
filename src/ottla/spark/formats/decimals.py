"""Numbers of up to 128 bits as Avro has them, the largest byte first, and as Arrow does, the smallest first."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.compiled import byte_at, compiled, set_byte

Bytes: TypeAlias = NDArray[np.uint8]
DECIMAL_BYTES = 16


def widen(data: Bytes, places: NDArray[np.int64], sizes: NDArray[np.int32]) -> NDArray[Any]:
    """Numbers of at most 16 bytes, which are believed to fit."""
    wide = np.empty(len(places) * DECIMAL_BYTES, np.uint8)
    _widen(data, places, sizes, wide)
    return wide


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
