"""Scan tasks as partitions of a Python data source: the grouping of scan tasks, their rows as Spark expects them, and the check of the requested columns.

`python_data_source.py` reads a table, and `stream_reader.py` the batches of a stream. Spec: Scan Planning; Column Projection.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import SchemaMismatchError
from icefloe.operations.engine import ScanRequest
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.scan.python_scan import TaskReader
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.metadata.table_properties import SPLIT_SIZE

SPLIT_OPTION = "split-size"
# Options of Java's Iceberg that have no effect where Python reads the files.
UNUSED_BY_PYTHON = dict.fromkeys(
    ("file-open-cost", "vectorization-enabled", "batch-size", "aggregate-push-down-enabled"),
    "the data source reads files through Python, in Arrow batches, and leaves aggregates to Spark",
)
# In Arrow's schema timestamps are in UTC by default until Spark 4.1; from 4.2 on the zone is a required argument.
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
# Bytes of data files for one Spark task, and the cost of opening a file in bytes: Spark's defaults (spark.sql.files.maxPartitionBytes, openCostInBytes).
BYTES_PER_TASK = 128 * 1024 * 1024
OPEN_COST_BYTES = 4 * 1024 * 1024
_OPEN_END = 2**62


def pack_tasks(tasks: Iterable[FileScanTask], *, bytes_per_task: int = BYTES_PER_TASK) -> Iterator[tuple[FileScanTask, ...]]:
    """Group scan tasks, in order, into groups of about `bytes_per_task` bytes. A larger Parquet file is split at row groups into several scan tasks."""
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        for part, length in _split_task(task, bytes_per_task):
            cost = max(length, min(OPEN_COST_BYTES, bytes_per_task))
            if group and size + cost > bytes_per_task:
                yield tuple(group)
                group, size = [], 0
            group.append(part)
            size += cost
    if group:
        yield tuple(group)


def _split_task(task: FileScanTask, bytes_per_task: int) -> Iterator[tuple[FileScanTask, int]]:
    """Split a scan task into tasks of whole row groups, each with its length in bytes. A task has over `bytes_per_task` only if it is one row group."""
    start, end = task.start, task.start + task.length
    offsets = sorted(offset for offset in task.file.split_offsets or () if start < offset < end)
    if task.file.file_format is not FileFormat.PARQUET or not offsets or task.length <= bytes_per_task:
        yield task, task.length
        return
    for offset, after in pairwise([*offsets, end]):
        if after - start > bytes_per_task and offset > start:
            yield replace(task, start=start, length=offset - start), offset - start
            start = offset
    # The last part has no end, because the file may be longer than the manifest states.
    yield replace(task, start=start, length=_OPEN_END - start), end - start


@dataclass
class TasksPartition(InputPartition):
    """The scan tasks that one Spark task reads."""

    tasks: tuple[FileScanTask, ...]


def bytes_per_task(options: Mapping[str, str], properties: Mapping[str, str]) -> int:
    """Return the bytes of data files for one Spark task by the options of a read, with names in lower case, or the table's properties.

    Raises:
        InvalidPropertyError: The size is not valid.
    """
    return SPLIT_SIZE.read(properties if SPLIT_OPTION not in options else {SPLIT_SIZE.name: options[SPLIT_OPTION]}) or BYTES_PER_TASK


def task_reader(request: ScanRequest) -> TaskReader:
    """Return the reader of the files of a request, which is sent to Spark's tasks."""
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    return TaskReader(request.io, request.schema, request.projection, dict(request.specs), request.name_mapping, deletes)


def rows_of_tasks(reader: TaskReader, tasks: Iterable[FileScanTask], columns: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of scan tasks, with the Arrow types that Spark expects for the columns."""
    form = to_arrow_schema(columns, **IN_UTC)
    for task in tasks:
        for batch in reader.rows(task):
            arrays = [
                array if array.type == field.type else array.cast(field.type) for array, field in zip(batch.columns, form, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=form)


def check_types(schema: StructType, table_columns: StructType, table_name: str) -> None:
    """Raise `SchemaMismatchError` if columns that Spark requests have other types than those of the table."""
    kinds = {field.name: field.dataType.simpleString() for field in table_columns}
    mismatches = [
        f"{field.name} is {kinds.get(field.name)}, not {field.dataType.simpleString()}"
        for field in schema
        if kinds.get(field.name) != field.dataType.simpleString()
    ]
    if mismatches:
        raise SchemaMismatchError(
            f"the columns of .schema(...) are not those of {table_name}: {', '.join(mismatches)}",
            table=table_name,
            next_step="read without .schema(...) and cast the columns; choose some with the option columns",
        )
