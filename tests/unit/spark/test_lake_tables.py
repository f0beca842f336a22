"""Lake tables that are written twice with one batch, as after a failure between the commit and its note."""

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.spark.lake.tables import LakeTable, open_table


def table(kind: str, directory: Path) -> LakeTable:
    options = {"delta": {"path": str(directory / "t")}, "iceberg": {"table": "shop.t", "path": "lake"}}
    return open_table(kind, options[kind], directory)


def contents(kind: str, directory: Path) -> list[int]:
    if kind == "delta":
        from deltalake import DeltaTable

        return sorted(DeltaTable(directory / "t").to_pyarrow_table()["id"].to_pylist())
    from pyiceberg.catalog import load_catalog

    lake = directory / "lake"
    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{lake}/catalog.db", warehouse=lake.as_uri())
    return sorted(catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist())


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_that_comes_again_is_not_written_again(kind: str, tmp_path: Path) -> None:
    lake = table(kind, tmp_path)
    assert lake.append_once(rows(1, 2), "query a", 0)
    assert not table(kind, tmp_path).append_once(rows(1, 2), "query a", 0)
    assert lake.append_once(rows(3), "query a", 1)
    assert not lake.append_once(rows(1, 2), "query a", 0)
    assert contents(kind, tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_queries_do_not_take_each_others_batches_for_theirs(kind: str, tmp_path: Path) -> None:
    lake = table(kind, tmp_path)
    assert lake.append_once(rows(1), "query a", 5) and lake.append_once(rows(2), "query b", 5)
    assert contents(kind, tmp_path) == [1, 2]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_empty_batch_makes_no_commit(kind: str, tmp_path: Path) -> None:
    assert not table(kind, tmp_path).append_once(rows(), "query a", 0)
    assert list(tmp_path.iterdir()) == []
