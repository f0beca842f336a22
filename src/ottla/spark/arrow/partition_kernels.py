"""Kafka's hash of keys (murmur2 with its seed), over a whole column."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ottla.spark.arrow.columns import Bits, Blobs
from ottla.spark.arrow.compiled import byte_at, compiled, inlined

Int: TypeAlias = Any
"""An integer of the machine, which a checker cannot follow."""

_SEED = np.uint32(0x9747B28C)
_FACTOR = np.uint32(0x5BD1E995)


@inlined
def _murmur2(data: Int, start: Int, size: Int) -> Int:
    found = _SEED ^ np.uint32(size)
    at = start
    for _ in range(size >> 2):
        word = np.uint32(byte_at(data, at)) | np.uint32(byte_at(data, at + 1)) << np.uint32(8)
        word |= np.uint32(byte_at(data, at + 2)) << np.uint32(16) | np.uint32(byte_at(data, at + 3)) << np.uint32(24)
        word = np.uint32(word * _FACTOR)
        word = np.uint32((word ^ (word >> np.uint32(24))) * _FACTOR)
        found = np.uint32(np.uint32(found * _FACTOR) ^ word)
        at += 4
    left = size & 3
    if left >= 3:
        found = np.uint32(found ^ np.uint32(byte_at(data, at + 2)) << np.uint32(16))
    if left >= 2:
        found = np.uint32(found ^ np.uint32(byte_at(data, at + 1)) << np.uint32(8))
    if left >= 1:
        found = np.uint32(np.uint32(found ^ np.uint32(byte_at(data, at))) * _FACTOR)
    found = np.uint32((found ^ (found >> np.uint32(13))) * _FACTOR)
    return np.uint32(found ^ (found >> np.uint32(15)))


@inlined
def _is_there(bits: Bits, row: Int) -> Int:
    if not len(bits.bytes):
        return True
    bit = bits.first + row
    return (bits.bytes[bit >> 3] >> (bit & 7)) & 1 != 0


@compiled
def place(
    topics: NDArray[np.int32],
    keys: Blobs,
    wanted: tuple[NDArray[np.int32], Bits],
    first_lanes: NDArray[np.int64],
    turn: int,
    lanes: NDArray[np.int32],
) -> int:
    """Fill `lanes`; the first row that cannot be placed, -1 when all are."""
    numbers, are_wanted = wanted
    data = keys.data.ctypes.data
    for row in range(len(lanes)):
        topic = topics[row]
        if topic < 0:
            return row
        first = first_lanes[topic]
        count = first_lanes[topic + 1] - first
        if count < 1:
            return row
        if _is_there(are_wanted, row):
            partition = np.int64(numbers[row])
            if not 0 <= partition < count:
                return row
        elif _is_there(keys.bits, row):
            start = np.int64(keys.bounds[row])
            partition = np.int64(_murmur2(data, start, keys.bounds[row + 1] - start) & np.uint32(0x7FFFFFFF)) % count
        else:
            partition = turn % count
        lanes[row] = first + partition
    return -1


@compiled
def hashes(keys: Blobs, found: NDArray[np.uint32]) -> None:
    data = keys.data.ctypes.data
    for row in range(len(found)):
        start = np.int64(keys.bounds[row])
        found[row] = _murmur2(data, start, keys.bounds[row + 1] - start)
