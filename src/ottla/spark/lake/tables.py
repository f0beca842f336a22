"""Lake tables that take each batch once: a commit carries the query and the number of the batch it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.base.types import TopicPartition
from ottla.spark.not_ready import NotReady
from ottla.spark.sink.exactly_once import WrongBatch

if TYPE_CHECKING:
    import pyarrow as pa

_PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}


@dataclass(frozen=True)
class BatchMark:
    """What a table notes of a batch, in the commit that brings its rows."""

    application: str
    version: int
    """Which batch of which query it is."""
    digest: int = 0
    """Tells batches of one number apart, as after a checkpoint was restored; 0 if nobody knows."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """How far its topics are read with it: only what has moved."""

    def is_written(self, version: int | None, digest: int | None) -> bool:
        """By the last version, and its digest, that the table has of this application. Raises `WrongBatch`."""
        if version is None or version < self.version:
            return False
        if version > self.version:
            raise WrongBatch(
                f"batch {version} of query {self.application} is in the table, and batch {self.version} is to come now"
            )
        if digest and self.digest and digest != self.digest:
            raise WrongBatch(f"batch {version} of query {self.application} is in the table with other offsets")
        return True


class LakeTable(Protocol):
    def append_once(self, rows: "pa.Table", mark: BatchMark) -> bool:
        """Append unless this batch is there; returns whether it was written. Raises `WrongBatch`."""


def open_table(kind: str, options: Mapping[str, str], directory: Path) -> LakeTable:
    """Opens nothing yet; raises `NotReady` if the package for this kind of table is missing."""
    need_package_of(kind)
    if kind == "delta":
        from ottla.spark.lake.delta import DeltaTableSink

        return DeltaTableSink(options)
    from ottla.spark.lake.iceberg import IcebergTableSink

    return IcebergTableSink(options, directory)


def need_package_of(kind: str) -> None:
    package = _PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise NotReady(f"{kind} tables need the package {package}: pip install 'ottla[lake]'")
