"""Lake tables that take each batch once: a commit carries the query and the number of the batch it came from."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.spark.not_ready import NotReady

if TYPE_CHECKING:
    import pyarrow as pa


class LakeTable(Protocol):
    def append_once(self, rows: "pa.Table", application: str, version: int) -> bool:
        """Append unless this version of the application, or a later one, is there; returns whether it was written."""


def open_table(kind: str, options: Mapping[str, str], directory: Path) -> LakeTable:
    """Opens nothing yet; raises `NotReady` if the package for this kind of table is missing."""
    package = {"delta": "deltalake", "iceberg": "pyiceberg"}[kind]
    if find_spec(package) is None:
        raise NotReady(f"{kind} tables need the package {package}: pip install 'ottla[lake]'")
    if kind == "delta":
        from ottla.spark.lake.delta import DeltaTableSink

        return DeltaTableSink(options)
    from ottla.spark.lake.iceberg import IcebergTableSink

    return IcebergTableSink(options, directory)
