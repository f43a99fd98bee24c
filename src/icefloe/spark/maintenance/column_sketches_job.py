"""The Spark job that counts distinct values: each task reads columns of many files into theta sketches, and the sketches are merged on the way to the driver.

The sketches of a task are `datafile/column_sketches.py`. Spec: Puffin file format; Table Statistics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from icefloe.datafile.column_sketches import SketchedColumn, column_sketches
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.operations.engine import SketchRequest
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.scan.python_scan import with_advice_about_workers
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH, ThetaSketch, sketch_from_bytes, union
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

# Bytes of data files in one Spark task, of which only the selected columns are read.
BYTES_PER_TASK = 128 * 1024 * 1024
# Levels of tasks that merge the sketches of others: the driver then receives about the cube root of their number, 22 of 10,000.
MERGE_LEVELS = 3


@dataclass(frozen=True)
class TaskSketcher:
    """The function that Spark tasks run: it takes scan tasks, and returns the serialized sketches of their columns."""

    io: FileIO
    schema: Schema
    projection: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader
    columns: tuple[SketchedColumn, ...]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, tasks: Iterable[FileScanTask]) -> Iterator[list[bytes]]:
        """Yield the sketches of the rows of all tasks, one for each column."""
        with self.errors.carried():
            batches = (batch for task in tasks for batch in self._batches(task))
            found = column_sketches(with_advice_about_workers(batches), self.columns)
        yield [sketch.to_bytes() for sketch in found]

    def _batches(self, task: FileScanTask) -> Iterator[Any]:
        return read_task(
            self.io,
            task,
            schema=self.schema,
            projection=self.projection,
            specs=self.specs,
            name_mapping=self.name_mapping,
            deletes=self.deletes,
        )


def sketches(spark: SparkSession, request: SketchRequest) -> Sequence[ThetaSketch]:
    """Return a sketch of the values of each column.

    Raises:
        NoSuchFileError: A data or delete file is missing.
        DataFileFormatError: A file is damaged.
        StorageError: The storage refused a task, and Spark's retries too.
        EngineError: The job failed for another reason.
    """
    if not request.tasks:
        return [EMPTY_SKETCH] * len(request.columns)
    scan = request.scan
    deletes = DeleteLoader(scan.io, schemas=scan.schemas, name_mapping=scan.name_mapping)
    sketcher = TaskSketcher(scan.io, scan.schema, scan.projection, dict(scan.specs), scan.name_mapping, deletes, request.columns)
    found = spark.sparkContext.parallelize(list(request.tasks), _spark_tasks(spark, request.tasks)).mapPartitions(sketcher)
    merged = run_job(spark, f"count distinct values of {scan.table_name}", partial(found.treeReduce, merged_sketches, depth=MERGE_LEVELS))
    return [sketch_from_bytes(content) for content in merged]


def merged_sketches(left: Sequence[bytes], right: Sequence[bytes]) -> list[bytes]:
    """Return the serialized unions of the sketches of two tasks, column by column."""
    pairs = zip(left, right, strict=True)
    return [union((sketch_from_bytes(one), sketch_from_bytes(other))).to_bytes() for one, other in pairs]


def _spark_tasks(spark: SparkSession, tasks: Sequence[FileScanTask]) -> int:
    """Return the number of Spark tasks: one for each `BYTES_PER_TASK`, at least as many as Spark runs at a time, at most one for each file."""
    wanted = max(spark.sparkContext.defaultParallelism, -(-sum(task.length for task in tasks) // BYTES_PER_TASK))
    return min(len(tasks), wanted, MOST_SPARK_TASKS)
