"""The Spark job that writes a DataFrame to data files: rows are checked against the table's schema, distributed over tasks, and written by the tasks.

Files are not renamed or listed: each task returns the data files that it wrote, and the driver collects them. `datafile/data_file_writer.py` writes the files.
Spec: Writing Data Files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import appender_factory, write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.types.arrow_conversion import from_spark_form, scaled_decimals, with_list_offsets
from icefloe.spark.types.spark_types import geo_to_wkb
from icefloe.spark.write.distribution import KEY_PREFIX, distributed_for_tasks
from icefloe.spark.write.failed_attempt_cleanup import (
    FinishedFiles,
    TaskAttempt,
    check_files_exist,
    delete_lost_attempts,
    this_attempt,
    this_task,
    writing_job,
)
from icefloe.spark.write.schema_check import check_fits, unscaled_decimals, widened_decimals
from icefloe.spec.arrow_values import array_of
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_properties import ADVISORY_PARTITION_SIZE_BYTES
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import BinaryType as BytesType
from icefloe.spec.types import DecimalType, GeographyType, GeometryType, IcebergType, VariantType, children

# The rows of an Arrow batch from Spark to Python. Larger batches were no faster, and take more memory if rows are wide.
ROWS_PER_BATCH = 8192
ROWS_PER_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
# If there is a limit in bytes, Spark 4.1 and later compute the size of the batch for every row, which takes more time than the batch itself. The largest value
# turns that off.
BYTES_PER_BATCH_CONF = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_BYTES_LIMIT = 2**31 - 1
_ADVISORY_CONF = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_OUTCOME_COLUMN = "outcome"
RESULT = StructType([StructField(_OUTCOME_COLUMN, BinaryType(), False)])


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The result of a writing task: the data files that it wrote, and the attempt of the task."""

    files: tuple[DataFile, ...]
    attempt: TaskAttempt


_VALUES = TaskValues(TaskFiles, TaskAttempt)


@dataclass(frozen=True)
class TaskWriter:
    """A function for `mapInArrow`: it writes the rows of a task to data files, and returns a single row with the serialized `TaskFiles`."""

    target: WriteTarget
    finished: FinishedFiles
    names: tuple[str, ...] = ()  # the names of the columns, if the batches have other names; see `ready_to_write`
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, and yield one row with its serialized `TaskFiles`; no row if there were no rows."""
        task_files = self.files_of(batches)
        if task_files is not None:
            yield pa.RecordBatch.from_arrays([array_of([_VALUES.to_bytes(task_files)], pa.binary())], names=[_OUTCOME_COLUMN])

    def files_of(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles | None:
        """Write rows to data files, and return the files; None if there are no rows."""
        task = this_task()
        with self.errors.carry():
            files = write_batches(self.target, self._table_batches(batches), partition_id=task.partition_id, task_id=task.task_id)
        if not files:
            return None
        self.finished.add([file.file_path for file in files])
        return TaskFiles(tuple(files), this_attempt())

    def _table_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches without the keys of the shuffle, and with types that Spark lacks converted. All other types are cast later, for many batches."""
        field_types = {field.name: field.field_type for field in self.target.schema.fields}
        for spark_batch in map(with_list_offsets, batches):
            names, arrays = [], []
            for name, array in zip(self.names or spark_batch.schema.names, spark_batch.columns, strict=True):
                if name in field_types or not name.startswith(KEY_PREFIX):
                    names.append(name)
                    arrays.append(_in_table_form(array, field_types.get(name), name))
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def _in_table_form(array: Any, field_type: IcebergType | None, column: str) -> Any:
    if isinstance(field_type, DecimalType) and pa.types.is_int64(array.type):
        return scaled_decimals(array, pa.decimal128(field_type.precision, field_type.scale))
    return array if field_type is None else from_spark_form(array, field_type, column)


