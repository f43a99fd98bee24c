"""The Python data source `icefloe`: Spark's tasks read and write a table with Python code, without a JVM in this process.

`connect_options.py` parses its options, `spark/scan/python_scan.py` reads the rows of a task, and `table_writer.py` writes them. `register.py` registers it.
Spec: Data File Fields; Scan Planning; Column Projection; Writing Data Files.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import NoSuchFileError, SchemaMismatchError
from icefloe.operations.data_scan import DataScan
from icefloe.operations.warnings_once import warn_once
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.connect.connect_filters import as_row_filter
from icefloe.spark.connect.connect_options import (
    READ_ID,
    RegisteredCatalogs,
    SourceOptions,
    load_table,
    load_table_at,
    parse_options,
    to_scan,
)
from icefloe.spark.connect.table_writer import TableWriter
from icefloe.spark.jobs.task_errors import UNSEEN_FILE, TaskErrors
from icefloe.spark.scan.python_scan import TaskReader
from icefloe.spark.scan.read_options import UNUSED_BY_QUERIES
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.predicate import And, BooleanExpression
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.metadata.table_properties import NAME_MAPPING, SPLIT_SIZE
from icefloe.spec.ports import FileIO

FORMAT = "icefloe"
SPLIT_OPTION = "split-size"
# Options of Java's Iceberg that have no effect on this source, in addition to those without effect on any read.
UNUSED_BY_SOURCE = UNUSED_BY_QUERIES | dict.fromkeys(
    ("file-open-cost", "vectorization-enabled", "batch-size", "aggregate-push-down-enabled"),
    "the data source reads files through Python, in Arrow batches, and leaves aggregates to Spark",
)
# In Arrow's schema timestamps are in UTC by default until Spark 4.1; from 4.2 on the zone is a required argument.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
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


class IcefloeSource(DataSource):
    """Spark's data source: `spark.read.format("icefloe").load("catalog.namespace.table")`, and `df.write.format("icefloe")` with the same options.

    Attributes:
        registered: Catalogs and storages of the session.
        pushes_filters: Whether the reader accepts pushed filters; if `spark.sql.python.filterPushdown.enabled` is off, Spark refuses readers that accept them.
    """

    registered: ClassVar[RegisteredCatalogs] = RegisteredCatalogs()
    pushes_filters: ClassVar[bool] = False
    # Options with the metadata file that was current when Spark requested the columns, so that Spark later plans from the same file.
    _pinned: tuple[SourceOptions, FileIO] | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns to read as a Spark struct."""
        # `icefloe.spark.table` requests the columns, and unpacks the error. The methods below are called in users' actions, where errors are not packed.
        with TaskErrors(self.registered.error_key, self.options.get(READ_ID)).carry():
            try:
                scan = self._scan()
            except NoSuchFileError as error:  # this process runs on Spark's server, which may be another machine
                raise NoSuchFileError(error.message, table=error.table, path=error.path, next_step=UNSEEN_FILE) from error
            return schema_to_struct(scan.as_held(scan.projection()), field_ids=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`, which Spark takes from the method `schema` or the user has set."""
        scan = self._scan().select(*schema.names)
        _check_types(schema, schema_to_struct(scan.projection(), field_ids=False), scan.table_name)
        options = {name.lower(): text for name, text in self.options.items()}
        for name in options.keys() & UNUSED_BY_SOURCE.keys():
            warn_once("", "read option", name, UNUSED_BY_SOURCE[name])
        properties = scan.metadata.properties if SPLIT_OPTION not in options else {SPLIT_SIZE.name: options[SPLIT_OPTION]}
        bytes_per_task = SPLIT_SIZE.read(properties) or BYTES_PER_TASK
        return (PushingReader if self.pushes_filters else SourceReader)(scan, schema, bytes_per_task)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that appends the rows, or with `overwrite` replaces all rows of the table."""
        return TableWriter(parse_options(self.options), self.registered, schema, overwrite=overwrite)

    def _scan(self) -> DataScan:
        if self._pinned is not None:
            options, io = self._pinned
            return to_scan(load_table_at(options, io), options)
        options = parse_options(self.options)
        table = load_table(options, self.registered)
        self._pinned = options.pin(table), table.io
        return to_scan(table, options)


class IcebergSource(IcefloeSource):
    """The same data source under the name `iceberg`, for programs that use this name although Java's Iceberg is not installed."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "iceberg"


@dataclass
class TasksPartition(InputPartition):
    """The scan tasks that one Spark task reads."""

    tasks: tuple[FileScanTask, ...]


class SourceReader(DataSourceReader):
    """The reader of the data source: it plans the scan on the driver, and reads rows in Spark's tasks, to which the table's metadata is not sent."""

    def __init__(self, scan: DataScan, schema: StructType, bytes_per_task: int = BYTES_PER_TASK) -> None:
        self._bytes_per_task = bytes_per_task
        self._scan: DataScan | None = scan
        self._row_filter: BooleanExpression | None = None
        self._schema = schema
        table_schema, mapping = scan.schema(), NAME_MAPPING.read(scan.metadata.properties)
        self._rows = TaskReader(
            scan.io,
            table_schema,
            scan.projection(),
            {spec.spec_id: spec for spec in scan.metadata.partition_specs},
            mapping,
            DeleteLoader(scan.io, schemas=scan.metadata.schemas, name_mapping=mapping),
        )

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the scan, and return a partition for each Spark task."""
        scan = self._planned_scan()
        plan = (scan if self._row_filter is None else scan.filter(self._row_filter)).plan()
        return [TasksPartition(tasks) for tasks in pack_tasks(plan.tasks(), bytes_per_task=self._bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, with the Arrow types that Spark expects for the columns."""
        if not isinstance(partition, TasksPartition):  # Spark passes a partition object of its own if a plan has no files
            return
        form = to_arrow_schema(self._schema, **_IN_UTC)
        for task in partition.tasks:
            for batch in self._rows.rows(task):
                yield _cast_batch(batch, form)

    def _planned_scan(self) -> DataScan:
        if self._scan is None:
            raise SchemaMismatchError("a reader can plan only in the process that created it")
        return self._scan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scan": None}


class PushingReader(SourceReader):
    """A reader to which Spark pushes filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 Spark's name
        """Use the filters that can be translated to row filters for planning and reading. Yield all other filters, which Spark evaluates itself."""
        accepted: list[BooleanExpression] = []
        for spark_filter in filters:
            expression = as_row_filter(spark_filter, self._rows.schema)
            if expression is None:
                yield spark_filter
            else:
                accepted.append(expression)
        if accepted:
            self._row_filter = accepted[0] if len(accepted) == 1 else And(*accepted)


def _cast_batch(batch: pa.RecordBatch, form: pa.Schema) -> pa.RecordBatch:
    """Cast the columns of a batch to the types that Spark expects."""
    arrays = [array if array.type == field.type else array.cast(field.type) for array, field in zip(batch.columns, form, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=form)


def _check_types(schema: StructType, table_columns: StructType, table_name: str) -> None:
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
