"""Child process that writes the tables, queries and expected rows of TPC-H with DuckDB: `tpch_child.py duckdb SCALE FOLDER DELETED`.

The folder gets `<table>.parquet` for each of the eight tables, `queries.json` (the texts of the 22 queries), and DuckDB's rows of each query:
`expected-<n>.parquet` of all rows, `expected-deleted-<n>.parquet` without the lines and orders for which the SQL condition DELETED is true of `orderkey`.
"""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpch

(EXTENSION,) = Path(duckdb_extension_tpch.__file__).parent.rglob("*.duckdb_extension")  # in the package, so that DuckDB downloads nothing
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
MEMORY = "4GB"


def main(engine: str, scale: str, folder: str, deleted: str) -> None:
    """Generate the data, and run each query on it, before and after rows are deleted."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "tpch.duckdb").unlink(missing_ok=True)  # of a run that was interrupted
    with duckdb.connect(str(target / "tpch.duckdb")) as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.load_extension(str(EXTENSION))
        connection.execute("CALL dbgen(sf = ?)", [float(scale)])
        queries = [query for (query,) in connection.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]
        for table in TABLES:
            connection.table(table).write_parquet(str(target / f"{table}.parquet"))
        write_expected(connection, queries, target, "expected")
        for table, prefix in (("lineitem", "l_"), ("orders", "o_")):
            connection.execute(f"DELETE FROM {table} WHERE {deleted.replace('orderkey', f'{prefix}orderkey')}")
        write_expected(connection, queries, target, "expected-deleted")
    (target / "tpch.duckdb").unlink()
    (target / "queries.json").write_text(json.dumps(queries))
    print(json.dumps({"engine": engine, "queries": len(queries)}))


def write_expected(connection: "duckdb.DuckDBPyConnection", queries: list[str], target: Path, name: str) -> None:
    """Write the rows of each query."""
    for number, query in enumerate(queries, 1):
        connection.sql(query).write_parquet(str(target / f"{name}-{number}.parquet"))


if __name__ == "__main__":
    main(*sys.argv[1:])
