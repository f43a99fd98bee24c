"""Copy-on-write files: sorted in the table's sort order, with its id, also if the replaced file is older than the sort order."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.datafile import copy_data_file


@pytest.fixture(params=["2", "3"])
def table(tmp_path: Path, request: Any) -> Table:
    """Return a table whose only file is older than its sort order."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64()), ("dep", pa.string())]), properties={"format-version": request.param})
    table.append(pa.table({"n": [3, 1, 9, 2], "dep": ["c", "a", "x", "b"]}))
    with table.update_sort_order() as update:
        update.asc("n")
    return table


def rows_and_orders(table: Table) -> tuple[list[int], list[int | None]]:
    return table.scan().to_arrow()["n"].to_pylist(), [task.file.sort_order_id for task in table.scan().plan_files()]


def test_a_copy_is_sorted_and_has_the_id_of_the_sort_order(table: Table) -> None:
    before = {row["n"]: row for row in table.scan().select("n", "dep", "_row_id").to_arrow().to_pylist()}
    table.delete("n = 9")
    assert rows_and_orders(table) == ([1, 2, 3], [1])
    assert {row["n"]: row for row in table.scan().select("n", "dep", "_row_id").to_arrow().to_pylist()} == {
        number: row for number, row in before.items() if number != 9
    }
    table.delete("n = 2")
    assert rows_and_orders(table) == ([1, 3], [1])


def test_a_copy_that_is_too_large_to_sort_keeps_the_row_order_and_sort_order_id(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_data_file, "SORTED_BYTES", 0)
    table.delete("n = 9")
    assert rows_and_orders(table) == ([3, 1, 2], [0])


def test_a_copy_in_a_table_without_a_sort_order_keeps_the_sort_order_id_of_the_file(table: Table) -> None:
    table.delete("n = 9")
    with table.update_sort_order():
        pass
    table.delete("n = 2")
    assert rows_and_orders(table) == ([1, 3], [1])
