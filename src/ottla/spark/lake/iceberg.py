"""Iceberg tables, written by `pyiceberg`. The last batch of each query stands in the table's properties.

A snapshot's own properties go when it expires; those of the table stay, and are set in the commit that appends.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.lake.marks import digest_of, end_of
from ottla.spark.lake.tables import BatchMark

if TYPE_CHECKING:
    import pyarrow as pa

_CATALOG = "catalog."
_MARK = "ottla.batch."
_BATCH = "ottla.batch"


def open_catalog(options: Mapping[str, str], directory: Path) -> Any:
    """The one that `catalog` and `catalog.*` name, as pyiceberg wants them.

    Without any of the latter it is a catalog in SQLite beside the tables, in `path` or `lake` below the directory.
    """
    from pyiceberg.catalog import load_catalog

    given = {name.removeprefix(_CATALOG): value for name, value in options.items() if name.startswith(_CATALOG)}
    if not given:
        warehouse = (directory / options.get("path", "lake")).absolute()
        warehouse.mkdir(parents=True, exist_ok=True)
        given = {"type": "sql", "uri": f"sqlite:///{warehouse}/catalog.db", "warehouse": warehouse.as_uri()}
    return load_catalog(options.get("catalog", "ottla"), **given)


class IcebergTableSink:
    """Options: `table` (namespace.name), and those of the catalog."""

    def __init__(self, options: Mapping[str, str], directory: Path) -> None:
        self._name = options["table"]
        self._options, self._directory = options, directory

    def append_once(self, rows: "pa.Table", mark: BatchMark) -> bool:
        from pyiceberg.exceptions import NoSuchTableError

        if not rows.num_rows and not mark.ends:
            return False
        catalog = open_catalog(self._options, self._directory)
        try:
            table = catalog.load_table(self._name)
        except NoSuchTableError:
            if not rows.num_rows:
                return False
            table = self._made(catalog, rows.schema)
        name, digest = _MARK + mark.application, digest_of(mark.application)
        if mark.is_written(int(table.properties.get(name, -1)), int(table.properties.get(digest, 0))):
            return False
        with table.transaction() as transaction:
            if rows.num_rows:
                transaction.append(rows, snapshot_properties={_BATCH: f"{mark.application}:{mark.version}"})
            ends = {end_of(place): str(end) for place, end in mark.ends.items()}
            transaction.set_properties({name: str(mark.version), digest: str(mark.digest), **ends})
        return True

    def _made(self, catalog: Any, schema: "pa.Schema") -> Any:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        namespace = self._name.rpartition(".")[0]
        if namespace:
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(namespace)
        return catalog.create_table(self._name, schema)
