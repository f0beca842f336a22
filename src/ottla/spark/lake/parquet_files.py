"""Rows of a Parquet file, wherever it lies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

_BATCH_ROWS = 50_000


def batches_of(
    files: "FileSystem", path: str, columns: Sequence[str], values: Mapping[str, Any] | None = None
) -> Iterator["pa.RecordBatch"]:
    """`values`: of columns that the file itself need not have, because its table is partitioned by them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    outside = {name: value for name, value in (values or {}).items() if name in columns}
    inside = [name for name in columns if name not in outside]
    with files.open_input_file(path) as source, pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=inside):
            arrays = {name: batch.column(name) for name in inside}
            arrays |= {name: pa.repeat(pa.scalar(value), batch.num_rows) for name, value in outside.items()}
            yield pa.RecordBatch.from_pydict(arrays)
