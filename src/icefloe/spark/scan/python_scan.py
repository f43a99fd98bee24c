"""Rows of files that Spark's own reader cannot read: `icefloe/datafile` reads them inside Spark's tasks and passes them to Spark as Arrow.

`read_strategy.py` decides when, with a warning. Spec: Column Projection.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import NoSuchFileError
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.types.arrow_conversion import needs_conversion, to_spark_form
from icefloe.spark.types.spark_types import schema_to_struct

# Bytes of data files per Spark task, the default of Spark's own scan (spark.sql.files.maxPartitionBytes).
BYTES_PER_TASK = 128 * 1024 * 1024
TASKS_COLUMN = "tasks"
UNSEEN_FILE = (
    "Spark's workers do not see the file: if it is in a local folder, run them on the machine that has the folder, or mount it there; "
    "else check the path, as the file may have been deleted or moved"
)
_VALUES = TaskValues()


@dataclass(frozen=True)
class TaskReader:
    """A function that Spark tasks run: it takes packed scan tasks, and returns their rows."""

    io: FileIO
    schema: Schema
    projection: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None = None
    deletes: DeleteLoader | None = None  # each Spark task has a copy of its own, empty at first

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of the scan tasks in the batches."""
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                for task in _VALUES.from_bytes(packed, list):
                    yield from self.rows(task)

    def rows(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Read the rows of a scan task that are not deleted and match its residual filter, in the form that Spark expects."""
        fields = self.projection.fields
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
            if any(needs_conversion(field.field_type) for field in fields):
                arrays = [to_spark_form(batch.column(index), field.field_type) for index, field in enumerate(fields)]
                yield pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
            else:
                yield batch


def with_advice_about_workers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; add to an error about a missing file that a worker may be another machine. Raises `NoSuchFileError`."""
    try:
        yield from batches
    except NoSuchFileError as error:
        raise NoSuchFileError(error.message, table=error.table, path=error.path, next_step=UNSEEN_FILE) from error


def python_rows(spark: SparkSession, tasks: Sequence[FileScanTask], reader: TaskReader) -> DataFrame:
    """Return the rows of scan tasks as a DataFrame.

    Args:
        spark: A classic session.
        tasks: Tasks of the scan.
        reader: Reads them; the frame has the columns of its projection.
    """
    groups = list(_task_groups(tasks, max(2, spark.sparkContext.defaultParallelism)))
    packed = spark.sparkContext.parallelize([(bytearray(_VALUES.to_bytes(group)),) for group in groups], max(1, len(groups)))
    source = spark.createDataFrame(packed, StructType([StructField(TASKS_COLUMN, BinaryType(), False)]))
    return source.mapInArrow(reader, schema_to_struct(reader.projection, field_ids=False))


def _task_groups(tasks: Sequence[FileScanTask], parallelism: int) -> Iterator[list[FileScanTask]]:
    """Yield the tasks in order, in groups of about equal bytes."""
    total = sum(task.length for task in tasks)
    limit = min(BYTES_PER_TASK, total // parallelism + 1)
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        if group and size + task.length > limit:
            yield group
            group, size = [], 0
        group.append(task)
        size += task.length
    if group:
        yield group
