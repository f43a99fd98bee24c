"""What DuckDB generates for a benchmark by one of its extensions, in an environment of its own: the tables as Parquet files, the queries, and their rows."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import duckdb

MEMORY = "4GB"


@contextmanager
def generated(extension: ModuleType, name: str, generator: str, scale: str, target: Path) -> Iterator["duckdb.DuckDBPyConnection"]:
    """Generate the tables in a database of the folder, which exists only within; write `<table>.parquet` of each.

    Args:
        extension: The package that has the extension, so that DuckDB downloads nothing.
        name: The name of the extension.
        generator: The function of the extension that generates the tables.
        scale: The scale factor.
        target: The folder, which is created.
    """
    (library,) = Path(next(iter(extension.__path__))).rglob("*.duckdb_extension")
    target.mkdir(parents=True, exist_ok=True)
    database = target / f"{name}.duckdb"
    database.unlink(missing_ok=True)  # of a run that was interrupted
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.load_extension(str(library))
        connection.execute(f"CALL {generator}(sf = ?)", [float(scale)])
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.table(table).write_parquet(str(target / f"{table}.parquet"))
        yield connection
    database.unlink()


def queries_by(connection: "duckdb.DuckDBPyConnection", name: str) -> list[str]:
    """Return the texts of the queries that the extension `name` has, in the order of their numbers."""
    return [query for (query,) in connection.execute(f"SELECT query FROM {name}_queries() ORDER BY query_nr").fetchall()]


def write_expected(connection: "duckdb.DuckDBPyConnection", queries: Sequence[str], target: Path, name: str) -> None:
    """Write the rows of each query, as `<name>-<number>.parquet`."""
    for number, query in enumerate(queries, 1):
        connection.sql(query).write_parquet(str(target / f"{name}-{number}.parquet"))


def finish(engine: str, queries: Sequence[str], target: Path) -> None:
    """Write `queries.json`, without which the folder is made again, and print the result of the child process."""
    (target / "queries.json").write_text(json.dumps(queries))
    print(json.dumps({"engine": engine, "queries": len(queries)}))
