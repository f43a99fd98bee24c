"""A DataFrame becomes data files: checked against the table, spread over tasks, written in each by `datafile.write`.

Nothing is renamed or listed: each task hands back the data files it wrote, and the driver collects them. Spec: Writing Data Files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.output_file import file_form
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_properties import ADVISORY_PARTITION_SIZE_BYTES
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import BinaryType as BytesType
from icefloe.kernel.types import GeographyType, GeometryType, IcebergType, VariantType, children
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.types.arrow_conversion import differs, from_spark_form, with_offsets
from icefloe.spark.types.geo_types import wkb_of_shapes
from icefloe.spark.write.distribution import distributed
from icefloe.spark.write.failed_attempt_cleanup import Attempt, FinishedFiles, delete_lost_attempts, this_attempt, writing_job
from icefloe.spark.write.schema_check import check_fits, widened_decimals

# Rows that cross from Spark to Python at a time; larger batches were no faster, and take more memory where rows are wide.
ROWS_PER_BATCH = 8192
ROWS_PER_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
# Spark 4.1 and later compute the size of a batch anew for every row to keep it below this many bytes, which takes more time than making the batch.
# Its largest value turns that off.
BYTES_PER_BATCH_CONF = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_BYTES_LIMIT = 2**31 - 1
_ADVISORY_CONF = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_OUTCOME_COLUMN = "outcome"
RESULT = StructType([StructField(_OUTCOME_COLUMN, BinaryType(), False)])


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The data files that one task wrote, and which attempt at it did."""

    files: tuple[DataFile, ...]
    attempt: Attempt


_VALUES = TaskValues(TaskFiles, Attempt)


@dataclass(frozen=True)
class TaskWriter:
    """Runs in Spark's tasks: rows in, one row with the `TaskFiles` as bytes out."""

    target: WriteTarget
    finished: FinishedFiles  # where the locations of finished files go
    names: tuple[str, ...] = ()  # of the columns, where they come under stand-ins
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = self.files_of(batches)
        if written is not None:
            yield pa.RecordBatch.from_arrays([pa.array([_VALUES.to_bytes(written)], pa.binary())], names=[_OUTCOME_COLUMN])

    def files_of(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles | None:
        """Write the rows and return the files; None where there are no rows."""
        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        task_id = context.taskAttemptId() if context is not None else 0
        with self.errors.carried():
            files = write_batches(self.target, self._fitted(batches), partition_id=partition_id, task_id=task_id)
        if not files:
            return None
        self.finished.add([file.file_path for file in files])
        return TaskFiles(tuple(files), this_attempt())

    def _fitted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with what Spark has no type for in the table's form; the rest is cast when rows are gathered, many batches at once."""
        kinds = {field.name: field.field_type for field in self.target.schema.fields if differs(field.field_type)}
        for found in map(with_offsets, batches):
            batch = found.rename_columns(list(self.names)) if self.names else found
            if not kinds:
                yield batch
                continue
            names = batch.schema.names
            arrays = [
                from_spark_form(array, kinds[name], name) if name in kinds else array
                for name, array in zip(names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def write_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Writes the rows and returns the files, in the order of Spark's partitions.

    Raises:
        SchemaMismatchError: the columns do not fit, found before anything runs; or a value does not, such as a null where one is required.
        StorageError: storage refused a task, and Spark's retries too.
        EngineError: the job failed for another reason.
    """
    spark = rows.sparkSession
    # A wrong property of the files is refused before a job runs, and what they cannot have is said here, where it is seen.
    file_form(target.schema, target.properties, target.sort_order)
    ready, target, names = ready_to_write(rows, target)
    with advised(spark, target), small_batches(spark, target.schema), writing_job(spark, target) as finished:
        written = ready.mapInArrow(TaskWriter(target, finished, names), RESULT)
        results = run_job(spark, f"write {target.table_name}", written.collect)
        return files_of_results(spark, target, results)


def files_of_results(spark: SparkSession, target: WriteTarget, results: Iterable[Row]) -> list[DataFile]:
    """The data files that a job of `TaskWriter` wrote; those of attempts that lost are deleted."""
    found = [_VALUES.from_bytes(packed, TaskFiles) for (packed,) in results]
    files = [file for one in found for file in one.files]
    delete_lost_attempts(spark, target, {file.file_path for file in files}, (one.attempt for one in found))
    return files


def ready_to_write(rows: DataFrame, target: WriteTarget) -> tuple[DataFrame, WriteTarget, tuple[str, ...]]:
    """The rows checked, spread and sorted for a `TaskWriter` of the target; and the names of the columns where those are stand-ins.

    Raises `SchemaMismatchError`.
    """
    check_fits(rows.schema, target.schema)
    if target.sort_order.is_unsorted:
        # No file may say that it is sorted when nothing sorted it.
        target = replace(target, sort_order_id=0)
    ready = distributed(widened_decimals(wkb_of_shapes(rows), target.schema), target)
    names: tuple[str, ...] = ()
    if any("." in name or "`" in name for name in ready.columns):
        # mapInArrow looks each column up by its name as if it were a path through structs.
        names = tuple(ready.columns)
        ready = ready.toDF(*(f"column_{place}" for place in range(len(names))))
    return ready, target, names


@contextmanager
def small_batches(spark: SparkSession, schema: Schema) -> Iterator[None]:
    """Batches limited by rows alone; where rows of the schema may hold large values, by Spark's limit in bytes as well."""
    wanted = {ROWS_PER_BATCH_CONF: str(ROWS_PER_BATCH)}
    if not any(_holds_bytes(field.field_type) for field in schema.fields):
        wanted[BYTES_PER_BATCH_CONF] = str(NO_BYTES_LIMIT)
    with _settings(spark, wanted):
        yield


@contextmanager
def advised(spark: SparkSession, target: WriteTarget) -> Iterator[None]:
    """How many bytes of shuffled rows a task should take, where the table or the write says so; else what the session says."""
    wanted = ADVISORY_PARTITION_SIZE_BYTES.read(target.properties)
    with _settings(spark, {} if wanted is None else {_ADVISORY_CONF: str(wanted)}):
        yield


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _holds_bytes(kind: IcebergType) -> bool:
    return isinstance(kind, BytesType | GeometryType | GeographyType | VariantType) or any(
        _holds_bytes(field.field_type) for field in children(kind)
    )
