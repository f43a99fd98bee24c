"""Upserts and added files compared with other engines: the same rows, counts, partitions and metrics; the other engines read the tables."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
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
def test_an_upsert_has_the_same_result_as_in_pyiceberg(tmp_path: Path, pyiceberg: Callable[..., str], options: dict[str, Any]) -> None:
    table = make(tmp_path, 2, "copy-on-write")
    table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    ours = table.upsert(pa.Table.from_pylist(CHANGES, schema=SCHEMA), **options)
    pyiceberg_result = json.loads(pyiceberg(UPSERT, str(tmp_path), json.dumps(ROWS), json.dumps(CHANGES), json.dumps(options)))
    assert [ours.rows_updated, ours.rows_inserted] == pyiceberg_result["counts"]
    assert comparable(table.scan().to_arrow().to_pylist()) == comparable(pyiceberg_result["rows"])


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
    """Return a table with rows of Icefloe and of added files, one by PyArrow and one by DuckDB, upserted twice."""
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


def test_others_read_upserted_tables_and_added_files_as_icefloe_does(
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


JAVA_FILES = """
import json
spark.sql("CREATE NAMESPACE IF NOT EXISTS j.db")
spark.sql("CREATE TABLE j.db.added (id BIGINT, value DOUBLE, name STRING, `on` DATE, n DECIMAL(12, 3), part STRING) USING iceberg PARTITIONED BY (part)")
spark.createDataFrame([(n, n / 8, str(n), None) for n in range(9)], "id long, value double, name string, `on` date").coalesce(1).write.parquet(
    sys.argv[1] + "/in/part=c")
spark.sql("CALL j.system.add_files(table => 'db.added', source_table => '`parquet`.`" + sys.argv[1] + "/in`')")
columns = ["file_path", "record_count", "file_size_in_bytes", "partition", "column_sizes", "value_counts", "null_value_counts",
           "lower_bounds", "upper_bounds"]
for row in spark.table("j.db.added.files").select(*columns).collect():
    found = row.asDict(recursive=True)
    for name in ("lower_bounds", "upper_bounds"):
        found[name] = {key: bytes(value).hex() for key, value in (found[name] or {}).items()}
    print("FILE " + json.dumps(found))
print("READING " + json.dumps([row.asDict() for row in spark.table("j.db.added").collect()], default=str))
"""


def write_inputs(folder: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("value", pa.float64()), ("name", pa.string()), ("on", pa.date32()), ("n", pa.decimal128(12, 3))]
    )
    for number in range(6):
        rows = [
            {
                "id": number * 10 + n,
                "value": None if n == 0 else n / 8 - number,
                "name": "kiwi" * number * 5 if n else None,
                "on": dt.date(1969, 12, 30) + dt.timedelta(days=n),
                "n": Decimal(n * 1001).scaleb(-3) - number,
            }
            for n in range(4)
        ]
        path = folder / f"part={'ab'[number % 2]}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=3)


def test_added_files_have_the_metrics_and_partitions_that_java_gives_them(tmp_path: Path, java_script: Callable[..., str]) -> None:
    """The files are by PyArrow and by Spark. Split offsets are not compared: Java writes none for added files."""
    write_inputs(tmp_path / "in")
    printed = java_script(JAVA_FILES, str(tmp_path))
    files = [json.loads(line[5:]) for line in printed.splitlines() if line.startswith("FILE ")]
    java = {found["file_path"].rsplit("/", 1)[1]: found for found in files}
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("value", pa.float64()),
            ("name", pa.string()),
            ("on", pa.date32()),
            ("n", pa.decimal128(12, 3)),
            ("part", pa.string()),
        ]
    )
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "ours"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema, partition_spec=["part"])
    table.add_files(f"{tmp_path}/in/**/*.parquet")
    ours = [
        entry.data_file for manifest in table.current_snapshot().manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
    ]
    assert len(ours) == len(java) == 7
    for file in ours:
        other = java[file.file_path.rsplit("/", 1)[1]]
        assert (file.record_count, file.file_size_in_bytes) == (other["record_count"], other["file_size_in_bytes"])
        assert tuple(file.partition) == (other["partition"]["part"],)
        for name in ("column_sizes", "value_counts", "null_value_counts"):
            assert dict(getattr(file, name)) == {int(key): value for key, value in other[name].items()}, (name, file.file_path)
        for name in ("lower_bounds", "upper_bounds"):
            found = {key: value.hex() for key, value in getattr(file, name).items()}
            assert found == {int(key): value for key, value in other[name].items()}, (name, file.file_path)
    assert readings(printed) == [comparable(table.scan().to_arrow().to_pylist())]
