"""Delta Lake tables, written by `deltalake`. A commit carries the transaction identifier of Delta's own protocol."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_STORAGE = "storage."


class DeltaTableSink:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = options["path"]
        self._partition_by = [name.strip() for name in options.get("partition.by", "").split(",") if name.strip()]
        self._storage = {
            name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)
        }

    def append_once(self, rows: "pa.Table", application: str, version: int) -> bool:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import TableNotFoundError

        try:
            written = DeltaTable(self._path, storage_options=self._storage).transaction_version(application)
        except TableNotFoundError:
            written = None
        if (written is not None and written >= version) or not rows.num_rows:
            return False
        write_deltalake(
            self._path,
            rows,
            mode="append",
            partition_by=self._partition_by or None,
            storage_options=self._storage,
            commit_properties=CommitProperties(app_transactions=[Transaction(application, version)]),
        )
        return True
