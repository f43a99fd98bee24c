"""Child process of the benchmark `changelog_views`: one side reads the changes of a small table and of the other one; prints the times and a digest.

Arguments: the side (`icefloe` or `java`), the metadata file and the start of the table, those of the small table.
"""

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.changes import run_query
from benchmarks.compaction_child import timed
from benchmarks.converting_child import session_of

VIEW = """CALL lake.system.create_changelog_view(table => '{0}', changelog_view => '{1}', options => map('start-snapshot-id', '{2}'),
    compute_updates => true, identifier_columns => array('id'))"""


def main(side: str, large: str, start: str, small: str, small_start: str) -> None:
    """Read the changes of the small table, then those of the other one."""
    scratch = Path(mkdtemp(prefix="changelog-", dir=Path.cwd()))
    spark, register = session_of(side, scratch)
    try:
        for name, metadata, first in (("small", small, small_start), ("large", large, start)):
            register(f"bench.{name}", metadata)
            spark.sql(VIEW.format(f"bench.{name}", f"changes_of_{name}", first)).collect()
            taken = timed(partial(run_query, partial(spark.table, f"changes_of_{name}")))
        digest = spark.sql(
            "SELECT _change_type, count(*), sum(id), sum(CAST(amount AS DECIMAL(20, 4))), sum(crc32(note)) FROM changes_of_large GROUP BY 1 ORDER BY 1"
        ).collect()
        print(json.dumps({**taken, "rows": str(digest)}))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
