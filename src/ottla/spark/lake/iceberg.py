"""Iceberg tables, written by `pyiceberg`. The last batch of each query stands in the table's properties.

A snapshot's own properties go when it expires; those of the table stay, and are set in the commit that appends.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_CATALOG = "catalog."
_MARK = "ottla.batch."
_BATCH = "ottla.batch"


class IcebergTableSink:
    """Options: `table` (namespace.name), `catalog` (its name), and `catalog.*` as pyiceberg wants them.

    Without any of the latter it is a catalog in SQLite beside the tables, in `path` or `lake` below the project.
    """

    def __init__(self, options: Mapping[str, str], directory: Path) -> None:
        self._name = options["table"]
        self._catalog = options.get("catalog", "ottla")
        given = {name.removeprefix(_CATALOG): value for name, value in options.items() if name.startswith(_CATALOG)}
        self._warehouse = directory / options.get("path", "lake")
        self._is_local = not given
        self._properties = given or {
            "type": "sql",
            "uri": f"sqlite:///{self._warehouse}/catalog.db",
            "warehouse": self._warehouse.as_uri(),
        }

    def append_once(self, rows: "pa.Table", application: str, version: int) -> bool:
        if not rows.num_rows:
            return False
        table = self._table(rows.schema)
        mark = _MARK + application
        if int(table.properties.get(mark, -1)) >= version:
            return False
        with table.transaction() as transaction:
            transaction.append(rows, snapshot_properties={_BATCH: f"{application}:{version}"})
            transaction.set_properties({mark: str(version)})
        return True

    def _table(self, schema: "pa.Schema") -> Any:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

        if self._is_local:
            self._warehouse.mkdir(parents=True, exist_ok=True)
        catalog = load_catalog(self._catalog, **self._properties)
        try:
            return catalog.load_table(self._name)
        except NoSuchTableError:
            pass
        namespace = self._name.rpartition(".")[0]
        if namespace:
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(namespace)
        return catalog.create_table(self._name, schema)
