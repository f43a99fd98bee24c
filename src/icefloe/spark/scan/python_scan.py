"""Scans of files that Spark's own reader cannot read: `icefloe/datafile` reads them inside of Spark's tasks, and passes the rows to Spark as Arrow.

`read_strategy.py` decides which files are read in this way, and logs a warning. Spec: Column Projection.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import NoSuchFileError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.bridge.gateway import executors_have_classes, java_array, java_class
from icefloe.spark.jobs.task_errors import UNSEEN_FILE
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.runtime.spark_versions import is_proven
from icefloe.spark.scan.native_scan import native_scans
from icefloe.spark.scan.scan_metrics import ScanMetric
from icefloe.spark.types.arrow_conversion import needs_conversion, to_spark_form
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

# Bytes of data files in a Spark task: the default of Spark's own scan (spark.sql.files.maxPartitionBytes).
BYTES_PER_TASK = 128 * 1024 * 1024
TASKS_COLUMN = "tasks"
_VALUES = TaskValues()


class PackedTask(Protocol):
    """A part of a scan that is packed for Spark's tasks; `length` is the number of bytes to read."""

    @property
    def length(self) -> int:
        """The number of bytes of the file that are read."""
        ...


class PackedTaskReader(Protocol):
    """A function for `mapInArrow` that takes batches of packed tasks, and returns batches of their rows, with the columns of its projection."""

    @property
    def projection(self) -> Schema:
        """The columns of the rows."""
        ...

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        ...

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tasks that are packed in the batches."""
        ...


@dataclass(frozen=True)
class TaskReader:
    """A function for `mapInArrow`: it takes batches of packed scan tasks, and returns batches of the rows of their files."""

    io: FileIO
    schema: Schema
    projection: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None = None
    deletes: DeleteLoader | None = None  # each Spark task has its own copy, which is empty at first

    @property
    def values(self) -> TaskValues:
        """What packs and unpacks the tasks."""
        return _VALUES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of the scan tasks that are packed in the batches."""
        for task in unpack_tasks(self.values, batches):
            yield from self.rows(task)

    def rows(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Read the live rows of a scan task that match its residual filter, and yield them as batches that Spark accepts (see `to_spark_form`)."""
        batches = read_task(
            self.io,
            task,
            schema=self.schema,
            projection=self.projection,
            specs=self.specs,
            name_mapping=self.name_mapping,
            deletes=self.deletes,
        )
        for batch in with_advice_about_workers(batches):
            yield batch_for_spark(batch, self.projection)


def batch_for_spark(batch: pa.RecordBatch, projection: Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a projection in the form that Spark accepts (see `to_spark_form`)."""
    if not any(needs_conversion(field.field_type) for field in projection.fields):
        return batch
    arrays = [to_spark_form(batch.column(index), field.field_type) for index, field in enumerate(projection.fields)]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in projection.fields])


def unpack_tasks(values: TaskValues, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Yield the tasks that are packed in batches."""
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            yield from values.from_bytes(packed, list)


def with_advice_about_workers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches. If reading them raises `NoSuchFileError`, raise it again with the advice that workers on other machines may not see a local file."""
    try:
        yield from batches
    except NoSuchFileError as error:
        raise NoSuchFileError(error.message, table=error.table, path=error.path, next_step=UNSEEN_FILE) from error


def python_rows(
    spark: SparkSession,
    tasks: Sequence[PackedTask],
    reader: PackedTaskReader,
    name: str,
    reason: str,
    size: int,
    metrics: Sequence[ScanMetric] = (),
) -> DataFrame:
    """Return a lazy DataFrame of the rows of scan tasks, which Python reads in Spark's tasks.

    If possible, Spark computes on the Arrow batches from Python directly; otherwise it uses `mapInArrow`, which converts them to rows.

    Args:
        spark: A classic session.
        tasks: The scan tasks.
        reader: The function that reads the scan tasks; the DataFrame has the columns of its projection.
        name: The name of the table, for EXPLAIN.
        reason: Why Spark does not read the files itself, for EXPLAIN where the session has an accelerator.
        size: The estimated bytes of the rows, for Spark's optimizer.
        metrics: What Spark's SQL tab shows for the scan, unless Spark converts the batches.
    """
    packed = [reader.values.to_bytes(group) for group in _task_groups(tasks, max(2, spark.sparkContext.defaultParallelism))]
    columns = schema_to_struct(reader.projection, field_ids=False)
    batches = _rows_of_batches(spark, packed, reader, columns, name, reason, size, metrics)
    if batches is not None:
        return batches
    source = _one_row_each(spark, packed)
    return source.mapInArrow(reader, columns)


def _rows_of_batches(
    spark: SparkSession,
    packed: Sequence[bytes],
    reader: PackedTaskReader,
    columns: StructType,
    name: str,
    reason: str,
    size: int,
    metrics: Sequence[ScanMetric],
) -> DataFrame | None:
    """Return the rows as a scan whose batches Spark computes on; None if Spark must convert them to rows, is not proven, or executors lack the classes."""
    if not columns.fields or not is_proven(spark.version) or not executors_have_classes(spark):
        return None
    function = UserDefinedFunction(reader, columns, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)._judf.func()
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    scans, session = native_scans(spark), spark._jsparkSession
    rows = scans.readByPython(session, name, reason, function, kind, columns.json(), packed, size, json.dumps(metrics))
    return None if rows is None else DataFrame(rows, spark)


def _one_row_each(spark: SparkSession, values: Sequence[bytes]) -> DataFrame:
    """Return a DataFrame with a one-row partition for each value. Java creates the rows, because PySpark would need a second Python process in each task."""
    row_of = java_class(spark, "org.apache.spark.sql.RowFactory").create
    rows = java_class(spark, "java.util.ArrayList")()
    for value in values:
        rows.add(row_of(java_array(spark, "java.lang.Object", [value])))
    session = spark._jsparkSession
    schema = session.parseDataType(StructType([StructField(TASKS_COLUMN, BinaryType(), False)]).json())
    partitions = spark.sparkContext._jsc.parallelize(rows, max(1, len(values)))
    return DataFrame(session.createDataFrame(partitions, schema), spark)


def _task_groups(tasks: Sequence[PackedTask], parallelism: int) -> Iterator[list[PackedTask]]:
    """Divide scan tasks into groups of about equal bytes, one group for each Spark task. The order of the scan tasks is kept.

    There are as many groups as are needed for `BYTES_PER_TASK` bytes each, but at least `parallelism`, unless there are fewer scan tasks.
    """
    total = sum(task.length for task in tasks)
    count = max(parallelism, -(-total // BYTES_PER_TASK))
    groups: dict[int, list[PackedTask]] = {}
    start = 0
    for task in tasks:
        middle = 2 * start + task.length  # twice the position of the task's middle byte among all bytes
        groups.setdefault(middle * count // (2 * total) if total else 0, []).append(task)
        start += task.length
    yield from groups.values()
