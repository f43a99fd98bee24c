"""Child process of the benchmark `merging`: one side merges a source into a table, after small ones; prints the times and the rows.

Arguments: the side (`icefloe` or `java`), the metadata file and the source of the table, those of the small table.
"""

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.compaction_child import timed
from benchmarks.converting_child import session_of

MERGE = """MERGE INTO lake.{0} t USING source s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET price = s.price, comment = s.comment WHEN NOT MATCHED THEN INSERT *"""


def main(side: str, large: str, source: str, small: str, small_source: str) -> None:
    """Merge into the small table, then into the other one."""
    scratch = Path(mkdtemp(prefix="merging-", dir=Path.cwd()))
    spark, register = session_of(side, scratch)
    try:
        for name, metadata, folder in (("bench.small", small, small_source), ("bench.large", large, source)):
            register(name, metadata)
            spark.read.parquet(folder).createOrReplaceTempView("source")
            taken = timed(partial(spark.sql, MERGE.format(name)))
        (rows,) = spark.sql(
            "SELECT count(*), sum(id), sum(CAST(price AS DECIMAL(20, 10))), sum(crc32(comment)) FROM lake.bench.large"
        ).collect()
        print(json.dumps({**taken, "rows": list(map(str, rows))}))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
