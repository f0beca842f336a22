"""The five bytes in front of a record whose schema is in a registry: a zero, and the schema's number in 32 bits."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.arrow.columns import blobs_of
from ottla.spark.arrow.record_kernels import gather
from ottla.spark.formats.format import with_errors

MAGIC = 0
FRAME_BYTES = 5


class Unframed(NamedTuple):
    """By row the number of the schema (null where there is none), the bytes behind it, and what is wrong."""

    schema_ids: pa.Array
    content: pa.Array
    errors: pa.Array


def unframe(column: pa.Array) -> Unframed:
    """Take the frame off every record. A record without one is an error; null stays null."""
    column = column.cast(pa.binary())
    if not len(column):
        return Unframed(pa.array([], pa.int32()), column, pa.array([], pa.string()))
    blobs = blobs_of(column)
    starts, sizes = blobs.bounds[:-1], np.diff(blobs.bounds)
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    is_framed = is_there & (sizes >= FRAME_BYTES)
    is_framed[is_framed] = blobs.data[starts[is_framed]] == MAGIC
    bad = {int(row): _why(column[int(row)].as_py()) for row in np.flatnonzero(is_there & ~is_framed)}
    ids = pa.array(_ids(blobs.data, starts, is_framed), pa.int32(), mask=~is_framed)
    content = _cut(blobs.data, starts, sizes, is_framed)
    return Unframed(ids, content, with_errors(content, bad).errors)


def frame(column: pa.Array, schema_id: int) -> pa.Array:
    """Put the frame in front of every record."""
    head = pa.scalar(bytes((MAGIC,)) + schema_id.to_bytes(4, "big", signed=True), pa.binary())
    return pa.compute.binary_join_element_wise(head, column.cast(pa.binary()), pa.scalar(b"", pa.binary()))


def _ids(data: NDArray[np.uint8], starts: NDArray[np.int32], is_framed: NDArray[np.bool_]) -> NDArray[np.int32]:
    found = np.zeros(len(starts), np.int32)
    places = starts[is_framed].astype(np.int64)[:, None] + np.arange(1, FRAME_BYTES)
    found[is_framed] = np.ascontiguousarray(data[places]).view(">i4")[:, 0]
    return found


def _cut(
    data: NDArray[np.uint8], starts: NDArray[np.int32], sizes: NDArray[np.int32], is_framed: NDArray[np.bool_]
) -> pa.Array:
    """What is behind the frames. (Arrow's own slice of bytes fails on columns with nulls.)"""
    bounds = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(np.where(is_framed, sizes - FRAME_BYTES, 0), out=bounds[1:])
    content = np.empty(int(bounds[-1]), np.uint8)
    gather(data, starts.astype(np.int64) + FRAME_BYTES, bounds, content)
    buffers = [pa.array(is_framed).buffers()[1], pa.py_buffer(bounds), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def _why(record: bytes) -> str:
    if len(record) < FRAME_BYTES:
        return f"{len(record)} bytes, where the number of a schema takes {FRAME_BYTES}"
    return f"the first byte is {record[0]}, in front of the number of a schema it is {MAGIC}"
