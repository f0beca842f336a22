"""Lake tables that are written twice with one batch, as after a failure between the commit and its note."""

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.spark.lake.tables import BatchMark, LakeTable, open_table
from ottla.spark.sink.exactly_once import WrongBatch


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
    assert lake.append_once(rows(1, 2), BatchMark("query a", 0))
    assert not table(kind, tmp_path).append_once(rows(1, 2), BatchMark("query a", 0))
    assert lake.append_once(rows(3), BatchMark("query a", 1))
    assert not lake.append_once(rows(3), BatchMark("query a", 1))
    assert contents(kind, tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_checkpoint_that_was_set_back_is_refused(kind: str, tmp_path: Path) -> None:
    lake = table(kind, tmp_path)
    for number, digest in ((0, 11), (1, 12)):
        assert lake.append_once(rows(number), BatchMark("query a", number, digest))
    with pytest.raises(WrongBatch, match="batch 1 of query query a is in the table, and batch 0 is to come"):
        lake.append_once(rows(0), BatchMark("query a", 0, 11))
    with pytest.raises(WrongBatch, match="other offsets"):
        lake.append_once(rows(7), BatchMark("query a", 1, 13))
    assert not lake.append_once(rows(1), BatchMark("query a", 1, 12))
    assert contents(kind, tmp_path) == [0, 1]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_queries_do_not_take_each_others_batches_for_theirs(kind: str, tmp_path: Path) -> None:
    lake = table(kind, tmp_path)
    assert lake.append_once(rows(1), BatchMark("query a", 5)) and lake.append_once(rows(2), BatchMark("query b", 5))
    assert contents(kind, tmp_path) == [1, 2]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_empty_batch_makes_no_commit(kind: str, tmp_path: Path) -> None:
    assert not table(kind, tmp_path).append_once(rows(), BatchMark("query a", 0))
    assert list(tmp_path.iterdir()) == []
