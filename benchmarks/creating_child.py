"""Child process of `creating.py`: starts a session and creates tables of five rows, or writes as many rows as Parquet; prints the times as JSON."""

import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.start_session import session

LATER = 9  # statements after the first
ROWS = "SELECT id, CAST(id AS STRING) AS text FROM range(5)"


def main(side: str) -> None:
    """Measure one side in a session of its own."""
    started = time.perf_counter()
    with TemporaryDirectory() as name:
        folder = Path(name)
        spark = session()
        if side == "icefloe":
            catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
            catalog.create_namespace("bench")
            attach(spark, "lake", catalog)
        ready = time.perf_counter()

        def create(number: int) -> float:
            begun = time.perf_counter()
            if side == "icefloe":
                spark.sql(f"CREATE TABLE lake.bench.t{number} USING iceberg AS {ROWS}")
            else:
                spark.sql(ROWS).write.parquet(str(folder / f"t{number}"))
            return time.perf_counter() - begun

        first = create(0)
        later = [create(number) for number in range(1, 1 + LATER)]
        spark.stop()
    print(json.dumps({"start": ready - started, "first": first, "later": statistics.median(later)}))


if __name__ == "__main__":
    main(sys.argv[2])
