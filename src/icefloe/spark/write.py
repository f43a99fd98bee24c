"""A DataFrame becomes data files: checked against the table, spread over tasks, written in each by `datafile.write`.

Nothing is renamed or listed: each task hands back the data files it wrote, and the driver collects them. Floor: spark. Spec: Writing Data Files.
"""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.target import WriteTarget
from icefloe.datafile.write import write_batches
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.schema.cast import cast_to_schema
from icefloe.spark.arrow_forms import differs, from_spark_form
from icefloe.spark.distribution import distributed
from icefloe.spark.fit import check_fits, widened_decimals
from icefloe.spark.jobs import errors_carried, run_job

# Rows that cross from Spark to Python at a time. Spark's default of 10,000 costs about a tenth more; far larger batches only cost memory.
ROWS_PER_BATCH = 65_536
ROWS_PER_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILES_COLUMN = "data_files"
_RESULT = StructType([StructField(FILES_COLUMN, BinaryType(), False)])


@dataclass(frozen=True)
class TaskWriter:
    """Runs in Spark's tasks: rows in, one row with the pickled data files out."""

    target: WriteTarget

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        task_id = context.taskAttemptId() if context is not None else 0
        with errors_carried():
            files = write_batches(self.target, self._fitted(batches), partition_id=partition_id, task_id=task_id)
        if files:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(list(files))], pa.binary())], names=[FILES_COLUMN])

    def _fitted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self.target.schema
        kinds = {field.name: field.field_type for field in schema.fields if differs(field.field_type)}
        for batch in batches:
            table = pa.Table.from_batches([batch])
            for place, name in enumerate(table.column_names):
                if name in kinds:
                    table = table.set_column(place, name, from_spark_form(batch.column(place), kinds[name], name))
            yield from cast_to_schema(table, schema).to_batches()


def write_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Writes the rows and returns the files, in the order of Spark's partitions.

    Raises:
        SchemaMismatchError: the columns do not fit, found before anything runs; or a value does not, such as a null where one is required.
        StorageError: storage refused a task, and Spark's retries too.
        EngineError: the job failed for another reason.
    """
    spark = rows.sparkSession
    check_fits(rows.schema, target.schema)
    if target.sort_order.is_unsorted:
        # No file may say that it is sorted when nothing sorted it.
        target = replace(target, sort_order_id=0)
    ready = distributed(widened_decimals(rows, target.schema), target)
    written = ready.mapInArrow(TaskWriter(target), _RESULT)
    with _rows_per_batch(spark):
        results = run_job(spark, f"write {target.table_name}", written.collect)
    return [file for (packed,) in results for file in pickle.loads(packed)]  # noqa: S301 packed by TaskWriter in this job


@contextmanager
def _rows_per_batch(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(ROWS_PER_BATCH_CONF)
    if before is not None and int(before) in range(1, ROWS_PER_BATCH):
        spark.conf.set(ROWS_PER_BATCH_CONF, str(ROWS_PER_BATCH))
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(ROWS_PER_BATCH_CONF, before)
