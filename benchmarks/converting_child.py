"""Child process of the benchmark `converting`: one side works on a table, after a small one; prints the times and the number of rows.

Arguments: the side (`icefloe` or `java`), the metadata file of the table, that of the small table.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from benchmarks.compaction_child import JAR, SETTINGS, java_session, timed
from benchmarks.spark_lake import new_lake_in
from icefloe.spark import session

CONVERT = "CALL lake.system.convert_equality_deletes(table => '{0}')"
COMPACT = "CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))"

Work = Callable[[str, str], dict[str, float]]


def main(side: str, large: str, small: str) -> None:
    """Work on the small table, then on the other one."""
    scratch = Path(mkdtemp(prefix="converting-", dir=Path.cwd()))
    try:
        work = (_icefloe if side == "icefloe" else _java)(scratch)
        work("bench.small", small)
        print(json.dumps(work("bench.large", large)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _icefloe(scratch: Path) -> Work:
    spark = session(catalogs={"lake": new_lake_in(scratch / "lake", "lake")}, **SETTINGS)

    def register(name: str, metadata: str) -> None:
        spark.sql(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{metadata}')").collect()

    return _by(spark, CONVERT, register)


def _java(scratch: Path) -> Work:
    settings = {
        **SETTINGS,
        "spark.jars.packages": JAR,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(scratch / "lake"),
    }

    def register(name: str, metadata: str) -> None:
        # A Hadoop catalog cannot register tables; its current metadata file is the one that a hint names.
        folder = scratch / "lake" / name.replace(".", "/") / "metadata"
        folder.mkdir(parents=True)
        shutil.copyfile(metadata.removeprefix("file://"), folder / "v1.metadata.json")
        (folder / "version-hint.text").write_text("1")

    return _by(java_session(settings), COMPACT, register)


def _by(spark: SparkSession, call: str, register: Callable[[str, str], None]) -> Work:
    def work(name: str, metadata: str) -> dict[str, float]:
        register(name, metadata)
        taken = timed(lambda: spark.sql(call.format(name)).collect())
        return {**taken, "rows": spark.table(f"lake.{name}").count()}

    return work


if __name__ == "__main__":
    main(*sys.argv[1:])
