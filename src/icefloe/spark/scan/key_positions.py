"""Positions of the rows that equality deletes delete: a Spark job finds them once, and they are cached for later statements on the same files in a session.

A scan that looks up keys must read the key columns, which may be most of its cost. So only the first scan of a set of files looks up keys. The second scan runs
a job that finds the positions of the deleted rows; it and all later scans skip these positions as for a deletion vector. Data files and delete files never
change, so that cached positions stay exact.
Spec: Equality Delete Files; Scan Planning (delete files).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from icefloe.bounded_cache import BoundedCache
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.operations.engine import ScanRequest
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.scan.native_scan import ScanFileGroup
from icefloe.spark.scan.position_deletes import BEYOND, BYTES_OF_A_KEY, DeletedRows, kind_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions
from icefloe.spec.schema.metadata_columns import DELETED, POS
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

# The number of times that the positions of the same files are searched, if they were evicted in between; after that, keys are looked up.
MOST_SEARCHES = 3
# The maximum number of rows in the searched files, and of bytes of positions: the search reads the key columns of all files while a statement is planned.
MOST_ROWS = 100_000_000
MOST_POSITION_BYTES = 2**26


@dataclass(slots=True)
class _Uses:
    """How often a set of files with equality deletes was scanned, and how often the positions of its deleted rows were searched."""

    scans: int = 0
    searches: int = 0


def with_kept_positions(
    spark: SparkSession, request: ScanRequest, group: ScanFileGroup, known: BoundedCache[Hashable, Any]
) -> ScanFileGroup:
    """Replace the equality deletes of a file group by deleted positions, from the second scan of the same files on.

    Args:
        spark: A classic session whose executors have Icefloe's classes.
        request: The scan.
        group: Files with equality deletes, for Spark's own scan.
        known: The cached positions of earlier statements, to which new positions are added.

    Returns:
        The group with `deleted` set and without `equality`. The same group if this is the first scan of the files, if they have over `MOST_ROWS` rows, or if
        the positions are too large to cache or do not fit in Spark's bitmaps.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A data file or delete file is missing or damaged.
        EngineError: The Spark job that finds the positions failed for another reason.
    """
    if group.equality is None:
        return group
    tasks = [task for part in group.parts for task in part.tasks()]
    if sum(task.file.record_count for task in tasks) > MOST_ROWS:
        return group
    # With a different schema, a key column that files lack may have a different default; with a different name mapping, delete files without field ids
    # may have other keys.
    columns = (request.table_name, request.schema.schema_id, repr(group.equality.key_columns), repr(request.name_mapping))
    key = (columns, *((task.file.file_path, *((file.file_path, file.content_offset) for file in task.delete_files)) for task in tasks))
    key_bytes = BYTES_OF_A_KEY * len(tasks)
    uses = known.get_or_load(("uses", key), lambda: (_Uses(), key_bytes))
    uses.scans += 1
    if uses.scans == 1:
        return group

    def search() -> tuple[DeletedRows | None, int]:  # the size of the key counts as the size of its counters
        if uses.searches == MOST_SEARCHES:
            return None, 0
        uses.searches += 1
        vectors = deleted_positions(spark, request, tasks)
        if any(kind_of(vector) == BEYOND for vector in vectors):
            return None, 0
        rows = DeletedRows(vectors)
        return (rows, rows.size) if rows.size <= MOST_POSITION_BYTES else (None, 0)

    rows = known.get_or_load(("positions", key), search)
    return group if rows is None else replace(group, deleted=rows, equality=None)


def deleted_positions(spark: SparkSession, request: ScanRequest, tasks: Sequence[FileScanTask]) -> list[DeletionVector]:
    """Run a Spark job that reads the key columns, and return the positions of all deleted rows in each task's file. Raises as `with_kept_positions`."""
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    reader = DeletedRowReader(request.io, request.schema, request.specs, request.name_mapping, deletes)
    slices = min(len(tasks), MOST_SPARK_TASKS)
    positions = spark.sparkContext.parallelize(list(tasks), slices).mapPartitions(reader)
    return run_job(spark, f"find rows of {request.table_name} that are deleted by key", positions.collect)


@dataclass(frozen=True)
class DeletedRowReader:
    """A function for Spark's tasks: it takes scan tasks, and returns the positions of all deleted rows in the file of each task."""

    io: FileIO
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, tasks: Iterable[FileScanTask]) -> Iterable[DeletionVector]:
        """Return the deleted positions of each task's file."""
        with self.errors.carry():
            return [self._positions(task) for task in tasks]

    def _positions(self, task: FileScanTask) -> DeletionVector:
        batches = read_task(
            self.io,
            task,
            schema=self.schema,
            projection=Schema(POS, DELETED),
            specs=self.specs,
            row_filter=AlwaysTrue(),
            name_mapping=self.name_mapping,
            deletes=self.deletes,
        )
        deleted: list[Any] = [np.asarray(pc.filter(batch.column(0), batch.column(1))) for batch in batches]
        return deletion_vector_from_positions(np.concatenate([np.empty(0, np.int64), *deleted]))
