"""Transactions of a file-system catalog: they create one table together with its rows, or nothing."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import TableAlreadyExistsError

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)}, schema=SCHEMA)


def test_a_table_is_created_with_its_rows_or_not_at_all(tmp_path: Path) -> None:
    catalog, other = (FileSystemCatalog("folders", warehouse=str(tmp_path)) for _ in range(2))
    catalog.create_namespace("db")
    with catalog.transaction() as tx:
        tx.create_table("db.w", SCHEMA).append(rows(1))
        assert not other.table_exists("db.w")
    table = other.load_table("db.w")
    assert (table.scan().to_arrow()["n"].to_pylist(), len(table.snapshots())) == ([1], 1)
    table.append(rows(2))
    with catalog.transaction() as tx:
        tx.replace_table("db.w", SCHEMA).append(rows(3))
    assert (table.refresh().scan().to_arrow()["n"].to_pylist(), len(table.snapshots())) == ([3], 3)
    with pytest.raises(TableAlreadyExistsError), catalog.transaction() as tx:  # noqa: PT012 the error is that of the commit, at the end
        tx.create_table("db.x", SCHEMA).append(rows(4))
        other.create_table("db.x", SCHEMA)
    assert other.load_table("db.x").scan().to_arrow().num_rows == 0
    assert list((tmp_path / "db" / "x" / "data").rglob("*.parquet")) == []
    with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
        tx.create_table("db.y", SCHEMA).append(rows(1 // 0))
    assert not other.table_exists("db.y")
