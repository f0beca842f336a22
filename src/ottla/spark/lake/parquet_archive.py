"""What Spark's file sink has written, as an archive: the files that its log in `_spark_metadata` names, and no others.

The log only grows, so a version of it is a number of files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ottla.base.types import TopicPartition
from ottla.spark.lake.archives import ArchivedFile, ArchiveOptions
from ottla.spark.lake.parquet_files import batches_of
from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

_LOG, _COMPACT = "_spark_metadata", ".compact"


@dataclass(frozen=True)
class ParquetFileReader:
    root: str

    def batches(self, file: ArchivedFile, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        files, _ = _file_system(self.root)
        return batches_of(files, file.path, columns, file.detail)


class ParquetArchive:
    def __init__(self, root: str, files: list[ArchivedFile]) -> None:
        self._root = root
        self.version = str(len(files))
        self.files = files
        self.reader = ParquetFileReader(root)

    @cached_property
    def columns(self) -> frozenset[str]:
        """Those of the last file; of no file, none is missing."""
        import pyarrow.parquet as pq

        from ottla.spark.arrow.schema import COLUMNS

        if not self.files:
            return frozenset(COLUMNS)
        last = self.files[-1]
        files, _ = _file_system(self._root)
        with files.open_input_file(last.path) as source:
            return frozenset([*pq.read_schema(source).names, *last.detail])

    def end(self, place: TopicPartition) -> int | None:
        return None


def open_parquet(options: ArchiveOptions, version: str | None) -> ParquetArchive:
    from pyarrow.fs import FileSelector

    files, root = _file_system(options.name)
    try:
        names = [info.base_name for info in files.get_file_info(FileSelector(f"{root}/{_LOG}"))]
    except FileNotFoundError:
        raise NotReady(
            f"{options.name} was not written by a streaming query of Spark (there is no {_LOG}), so it does not say "
            "which of its files count"
        ) from None
    found = [file for name in _newest(names) for file in _files_in(files, f"{root}/{_LOG}/{name}", root)]
    return ParquetArchive(options.name, found if version is None else found[: int(version)])


def _newest(names: Sequence[str]) -> list[str]:
    """The last file that sums up all before it, and those behind it."""
    sums = [int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT)]
    last = max(sums, default=-1)
    behind = sorted(int(name) for name in names if name.isdecimal() and int(name) > last)
    return [*([f"{last}{_COMPACT}"] if sums else []), *map(str, behind)]


def _files_in(files: "FileSystem", path: str, root: str) -> Iterator[ArchivedFile]:
    with files.open_input_stream(path) as stream:
        lines = stream.read().decode().splitlines()
    for line in lines[1:]:
        entry = json.loads(line)
        if entry["action"] == "add":
            place = unquote(urlsplit(entry["path"]).path)
            yield ArchivedFile(place, entry["size"], detail=_values_in(place, root))


def _values_in(path: str, root: str) -> Mapping[str, str]:
    """Of the columns by which the directories are named: `…/topic=orders/part-0.parquet`."""
    below = path.rpartition(f"{root.rstrip('/').rpartition('/')[2]}/")[2].split("/")[:-1]
    pairs = (name.split("=", 1) for name in below if "=" in name)
    return {name: unquote(value) for name, value in pairs}


def _file_system(place: str) -> tuple["FileSystem", str]:
    from pyarrow import fs

    if "://" not in place:
        return fs.LocalFileSystem(), place
    files, path = fs.FileSystem.from_uri(place)
    return files, path
