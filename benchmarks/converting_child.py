"""Child process of the benchmarks `converting` and `merging_deletes`: one side works on a table, after a small one; prints the times and the number of rows.

Arguments: the side (`icefloe` or `java`), the work (`convert` or `merge`), the metadata file of the table, that of the small table.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from benchmarks.compaction_child import SETTINGS, java_session, java_settings, timed
from benchmarks.spark_lake import new_lake_in
from icefloe.spark import session

MERGE = "CALL lake.system.rewrite_position_delete_files(table => '{0}', options => map('rewrite-all', 'true'))"
CALLS = {
    ("icefloe", "convert"): "CALL lake.system.convert_equality_deletes(table => '{0}')",
    ("java", "convert"): "CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))",
    ("icefloe", "merge"): MERGE,
    ("java", "merge"): MERGE,
}

Work = Callable[[str, str], dict[str, float]]


def main(side: str, kind: str, large: str, small: str) -> None:
    """Work on the small table, then on the other one."""
    scratch = Path(mkdtemp(prefix="converting-", dir=Path.cwd()))
    try:
        work = _by(side, kind, scratch)
        work("bench.small", small)
        print(json.dumps(work("bench.large", large)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _by(side: str, kind: str, scratch: Path) -> Work:
    spark, register = session_of(side, scratch)
    call = CALLS[side, kind]

    def work(name: str, metadata: str) -> dict[str, float]:
        register(name, metadata)
        taken = timed(lambda: spark.sql(call.format(name)).collect())
        return {**taken, "rows": spark.table(f"lake.{name}").count()}

    return work


def session_of(side: str, scratch: Path) -> tuple[SparkSession, Callable[[str, str], None]]:
    """Start a session with a new catalog `lake` of one side; return it, and the function that registers a metadata file under a name."""
    if side == "icefloe":
        spark = session(catalogs={"lake": new_lake_in(scratch / "lake", "lake")}, **SETTINGS)

        def register(name: str, metadata: str) -> None:
            spark.sql(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{metadata}')").collect()

        return spark, register

    def place(name: str, metadata: str) -> None:
        # A Hadoop catalog cannot register tables; its current metadata file is the one that a hint names.
        folder = scratch / "lake" / name.replace(".", "/") / "metadata"
        folder.mkdir(parents=True)
        shutil.copyfile(metadata.removeprefix("file://"), folder / "v1.metadata.json")
        (folder / "version-hint.text").write_text("1")

    return java_session(java_settings(scratch / "lake")), place


if __name__ == "__main__":
    main(*sys.argv[1:])
