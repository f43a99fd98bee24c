"""Rows of the metadata tables of files and entries, computed by a Spark job: each task reads some manifests.

`icefloe.metadata_tables` defines the rows. Spec: Manifests; Snapshots.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.metadata_tables.file_tables import ManifestRows
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.scan.read_options import PlanningMode
from icefloe.spark.types.arrow_conversion import to_spark_form
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.schema.schema import Schema

# The bytes of manifests up to which the driver reads them itself (their rows take about ten times as many bytes), and the bytes of manifests that a task reads.
MOST_BYTES_HERE, BYTES_OF_A_TASK = 64 * 1024 * 1024, 8 * 1024 * 1024
_ROWS_OF_A_BATCH = 8192
_VALUES = TaskValues()
_PACKED = StructType([StructField("manifests", BinaryType(), False)])


def is_worth_a_job(rows: ManifestRows, mode: PlanningMode) -> bool:
    """Return whether Spark's tasks should compute the rows: always in the mode `distributed`, and in `auto` if the manifests have over `MOST_BYTES_HERE`."""
    return mode == "distributed" or (mode == "auto" and rows.manifest_bytes > MOST_BYTES_HERE)


def rows_by_job(spark: SparkSession, rows: ManifestRows) -> DataFrame:
    """Return the rows of a metadata table as a lazy DataFrame, which Spark's tasks compute from the manifests.

    Raises:
        UnsupportedTypeError: Spark has no type for a column.
    """
    packed = [(bytearray(_VALUES.to_bytes(part.manifests)),) for part in rows.parts(BYTES_OF_A_TASK)]
    slices = max(min(len(packed), MOST_SPARK_TASKS), 1)
    source = spark.createDataFrame(spark.sparkContext.parallelize(packed, slices), _PACKED)
    schema = rows.selection.schema
    return source.mapInArrow(ManifestRowsTask(schema, replace(rows, manifests=())), schema_to_struct(schema, field_ids=False))


def in_spark_form(rows: pa.Table, schema: Schema) -> pa.Table:
    """Convert rows for Spark by `to_spark_form`, and combine their chunks, because PySpark loses rows of tables whose columns have several chunks."""
    arrays = [to_spark_form(rows[field.name], field.field_type) for field in schema.fields]
    return pa.Table.from_arrays(arrays, names=schema.names).combine_chunks()


@dataclass(frozen=True)
class ManifestRowsTask:
    """A function for `mapInArrow`: it takes batches of packed manifests, and returns the rows of a metadata table."""

    schema: Schema
    rows: ManifestRows  # without manifests, because the manifests are in the batches
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the manifests in the batches, and yield the rows of the metadata table."""
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                with self.errors.carry():
                    part = replace(self.rows, manifests=_VALUES.from_bytes(packed, tuple))
                    rows = in_spark_form(part.arrow(), self.schema)
                yield from rows.to_batches(max_chunksize=_ROWS_OF_A_BATCH)
