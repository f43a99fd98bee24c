"""What the benchmarks on Spark stand on: a catalog of tables kept from run to run, or made anew, and a session that the first is attached to."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import measure
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.start_session import session


def lake_in(folder: Path, name: str = "bench") -> SqlCatalog:
    """A catalog on SQLite in the folder, with the namespace `bench`."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    if not catalog.namespace_exists("bench"):
        catalog.create_namespace("bench")
    return catalog


def new_lake_in(folder: Path, name: str = "bench") -> SqlCatalog:
    """The same, in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return lake_in(folder, name)


@contextmanager
def session_with_lake(benchmark: str) -> Iterator[tuple[SparkSession, SqlCatalog, Path]]:
    """A session, the benchmark's catalog, attached as `lake`, and the folder of both."""
    folder = measure.BUILD / benchmark
    catalog = lake_in(folder)
    spark = session()
    try:
        attach(spark, "lake", catalog)
        yield spark, catalog, folder
    finally:
        spark.stop()
