"""Delta tables as archives: the files that a version's log names, read by pyarrow in the tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.base.types import TopicPartition
from ottla.spark.lake.archives import ArchivedFile, ArchiveOptions, Bounds
from ottla.spark.lake.delta import storage_options
from ottla.spark.lake.marks import end_of
from ottla.spark.lake.parquet_files import batches_of
from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class DeltaFileReader:
    root: str
    storage: Mapping[str, str]

    def batches(self, file: ArchivedFile, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        files = PyFileSystem(DeltaStorageHandler(self.root, dict(self.storage)))
        return batches_of(files, file.path, columns, file.detail)


class DeltaArchive:
    def __init__(self, table: "DeltaTable", storage: Mapping[str, str]) -> None:
        self._table = table
        self.version = str(table.version())
        self.columns = frozenset(field.name for field in table.schema().fields)
        self.reader = DeltaFileReader(table.table_uri, storage)
        self.files = _files(table)

    def end(self, place: TopicPartition) -> int | None:
        return self._table.transaction_version(end_of(place))


def open_delta(options: ArchiveOptions, version: str | None) -> DeltaArchive:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    storage = storage_options(options.given)
    wanted = None if version is None else int(version)
    try:
        table = DeltaTable(options.name, version=wanted, storage_options=storage)
    except TableNotFoundError:
        raise NotReady(
            f"there is no Delta table at {options.name}. An archive is made by a pipeline, "
            "CREATE TABLE … USING delta WITH (path = …) AS SELECT * FROM a stream of the format raw"
        ) from None
    except DeltaError as failure:
        raise NotReady(f"version {version} of the Delta table at {options.name} cannot be read: {failure}") from None
    _refuse_what_hides_rows(table, options.name)
    return DeltaArchive(table, storage)


def _refuse_what_hides_rows(table: "DeltaTable", name: str) -> None:
    """Files that do not say by themselves which of their rows count, or what their columns are called."""
    import pyarrow as pa

    features = set(table.protocol().reader_features or ())
    if "columnMapping" in features:
        raise NotReady(f"the Delta table at {name} gives its columns other names in its files (columnMapping)")
    if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
        raise NotReady(
            f"rows of the Delta table at {name} are deleted by deletion vectors, which are not read here; "
            "whoever wrote them can rewrite the files (REORG TABLE … APPLY (PURGE))"
        )


def _files(table: "DeltaTable") -> list[ArchivedFile]:
    import pyarrow as pa

    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    found.sort(key=lambda row: (row["modification_time"], row["path"]))
    return [
        ArchivedFile(
            path=row["path"],
            size=row["size_bytes"],
            row_count=row["num_records"],
            partitions=_bounds(row, "partition"),
            offsets=_bounds(row, "offset"),
            detail={name.removeprefix("partition."): value for name, value in row.items() if _is_value(name)},
        )
        for row in found
    ]


def _is_value(name: str) -> bool:
    """Of a column by which the table is partitioned, and which its files need not have."""
    return name.startswith("partition.")


def _bounds(row: Mapping[str, Any], column: str) -> Bounds | None:
    if (value := row.get(f"partition.{column}")) is not None:
        return Bounds(int(value), int(value))
    low, high = row.get(f"min.{column}"), row.get(f"max.{column}")
    return None if low is None or high is None else Bounds(low, high)
