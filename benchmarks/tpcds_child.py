"""Child process that writes the tables, queries and expected rows of TPC-DS with DuckDB: `tpcds_child.py duckdb SCALE FOLDER`.

The folder gets `<table>.parquet` for each of the 24 tables, `queries.json` (the texts of the 99 queries), and DuckDB's rows of each query:
`expected-<n>.parquet`.
"""

import sys
from pathlib import Path

import duckdb_extension_tpcds

from benchmarks.duckdb_files import finish, generated, queries_by, write_expected


def main(engine: str, scale: str, folder: str) -> None:
    """Generate the data, and run each query on it."""
    target = Path(folder)
    with generated(duckdb_extension_tpcds, "tpcds", "dsdgen", scale, target) as connection:
        queries = queries_by(connection, "tpcds")
        write_expected(connection, queries, target, "expected")
    finish(engine, queries, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
