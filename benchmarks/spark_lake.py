"""The catalogs and the session of the Spark benchmarks: a catalog that is kept between runs, or a new one, and a session that has it."""

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
    """Open a SQLite catalog in the folder, with the namespace `bench`."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    if not catalog.namespace_exists("bench"):
        catalog.create_namespace("bench")
    return catalog


def new_lake_in(folder: Path, name: str = "bench") -> SqlCatalog:
    """Open a new catalog in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return lake_in(folder, name)


@contextmanager
def session_with_lake(benchmark: str, **settings: str) -> Iterator[tuple[SparkSession, SqlCatalog, Path]]:
    """Start a session; return it, the catalog of the benchmark, which is attached as `lake`, and their folder."""
    folder = measure.BUILD / benchmark
    catalog = lake_in(folder)
    spark = session(**settings)
    try:
        attach(spark, "lake", catalog)
        yield spark, catalog, folder
    finally:
        spark.stop()
