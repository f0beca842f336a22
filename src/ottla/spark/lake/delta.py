"""Delta Lake tables, written by `deltalake`. A commit carries transaction identifiers of Delta's own protocol.

They say which batch of the query it is, by which digest it is known again, and how far each partition is archived.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.spark.lake.marks import digest_of, end_of
from ottla.spark.lake.tables import BatchMark

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_STORAGE = "storage."


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)}


class DeltaTableSink:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = options["path"]
        self._partition_by = [name.strip() for name in options.get("partition.by", "").split(",") if name.strip()]
        self._storage = storage_options(options)

    def append_once(self, rows: "pa.Table", mark: BatchMark) -> bool:
        from deltalake import CommitProperties, Transaction, write_deltalake

        table, digest = self._table(), digest_of(mark.application)
        if table is not None and mark.is_written(
            table.transaction_version(mark.application), table.transaction_version(digest)
        ):
            return False
        ends = [Transaction(end_of(place), end) for place, end in mark.ends.items()]
        batch = [Transaction(mark.application, mark.version), Transaction(digest, mark.digest)]
        commit = CommitProperties(app_transactions=[*batch, *ends])
        if rows.num_rows:
            write_deltalake(
                self._path,
                rows,
                mode="append",
                partition_by=self._partition_by or None,
                storage_options=self._storage,
                commit_properties=commit,
            )
        elif table is not None and ends:
            table.create_write_transaction([], "append", table.schema(), commit_properties=commit)
        else:
            return False
        return True

    def _table(self) -> "DeltaTable | None":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self._path, storage_options=self._storage)
        except TableNotFoundError:
            return None
