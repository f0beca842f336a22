"""Iceberg tables as archives: the files of a snapshot, read by pyiceberg in the tasks, which heeds deletions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base.types import TopicPartition
from ottla.spark.lake.archives import ArchivedFile, ArchiveOptions, Bounds
from ottla.spark.lake.iceberg import open_catalog
from ottla.spark.lake.marks import end_of
from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = "none"
"""The version of a table without a snapshot."""


@dataclass(frozen=True)
class IcebergFileReader:
    metadata: Any
    io: Any

    def batches(self, file: ArchivedFile, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        schema = self.metadata.schema().select(*columns)
        return iter(ArrowScan(self.metadata, self.io, schema, AlwaysTrue()).to_record_batches([file.detail]))


class IcebergArchive:
    def __init__(self, table: Any, snapshot: int | None) -> None:
        self._properties: Mapping[str, str] = table.properties
        self.version = _NOTHING if snapshot is None else str(snapshot)
        self.columns = frozenset(field.name for field in table.schema().fields)
        # Readers need one snapshot's files, which are told, and not the history of all others.
        self.reader = IcebergFileReader(table.metadata.model_copy(update={"snapshots": [], "refs": {}}), table.io)
        self.files = [] if snapshot is None else _files(table, snapshot)

    def end(self, place: TopicPartition) -> int | None:
        end = self._properties.get(end_of(place))
        return None if end is None else int(end)


def open_iceberg(options: ArchiveOptions, directory: Path, version: str | None) -> IcebergArchive:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = open_catalog(options.given, directory).load_table(options.name)
    except NoSuchTableError:
        raise NotReady(
            f"there is no Iceberg table {options.name} in this catalog. An archive is made by a pipeline, "
            "CREATE TABLE … USING iceberg WITH (table = …) AS SELECT * FROM a stream of the format raw"
        ) from None
    if version is None:
        now = table.current_snapshot()
        return IcebergArchive(table, None if now is None else now.snapshot_id)
    if version == _NOTHING:
        return IcebergArchive(table, None)
    if table.snapshot_by_id(int(version)) is None:
        raise NotReady(f"snapshot {version} of the Iceberg table {options.name} has expired")
    return IcebergArchive(table, int(version))


def _files(table: Any, snapshot: int) -> list[ArchivedFile]:
    """Ordered by when they were written: offsets alone would not do where partitions have come differently far."""
    written = {
        entry["data_file"]["file_path"]: entry["sequence_number"] or 0
        for entry in table.inspect.entries(snapshot_id=snapshot).select(["data_file", "sequence_number"]).to_pylist()
    }
    schema = table.schema()
    found = [
        ArchivedFile(
            path=task.file.file_path,
            size=task.file.file_size_in_bytes,
            row_count=task.file.record_count,
            partitions=_bounds(schema, task.file, "partition"),
            offsets=_bounds(schema, task.file, "offset"),
            detail=task,
        )
        for task in table.scan(snapshot_id=snapshot).plan_files()
    ]
    return sorted(found, key=lambda file: (written.get(file.path, 0), file.path))


def _bounds(schema: Any, file: Any, column: str) -> Bounds | None:
    from pyiceberg.conversions import from_bytes

    field = next((field for field in schema.fields if field.name == column), None)
    if field is None or field.field_id not in file.lower_bounds or field.field_id not in file.upper_bounds:
        return None
    low, high = (from_bytes(field.field_type, side[field.field_id]) for side in (file.lower_bounds, file.upper_bounds))
    return Bounds(int(low), int(high))
