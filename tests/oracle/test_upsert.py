"""Upserts beside PyIceberg's: the same rows and counts; and upserted tables, with files that others made, as other engines read them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracle.conftest import run
from tests.oracle.rows import comparable

from icefloe import SqlCatalog, Table

pytestmark = pytest.mark.oracle

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("tags", pa.list_(pa.string()))])
ROWS = [{"id": n, "part": "ab"[n % 2], "value": n / 4, "tags": [str(n), "x"]} for n in range(40)]
CHANGES = [{"id": n, "part": "ab"[n % 2], "value": n / 4 + n % 3, "tags": [str(n), "x"]} for n in range(20, 60)]

UPSERT = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
folder, rows, changes, options = sys.argv[1], *map(json.loads, sys.argv[2:5])
schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("tags", pa.list_(pa.string()))])
catalog = SqlCatalog("p", uri=f"sqlite:///{folder}/p.db", warehouse=folder)
catalog.create_namespace("p")
table = catalog.create_table("p.t", schema)
table.append(pa.Table.from_pylist(rows, schema=schema))
result = table.upsert(pa.Table.from_pylist(changes, schema=schema), **options)
print(json.dumps({"counts": [result.rows_updated, result.rows_inserted], "rows": table.scan().to_arrow().to_pylist()}))
"""


def make(folder: Path, version: int, mode: str, spec: tuple[str, ...] = ()) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": str(version), "write.merge.mode": mode})


@pytest.mark.parametrize(
    "options",
    [
        {"join_cols": ["id"]},
        {"join_cols": ["id", "part"]},
        {"join_cols": ["id"], "when_matched_update_all": False},
        {"join_cols": ["id"], "when_not_matched_insert_all": False},
    ],
)
def test_an_upsert_does_what_pyicebergs_does(tmp_path: Path, pyiceberg: Callable[..., str], options: dict[str, Any]) -> None:
    table = make(tmp_path, 2, "copy-on-write")
    table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    ours = table.upsert(pa.Table.from_pylist(CHANGES, schema=SCHEMA), **options)
    theirs = json.loads(pyiceberg(UPSERT, str(tmp_path), json.dumps(ROWS), json.dumps(CHANGES), json.dumps(options)))
    assert [ours.rows_updated, ours.rows_inserted] == theirs["counts"]
    assert comparable(table.scan().to_arrow().to_pylist()) == comparable(theirs["rows"])


FORMS = [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]

BY_JAVA = """
import json
for path in {paths}:
    found = spark.read.format("iceberg").load(path).collect()
    print("READING " + json.dumps([row.asDict(recursive=True) for row in found], default=str))
"""

BY_PYICEBERG = """
import json, sys
from pyiceberg.table import StaticTable
for path in sys.argv[1:]:
    print("READING " + json.dumps(StaticTable.from_metadata(path).scan().to_arrow().to_pylist(), default=str))
"""


def readings(printed: str) -> list[list[str]]:
    return [comparable(json.loads(line[8:])) for line in printed.splitlines() if line.startswith("READING ")]


def write_by_duckdb(path: Path, start: int, stop: int) -> None:
    query = f"SELECT i AS id, 'ab'[1 + i % 2] AS part, i / 4.0::DOUBLE AS value, [i::VARCHAR, 'x'] AS tags FROM range({start}, {stop}) t(i)"
    run("duckdb", "-c", "import duckdb, sys; duckdb.sql(sys.argv[1])", f"COPY ({query} WHERE i % 2 = 0) TO '{path}'")


def upserted(folder: Path, version: int, mode: str) -> Table:
    """A table with rows of ours and of added files, one by pyarrow and one by DuckDB, upserted twice."""
    folder.mkdir()
    table = make(folder, version, mode, ("part",))
    table.append(pa.Table.from_pylist(ROWS[:20], schema=SCHEMA))
    pq.write_table(pa.Table.from_pylist([row for row in ROWS[20:] if row["part"] == "b"], schema=SCHEMA), folder / "pyarrow.parquet")
    write_by_duckdb(folder / "duckdb.parquet", 20, 40)
    table.add_files([str(folder / "pyarrow.parquet"), str(folder / "duckdb.parquet")])
    result = table.upsert(pa.Table.from_pylist(CHANGES, schema=SCHEMA), ["id"])
    assert (result.rows_updated, result.rows_inserted) == (13, 20)
    table.upsert(pa.Table.from_pylist([{**row, "value": -1.0} for row in CHANGES[::3]], schema=SCHEMA), ["id"])
    return table


def test_others_read_upserted_tables_and_added_files_as_we_do(
    tmp_path: Path, duckdb_rows: Callable[..., Any], java_script: Callable[..., str], pyiceberg: Callable[..., str]
) -> None:
    tables = [upserted(tmp_path / f"{version}-{mode}", version, mode) for version, mode in FORMS]
    paths = [table.metadata_location for table in tables]
    expected = [comparable(table.scan().to_arrow().to_pylist()) for table in tables]
    model = {row["id"]: row for row in (*ROWS, *CHANGES, *({**row, "value": -1.0} for row in CHANGES[::3]))}
    assert expected == [comparable(list(model.values()))] * len(FORMS)
    assert readings(java_script(BY_JAVA.format(paths=paths), str(tmp_path))) == expected
    assert readings(pyiceberg(BY_PYICEBERG, *paths)) == expected
    for path, wanted in zip(paths[1:], expected[1:], strict=True):
        assert comparable(duckdb_rows(path)) == wanted
