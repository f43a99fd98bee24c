"""Child process that creates a table and upserts rows; it prints seconds and counts as JSON and runs in the engine's Python environment.

python upsert_child.py ENGINE FOLDER TABLE_ROWS ROWS arrow|spark|spark-again|spark-tasks|spark-read

With `spark-again` the session has run one upsert into another table, with `spark-tasks` Spark tasks run the join, however small it is. `spark-read` measures
only how long Spark takes to return the source as Arrow, the first query of its session.
"""

import json
import sys
import time
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql_catalog", "pyiceberg": "pyiceberg.catalog.sql"}
FILES = 10


def rows_of(numbers: range, text: str) -> pa.Table:
    """Return rows with a key, two numbers and two texts, like measurements."""
    count = len(numbers)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "device": pa.array([f"device-{number % 5000}" for number in numbers]),
            "kind": pa.array([text] * count),
            "value": pa.array([number * 0.5 for number in numbers], pa.float64()),
            "count": pa.array([number % 100 for number in numbers], pa.int32()),
        }
    )


def catalog(engine: str, folder: str) -> Any:
    """Open the SQL catalog of the engine, in its own file."""
    made = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog
    return made("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def filled(lake: Any, name: str, rows: int) -> Any:
    """Return a new table of ten files."""
    step = rows // FILES
    table = lake.create_table(name, rows_of(range(1), "old").schema)
    for start in range(0, rows, step):
        table.append(rows_of(range(start, start + step), "old"))
    return table


def main() -> None:
    """Return source rows that are spread over the table: every n-th key of it, and as many new keys."""
    engine, folder, table_rows, rows, by = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    lake = catalog(engine, folder)
    lake.create_namespace("bench")
    table = filled(lake, "bench.t", table_rows)
    known = rows // 2
    source: Any = pa.concat_tables(
        [
            rows_of(range(0, known * (table_rows // known), table_rows // known), "new"),
            rows_of(range(table_rows, table_rows + rows - known), "new"),
        ]
    )
    if by != "arrow":
        spark = import_module("icefloe.spark.runtime.start_session").session(
            {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8"}, master="local[2]"
        )
        pq.write_table(source, f"{folder}/source.parquet")
        source = spark.read.parquet(f"{folder}/source.parquet")
        if by == "spark-tasks":
            vars(import_module("icefloe.operations.rows.upsert"))["MOST_BYTES_HERE"] = -1
        spark.range(10).count()  # the first job of a session is not measured
        if by == "spark-again":
            filled(lake, "bench.other", table_rows).upsert(source, ["id"])
    started = time.perf_counter()
    if by == "spark-read":
        assert source.toArrow().num_rows == rows
        print(json.dumps({"seconds": time.perf_counter() - started}))
        return
    result = table.upsert(source, ["id"])
    taken = time.perf_counter() - started
    print(json.dumps({"seconds": taken, "updated": result.rows_updated, "inserted": result.rows_inserted}))


if __name__ == "__main__":
    main()
