"""Child process that writes the tables, queries and expected rows of TPC-H with DuckDB: `tpch_child.py duckdb SCALE FOLDER DELETED`.

The folder gets `<table>.parquet` for each of the eight tables, `queries.json` (the texts of the 22 queries), and DuckDB's rows of each query:
`expected-<n>.parquet` of all rows, `expected-deleted-<n>.parquet` without the lines and orders for which the SQL condition DELETED is true of `orderkey`.
"""

import sys
from pathlib import Path

import duckdb_extension_tpch

from benchmarks.duckdb_files import finish, generated, queries_by, write_expected


def main(engine: str, scale: str, folder: str, deleted: str) -> None:
    """Generate the data, and run each query on it, before and after rows are deleted."""
    target = Path(folder)
    with generated(duckdb_extension_tpch, "tpch", "dbgen", scale, target) as connection:
        queries = queries_by(connection, "tpch")
        write_expected(connection, queries, target, "expected")
        for table, prefix in (("lineitem", "l_"), ("orders", "o_")):
            connection.execute(f"DELETE FROM {table} WHERE {deleted.replace('orderkey', f'{prefix}orderkey')}")
        write_expected(connection, queries, target, "expected-deleted")
    finish(engine, queries, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
