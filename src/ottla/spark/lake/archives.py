"""Tables that keep a topic's records, opened for reading at one version: their files, and how far they have come.

Nobody reads them here: tasks do, each its own files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.base.types import TopicPartition
from ottla.spark.lake.tables import need_package_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("delta", "iceberg", "parquet")
_ROW_BYTES = 100
"""Of a row in a file that does not tell how many it has."""


@dataclass(frozen=True)
class ArchiveOptions:
    """Which table: its format, its path (of Iceberg its name), and what that format needs to be told besides."""

    format: str
    name: str
    given: Mapping[str, str] = field(default_factory=dict)


class Bounds(NamedTuple):
    """What the table knows of a column of a file without opening it."""

    low: int
    high: int


@dataclass(frozen=True)
class ArchivedFile:
    path: str
    size: int
    row_count: int | None = None
    partitions: Bounds | None = None
    offsets: Bounds | None = None
    detail: Any = None
    """What the reader of this kind of table wants to know of the file besides."""

    @property
    def rows(self) -> int:
        return max(1, self.size // _ROW_BYTES) if self.row_count is None else self.row_count


class FileReader(Protocol):
    """Travels to the tasks."""

    def batches(self, file: ArchivedFile, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        """These columns, in any order and of any types that can be cast to those of a topic's rows."""


class Archive(Protocol):
    """One version of a table; nothing in it changes, whatever is written meanwhile."""

    @property
    def version(self) -> str:
        """Names it for `open_archive`."""

    @property
    def columns(self) -> frozenset[str]: ...

    @property
    def files(self) -> Sequence[ArchivedFile]:
        """In the order in which they were written."""

    @property
    def reader(self) -> FileReader: ...

    def end(self, place: TopicPartition) -> int | None:
        """The offset that comes next of this partition, as whoever wrote the table has noted it."""


def open_archive(options: ArchiveOptions, version: str | None = None) -> Archive:
    """As it is now, or as it was. Raises `NotReady` with advice where there is no such table."""
    need_package_of(options.format)
    if options.format == "delta":
        from ottla.spark.lake.delta_archive import open_delta

        return open_delta(options, version)
    if options.format == "iceberg":
        from ottla.spark.lake.iceberg_archive import open_iceberg

        return open_iceberg(options, Path.cwd(), version)
    from ottla.spark.lake.parquet_archive import open_parquet

    return open_parquet(options, version)
