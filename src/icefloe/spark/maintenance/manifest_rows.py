"""Manifests as rows of a DataFrame, for jobs whose tasks read manifests. Spec: Manifest Lists."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS

# The number of manifests in a task, if there are many.
MANIFESTS_PER_TASK = 32

_COLUMNS = ("manifest_path", "manifest_length", "added_files_count", "existing_files_count", "deleted_files_count")
_ROWS = StructType([StructField(name, LongType() if place else StringType(), bool(place)) for place, name in enumerate(_COLUMNS)])


def manifest_rows(spark: SparkSession, manifests: Any) -> DataFrame:
    """Return a DataFrame of manifests, divided into tasks. `manifests` is a table with the columns of `MANIFEST_FIELDS`."""
    rows = [tuple(row.values()) for row in manifests.select(_COLUMNS).to_pylist()]
    most = max(spark.sparkContext.defaultParallelism, len(rows) // MANIFESTS_PER_TASK)
    slices = max(1, min(len(rows), most, MOST_SPARK_TASKS))
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, slices), _ROWS)
