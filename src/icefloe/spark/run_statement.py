"""`run_statement`: run one SQL statement on catalogs and return its rows as Arrow, for the command line."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.types.spark_types import quote_name


def run_statement(spark: SparkSession, text: str, catalogs: Mapping[str, Catalog], *, current: str, most: int | None) -> Any:
    """Run a statement in a new session, so that the current catalog of the given session does not change.

    Args:
        spark: A classic session.
        text: The statement.
        catalogs: The catalogs that the statement may use, by name.
        current: The catalog for names without a catalog.
        most: Maximum number of rows to return; None for all.

    Returns:
        A `pyarrow.Table`.

    Raises:
        EngineError: Spark refuses the statement, or fails to run it.
        IcefloeError: A catalog, a table or a task failed.
    """
    own = spark.newSession()
    for name, catalog in catalogs.items():
        attach(own, name, catalog)
    own.sql(f"SET CATALOG {quote_name(current)}")

    def run() -> Any:
        frame = own.sql(text)
        return (frame if most is None else frame.limit(most)).toArrow()

    return run_job(own, "icefloe sql", run)
