"""`python -m bench.spark_codec`: rates of the way between record batches and Arrow, on one core, with no broker.

Apart from the node's workloads, since it needs what the extra `spark` installs.
"""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ottla.spark.arrow.decode import RecordDecoder
from ottla.spark.arrow.encode import RecordEncoder
from ottla.spark.arrow.partitioner import Partitioner
from ottla.spark.arrow.schema import COLUMNS, COLUMNS_BY_DEFAULT, HEADERS_TYPE, TIMESTAMP_TYPE
from ottla.spark.arrow.visible import Fetched
from ottla.wire.batch import Codec, read_header
from ottla.wire.batch_header import patch_offsets

FETCH_BYTES = 8 * 1024 * 1024
NOW = 1_700_000_000_000
FOUR = ("key", "value", "offset", "timestamp")


def rows_of(value_bytes: int, *, headers: bool = False) -> pa.RecordBatch:
    """As many rows as a large fetch holds; half of each value can be compressed."""
    count = FETCH_BYTES // (value_bytes + 20)
    values = [os.urandom(value_bytes // 2).ljust(value_bytes, b".") for _ in range(64)]
    columns = {
        "key": pa.array([b"key-%06d" % (number % 100_000) for number in range(count)]),
        "value": pa.array([values[number % 64] for number in range(count)], pa.binary()),
        "timestamp": pa.array((NOW + np.arange(count) // 50) * 1000, TIMESTAMP_TYPE),
    }
    if headers:
        pair = [{"key": "trace", "value": b"0123456789abcdef"}, {"key": "kind", "value": b"order"}]
        columns["headers"] = pa.array([pair] * count, HEADERS_TYPE)
    return pa.record_batch(columns)


def fetched(rows: pa.RecordBatch, codec: int, batch_bytes: int) -> Fetched:
    """The same rows as one partition's answer to a fetch."""
    encoder = RecordEncoder(codec, batch_bytes_max=batch_bytes)
    content, offset = bytearray(), 0
    for batch in encoder.encode(rows, Partitioner({"bench": 1}).place(rows, "bench"), NOW):
        placed = bytearray(batch.content)
        patch_offsets(placed, 0, offset, 0)
        offset = read_header(placed).next_offset
        content += placed
    return Fetched("bench", 0, bytes(content), aborted=())


def rate(work: Callable[[], object], rows: int, runs: int) -> float:
    """Millions of rows a second, of the best run: what else the machine does can only slow it down."""
    work()
    best = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return rows / best / 1e6


def decoding(value_bytes: int, runs: int) -> dict[str, float]:
    plain, with_headers = rows_of(value_bytes), rows_of(value_bytes, headers=True)
    figures = {}
    for name, rows, columns, codec, batch_bytes in (
        ("key, value, offset, timestamp", plain, FOUR, Codec.NONE, 1_000_000),
        ("the same, batches of 16 kB", plain, FOUR, Codec.NONE, 16_384),
        ("the same, lz4", plain, FOUR, Codec.LZ4, 1_000_000),
        ("the same, zstd", plain, FOUR, Codec.ZSTD, 1_000_000),
        ("seven columns", plain, COLUMNS_BY_DEFAULT, Codec.NONE, 1_000_000),
        ("eight, two headers in each row", with_headers, COLUMNS, Codec.NONE, 1_000_000),
    ):
        answer, decoder = fetched(rows, codec, batch_bytes), RecordDecoder(columns)
        work = lambda decoder=decoder, answer=answer: decoder.decode(answer)  # noqa: E731
        figures[f"decode {value_bytes} B: {name}"] = rate(work, rows.num_rows, runs)
    return figures


def encoding(value_bytes: int, runs: int) -> dict[str, float]:
    figures = {}
    for name, rows, codec in (
        ("key, value, timestamp", rows_of(value_bytes), Codec.NONE),
        ("the same, lz4", rows_of(value_bytes), Codec.LZ4),
        ("and two headers", rows_of(value_bytes, headers=True), Codec.NONE),
    ):
        partitioner, encoder = Partitioner({"bench": 8}), RecordEncoder(codec)
        work = lambda rows=rows, partitioner=partitioner, encoder=encoder: encoder.encode(  # noqa: E731
            rows, partitioner.place(rows, "bench"), NOW
        )
        figures[f"partition and encode {value_bytes} B: {name}"] = rate(work, rows.num_rows, runs)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spark_codec", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    for value_bytes in (100, 1000):
        for work in (decoding, encoding):
            for name, millions in work(value_bytes, options.runs).items():
                print(f"{name:60} {millions:6.1f} M rows/s {millions * value_bytes:8.0f} MB/s", flush=True)


if __name__ == "__main__":
    main()
