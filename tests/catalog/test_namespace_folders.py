"""A namespace with the name of a table: both have one folder in the warehouse, and no file of one table is taken for a file of the other."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.catalog import load_catalog
from icefloe.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("name", ["data", "metadata", "t"])
def test_tables_of_a_namespace_in_the_folder_of_a_table_keep_their_files(tmp_path: Path, name: str) -> None:
    with load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse")) as catalog:
        catalog.create_namespace("a")
        catalog.create_namespace("a.b")
        outer, inner = (catalog.create_table(identifier, ROWS.schema) for identifier in ("a.b", f"a.b.{name}"))
        assert inner.location() == f"{outer.location()}/{name}"
        for table in (outer, inner):
            for _ in range(3):
                table.append(ROWS)
            table.delete("id = 2")
        for path in (tmp_path / "warehouse").rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        for table in (outer, inner):
            table.maintenance.remove_orphan_files()
        assert ids(catalog.load_table("a.b")) == ids(catalog.load_table(f"a.b.{name}")) == [1, 1, 1, 3, 3, 3]
        catalog.purge_table("a.b")
        assert ids(catalog.load_table(f"a.b.{name}")) == [1, 1, 1, 3, 3, 3]
        again = catalog.create_table("a.b", ROWS.schema)
        again.append(ROWS)
        catalog.purge_table(f"a.b.{name}")
        assert ids(catalog.load_table("a.b")) == [1, 2, 3]