def write_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Run a Spark job that writes the rows of a DataFrame to data files.

    Returns:
        The data files, in the order of Spark's partitions.

    Raises:
        SchemaMismatchError: the columns do not fit, which is detected before a job runs; or a value does not fit, such as a null in a required column.
        StorageError: the storage refused a task and its retries; or the workers wrote to their local disks, which this process cannot read.
        EngineError: the job failed for another reason.
    """
    spark = rows.sparkSession
    # Invalid file properties are detected here, before a job runs, and warnings about the format are logged on the driver.
    appender_factory(target.schema, target.properties, target.sort_order)
    ready, target, names = ready_to_write(rows, target)
    with advisory_partition_size(spark, target), small_batches(spark, target.schema), writing_job(spark, target) as finished:
        written = ready.mapInArrow(TaskWriter(target, finished, names), RESULT)
        results = run_job(spark, f"write {target.table_name}", written.collect)
        return files_of_results(spark, target, results)


def files_of_results(spark: SparkSession, target: WriteTarget, results: Iterable[Row]) -> list[DataFile]:
    """Return the data files that a job of `TaskWriter` wrote, and delete the files of attempts whose results are not used.

    Raises:
        StorageError: This process does not find a local file that a task wrote.
    """
    task_files = [_VALUES.from_bytes(packed, TaskFiles) for (packed,) in results]
    files = [file for task in task_files for file in task.files]
    delete_lost_attempts(spark, target, {file.file_path for file in files}, (task.attempt for task in task_files))
    check_files_exist(target, (file.file_path for file in files))
    return files


def ready_to_write(rows: DataFrame, target: WriteTarget) -> tuple[DataFrame, WriteTarget, tuple[str, ...]]:
    """Check, distribute and sort rows for a `TaskWriter`.

    Returns:
        The rows; the target for the `TaskWriter`; and its argument `names`: the names of the columns if the rows have substitute names for them, because
            PySpark would misread dots in names; otherwise empty.

    Raises:
        SchemaMismatchError: the columns do not fit the table.
    """
    check_fits(rows.schema, target.schema)
    if target.sort_order.is_unsorted:
        # The rows are not sorted, so that the files must not have a sort order id.
        target = replace(target, sort_order_id=0)
    fitted = widened_decimals(geo_to_wkb(rows), target.schema)
    ready = distributed_for_tasks(fitted, target, unscaled_decimals(fitted))
    names: tuple[str, ...] = ()
    if any("." in name or "`" in name for name in ready.columns):
        # mapInArrow parses each column name as a path through structs, which a dot in a name would break.
        names = tuple(ready.columns)
        ready = ready.toDF(*(f"column_{place}" for place in range(len(names))))
    return ready, target, names


@contextmanager
def small_batches(spark: SparkSession, schema: Schema) -> Iterator[None]:
    """Return a context in which Spark limits Arrow batches to `ROWS_PER_BATCH` rows, and only if the schema may have large values also by bytes."""
    settings = {ROWS_PER_BATCH_CONF: str(ROWS_PER_BATCH)}
    if not any(_holds_bytes(field.field_type) for field in schema.fields):
        settings[BYTES_PER_BATCH_CONF] = str(NO_BYTES_LIMIT)
    with _settings(spark, settings):
        yield


@contextmanager
def advisory_partition_size(spark: SparkSession, target: WriteTarget) -> Iterator[None]:
    """Return a context with the advisory size of shuffle partitions that the table or the write configures; if none, with the session's setting."""
    advisory_bytes = ADVISORY_PARTITION_SIZE_BYTES.read(target.properties)
    with _settings(spark, {} if advisory_bytes is None else {_ADVISORY_CONF: str(advisory_bytes)}):
        yield


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Return a context in which settings of a session have these values."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _holds_bytes(field_type: IcebergType) -> bool:
    return isinstance(field_type, BytesType | GeometryType | GeographyType | VariantType) or any(
        _holds_bytes(field.field_type) for field in children(field_type)
    )
